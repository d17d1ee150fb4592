import numpy as np
import pytest

from benchmarks.harness import loops as calls_module
from benchmarks.harness.loops import Calls, check_calls, measured_calls
from benchmarks.harness.workload import Scale
from benchmarks.workloads import launch, restart
from benchmarks.workloads.all_reduce import arrays_of, problem_with

SCALE = Scale(elements=3, batch_size=1, later_epochs=2)


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def passes(self, seconds):
        self.now += seconds


def measured(monkeypatch, problem=""):
    clock = Clock()
    monkeypatch.setattr(calls_module, "time", clock)
    calls = Calls(lambda: clock.passes(100), lambda: clock.passes(2), lambda: problem)
    return measured_calls(lambda scale: lambda: calls)(SCALE)


def test_only_calls_are_timed(monkeypatch):
    measurement = measured(monkeypatch)
    assert (measurement.first_batch_s, measurement.first_epoch_s) == (2, 6)
    assert (measurement.elements, measurement.later_epochs_s) == (3, (6, 6))
    assert check_calls(SCALE, {"drumline": measurement}) == {}


def test_wrong_results_are_reported(monkeypatch):
    measurement = measured(monkeypatch, "gave nonsense")
    assert "gave nonsense" in check_calls(SCALE, {"drumline": measurement})["drumline"]


def test_sums_are_compared_to_the_bit():
    sums = [a + b for a, b in zip(arrays_of(0, 2, 5), arrays_of(1, 2, 5), strict=True)]
    assert problem_with(sums, 2, 5) == ""
    sums[1] = np.nextafter(sums[1], np.float32(9))
    assert "arrays [1]" in problem_with(sums, 2, 5)
    assert "gave 1 arrays, not 2" in problem_with(sums[:1], 2, 5)


@pytest.mark.parametrize(
    ("losses", "said"), [([2.0, 2.0], ""), ([2.0], "trained 1 times"), ([2.0, 2.1], "losses")]
)
def test_launched_trainings_come_to_one_loss(make, losses, said):
    scale = Scale(elements=1, batch_size=1, later_epochs=1)
    good, other = ({"losses": values} for values in ([2.0, 2.0], losses))
    problems = launch.check(scale, {"a": make(evidence=good), "b": make(evidence=other)})
    assert "a" not in problems
    assert said in problems.get("b", "") and bool(said) == ("b" in problems)


@pytest.mark.parametrize(
    ("seconds", "steps", "furthest", "said"),
    [
        ([9.0, 5.0], 70, 60, ""),
        ([9.0], 70, 60, "killed 1 times"),
        ([9.0, 5.0], 45, 40, "step 40 only"),
        ([9.0, 5.0], 150, 60, "again"),
    ],
)
def test_a_job_that_is_killed_goes_on(make, seconds, steps, furthest, said):
    scale = Scale(elements=1, batch_size=1, later_epochs=1)
    evidence = {"seconds": seconds, "steps": steps, "furthest": furthest}
    problems = restart.check(scale, {"a": make(evidence=evidence)})
    assert said in problems.get("a", "") and bool(said) == ("a" in problems)
