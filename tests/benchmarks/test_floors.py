import pytest

from benchmarks.harness.floors import Floor, Spread, judge, ratio, speeds, spread

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


def test_a_ratio_is_the_median_of_ratios_within_rounds(make):
    # The machine is three times slower in the second round; both sides feel it.
    ours = [make(first_epoch_s=s) for s in (1.0, 3.0, 1.0)]
    theirs = [make(first_epoch_s=s) for s in (2.0, 6.0, 8.0)]
    assert ratio(ours, theirs, "first") == Spread(2.0, 2.0, 8.0)


def test_rounds_that_miss_a_side_do_not_count(make):
    ours = [make(first_epoch_s=1.0), None, make(first_epoch_s=1.0)]
    theirs = [make(first_epoch_s=3.0), make(first_epoch_s=99.0), None]
    assert ratio(ours, theirs, "first") == Spread(3.0, 3.0, 3.0)
    assert ratio([None], [make()], "first") is None


def test_a_quicker_first_batch_is_a_ratio_above_one(make):
    assert ratio([make(first_batch_s=0.1)], [make(first_batch_s=0.4)], "first_batch") == Spread(
        *[pytest.approx(4.0)] * 3
    )


def test_speeds_skip_missing_rounds(make):
    assert speeds([make(), None, make(first_epoch_s=4.0)], "first") == Spread(25.0, 37.5, 50.0)
    assert speeds([None], "first") is None


def test_a_spread_needs_values():
    with pytest.raises(ValueError, match="no values"):
        spread([])
