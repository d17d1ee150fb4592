import pytest

from benchmarks.harness.floors import Floor, judge

RELATIVE = Floor("later", at_least=4.0, aim=8.0, against="peer")


@pytest.mark.parametrize(
    ("measured", "outcome", "reached_aim"),
    [(3.9, "miss", False), (4.0, "pass", False), (8.0, "pass", True)],
)
def test_relative_floors(measured, outcome, reached_aim):
    (verdict,) = judge((RELATIVE,), {("later", "peer"): measured}, {})
    assert (verdict.measured, verdict.outcome) == (measured, outcome)
    assert verdict.reached_aim is reached_aim


def test_an_absolute_floor_looks_at_our_own_speed():
    (verdict,) = judge((Floor("later", at_least=5e6),), {}, {"later": 6e6})
    assert (verdict.measured, verdict.outcome) == (6e6, "pass")


@pytest.mark.parametrize(("measured", "outcome"), [(0.7, "short"), (0.8, "reached")])
def test_an_aim_alone_is_never_missed(measured, outcome):
    floor = Floor("later", aim=0.8, against="numpy")
    assert judge((floor,), {("later", "numpy"): measured}, {})[0].outcome == outcome


def test_what_was_not_measured_does_not_pass():
    (verdict,) = judge((RELATIVE,), {("first", "peer"): 9.0}, {"later": 9.0})
    assert verdict.outcome == "not measured"
    assert not verdict.reached_aim
