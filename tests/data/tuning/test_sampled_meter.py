"""Tasks of which a share is measured."""

from __future__ import annotations

from collections.abc import Callable

from drumline.data import AUTOTUNE, Dataset
from drumline.data.runtime.meter import Observation, SampledMeter

TASKS = 20_000


class Clock:
    """A clock that stands still but for the tasks."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def estimated(cost: Callable[[int], float], aim: int = TASKS) -> tuple[float, int, int]:
    """The seconds of work that a meter tells, how many tasks, and how many it measured."""
    clock = Clock()
    meter = SampledMeter("map", (), clock)
    meter.aim(aim)
    for number in range(TASKS):
        meter.task(clock.spend, cost(number))
    return meter.counts.work_seconds, meter.counts.tasks, clock.asked // 2


def test_few_are_measured_and_all_are_told() -> None:
    work, tasks, measured = estimated(lambda number: 0.5)
    assert 40 <= measured <= 180
    assert TASKS - 5_000 <= tasks <= TASKS
    assert work == 0.5 * tasks


def test_tasks_that_differ_by_their_place_are_told_as_they_are() -> None:
    work, _, _ = estimated(lambda number: 10.0 if number % 10 == 0 else 0.0, aim=1_000)
    # Two thousand of them are measured: four standard errors of the mean of 1 second each.
    assert abs(work / TASKS - 1.0) < 0.4


def test_all_are_measured_where_there_are_few_or_somebody_looks() -> None:
    assert estimated(lambda number: 0.25, aim=90) == (0.25 * TASKS, TASKS, TASKS)
    assert not isinstance(Observation().meter("map", ()), SampledMeter)


def test_a_pipeline_that_nobody_observes_is_sampled() -> None:
    dataset = Dataset.range(3).map(int, num_parallel_calls=AUTOTUNE)
    iterator = iter(dataset)
    assert isinstance(iterator.stage.meter, SampledMeter)
    assert [int(value) for value in iterator] == [0, 1, 2]
    assert iterator.stage.meter.counts.tasks == 3
