"""Autotuning on simulated pipelines: at least nine tenths of the best static setting."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drumline.data.engine.tuning import (
    Budget,
    Controller,
    StageCost,
    StageSample,
    _History,
    rate,
    widths_for,
    with_spare,
)
from tests.data.tuning.simulated import Pipeline, Work, best_static, steady_rate, tune

MS = 1e-3
Make = Callable[[], list[Work]]


def always(milliseconds: float) -> Callable[[float], float]:
    return lambda now: milliseconds * MS


def from_to(before: float, after: float, when: float) -> Callable[[float], float]:
    return lambda now: (before if now < when else after) * MS


def skewed() -> list[Work]:
    return [
        Work(always(1.0), most=16),
        Work(always(5.0), most=16),
        Work(always(0.2)),
    ]


def reads() -> list[Work]:
    return [
        Work(always(0.2), always(20.0), most=64),
        Work(always(1.0), most=8),
        Work(always(0.1)),
    ]


def slow_consumer() -> list[Work]:
    return [Work(always(4.0), most=16), Work(always(1.0), most=16), Work(always(0.0), always(3.0))]


def behind_a_thread() -> list[Work]:
    return [Work(always(0.8)), Work(always(3.0), most=16), Work(always(0.1))]


def any_setting(stations: list[Work]) -> bool:
    return True


@pytest.mark.parametrize(
    ("make", "cores"), [(skewed, 4), (reads, 2), (slow_consumer, 8), (behind_a_thread, 6)]
)
def test_nine_tenths_of_the_best_static_setting(make: Make, cores: int) -> None:
    pipeline = Pipeline(make(), cores)
    tune(pipeline, Controller(Budget(cores)), until=3.0)
    found = steady_rate(pipeline, 1.0)
    assert found >= 0.9 * best_static(make, cores, any_setting, 0.5)


def test_load_that_changes_midway() -> None:
    when, cores = 3.0, 4

    def changing() -> list[Work]:
        return [
            Work(always(0.2), from_to(20.0, 2.0, when), most=64),
            Work(from_to(1.0, 8.0, when), most=16),
            Work(always(0.2)),
        ]

    def early() -> list[Work]:
        return [
            Work(always(0.2), always(20.0), most=64),
            Work(always(1.0), most=16),
            Work(always(0.2)),
        ]

    def late() -> list[Work]:
        return [
            Work(always(0.2), always(2.0), most=64),
            Work(always(8.0), most=16),
            Work(always(0.2)),
        ]

    pipeline, controller = Pipeline(changing(), cores), Controller(Budget(cores))
    tune(pipeline, controller, until=2.0)
    assert steady_rate(pipeline, 0.8) >= 0.9 * best_static(early, cores, any_setting, 0.4)
    tune(pipeline, controller, until=6.0)
    assert steady_rate(pipeline, 1.0) >= 0.9 * best_static(late, cores, any_setting, 0.4)
    assert pipeline.stations[0].width <= 16


def test_a_load_that_comes_back_finds_its_workers() -> None:
    def reading() -> list[Work]:
        def wait(now: float) -> float:
            return (20.0 if now % 1.2 < 0.6 else 1.0) * MS

        return [Work(always(0.2), wait, most=64), Work(always(1.0), most=16), Work(always(0.2))]

    pipeline, controller = Pipeline(reading(), 4), Controller(Budget(4))
    tune(pipeline, controller, until=1.2)
    widest = pipeline.stations[0].width
    assert widest >= 40
    while pipeline.now < 4.8:
        tune(pipeline, controller, until=pipeline.now + 0.1)
        assert pipeline.stations[0].width >= widest


def test_memory_is_given_back_at_once() -> None:
    pipeline, controller = Pipeline(reads(), 4), Controller(Budget(4, nbytes=200))
    pipeline.stations[0].nbytes = 4
    tune(pipeline, controller, until=2.0)
    before = pipeline.stations[0].width
    assert before > 20
    pipeline.stations[0].nbytes = 40
    tune(pipeline, controller, until=2.2)
    assert pipeline.stations[0].width == 5


def test_a_budget_of_cores_below_the_machines() -> None:
    budget, cores = Budget(2, strict=True), 8
    pipeline = Pipeline(skewed(), cores)
    tune(pipeline, Controller(budget), until=2.0)
    start, computed = pipeline.now, sum(pipeline.computed)
    found = steady_rate(pipeline, 2.0)
    used = (sum(pipeline.computed) - computed) / (pipeline.now - start)
    assert used <= 2.0 * 1.02

    def within(stations: list[Work]) -> bool:
        trial = Pipeline(stations, cores)
        trial.run(0.5)
        return sum(trial.computed) / 0.5 <= 2.05

    assert found >= 0.9 * best_static(skewed, cores, within, 0.5)


def test_a_budget_of_memory() -> None:
    def large() -> list[Work]:
        return [
            Work(always(0.1), always(20.0), most=64, nbytes=10),
            Work(always(1.0), most=16, nbytes=50),
            Work(always(0.1)),
        ]

    def held(stations: list[Work]) -> int:
        return sum(station.nbytes * station.width for station in stations)

    pipeline = Pipeline(large(), 4)
    tune(pipeline, Controller(Budget(4, nbytes=200)), until=3.0)
    assert held(pipeline.stations) <= 200
    best = best_static(large, 4, lambda stations: held(stations) <= 200, 0.5)
    assert steady_rate(pipeline, 1.0) >= 0.9 * best


def test_workers_that_do_not_help_are_taken_back() -> None:
    stations = [Work(always(2.0), most=64, one_at_a_time=True), Work(always(0.1))]
    pipeline, controller = Pipeline(stations, 8), Controller(Budget(8))
    widths = []
    for _ in range(60):
        tune(pipeline, controller, until=pipeline.now + 0.05)
        widths.append(stations[0].width)
    # From time to time it tries again.
    assert max(widths) > 1
    assert widths.count(1) >= 50
    assert steady_rate(pipeline, 1.0) >= 0.9 * 500


def test_no_more_workers_than_the_consumer_needs() -> None:
    pipeline = Pipeline(slow_consumer(), 8)
    tune(pipeline, Controller(Budget(8)), until=3.0)
    assert [station.width for station in pipeline.stations] == [2, 1, 1]


def test_spare_workers_ask_for_no_spare_ones() -> None:
    def decided(width: int) -> object:
        consumer = StageSample("consumer", 1.0, 1.0)
        reads = StageSample("reads", 3.0, 0.1, width, most=64)
        return Controller(Budget(8)).decide([consumer, reads], 100, 1.0)["reads"]

    assert [decided(width) for width in (1, 2, 3, 5)] == [7, 7, 3, 5]


def test_what_an_element_costs_is_learned_from_the_best_window() -> None:
    history = _History()
    for width, work in enumerate((3.0, 1.25, 1.5), 1):
        assert not history.add(work, 1.0, width)
    assert history.work == 1.25
    assert not history.add(1.5, 1.0, width=4)
    assert not history.add(1.5, 1.0, width=4)
    assert history.add(6.0, 1.0, width=4)
    assert history.work == 6.0
    assert not history.add(5.0, 1.0, width=4)
    assert history.work == 5.0


def test_the_model_by_itself() -> None:
    stations = [StageCost(4.0, 4.0, most=9), StageCost(1.0, 1.0, most=9), StageCost(0.5, 0.5)]
    assert widths_for(stations, Budget(11)) == [8, 2, 1]
    assert rate(stations, [8, 2, 1], 11) == 2.0
    assert widths_for(stations, Budget(5.5)) == [4, 1, 1]
    assert widths_for(stations, Budget(2.75, strict=True)) == [2, 1, 1]
    assert widths_for(stations, Budget(1)) == [1, 1, 1]
    waiting = [StageCost(10.0, 0.1, nbytes=3, most=64), StageCost(1.0, 1.0)]
    assert widths_for(waiting, Budget(2)) == [10, 1]
    assert widths_for(waiting, Budget(2, nbytes=18)) == [6, 1]
    assert widths_for([StageCost(0.0, 0.0, most=4)], Budget(2)) == [1]


def test_a_worker_for_the_last_of_the_processors_is_not_worth_it() -> None:
    consumer = StageCost(0.5, 0.5)
    assert widths_for([StageCost(21.0, 20.0, most=64), consumer], Budget(2)) == [2, 1]
    assert widths_for([StageCost(21.0, 20.0, most=64), consumer], Budget(16)) == [16, 1]
    # With two, a quarter of the processors would stand idle.
    assert widths_for([StageCost(21.0, 15.0, most=64), consumer], Budget(2)) == [3, 1]


def test_spare_workers() -> None:
    stations = [
        StageCost(10.0, 0.1, nbytes=3, most=64),
        StageCost(1.0, 1.0),
        StageCost(1.0, 0.4, most=2),
        StageCost(1.0, 0.6, most=9),
    ]
    fewest = [10, 1, 1, 1]
    assert with_spare(stations, fewest, Budget(9)) == [17, 1, 2, 1]
    assert with_spare(stations, fewest, Budget(9, nbytes=40)) == [13, 1, 2, 1]
    assert with_spare(stations, fewest, Budget(9, strict=True)) == [17, 1, 2, 1]
    alone = [StageCost(10.0, 0.1, most=64)]
    assert with_spare(alone, [5], Budget(0.05, strict=True)) == [5]
    assert with_spare([StageCost(0.0, 0.0, most=4)], [1], Budget(2)) == [1]
