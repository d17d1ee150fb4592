"""What autotuning does to running stages, with measurements given by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from drumline.data import AUTOTUNE, Dataset, Options
from drumline.data.autotune.memory import _group, _machine, default_budget
from drumline.data.autotune.model import Budget
from drumline.data.autotune.rooms import Asked, next_room
from drumline.data.autotune.tuner import Tuner
from drumline.data.epochs import Epochs
from drumline.data.execute.stage import Stage
from drumline.data.observe.observation import Observation
from drumline.data.observe.stations import placed


def python(value: Any) -> Any:
    return int(value)


class Running:
    """A started dataset whose stages are told what they have done."""

    def __init__(self, dataset: Dataset, budget: Budget):
        self.now = 0.0
        observation = Observation(clock=lambda: self.now)
        options = Options()
        options.experimental_optimization.inject_prefetch = False
        epochs = Epochs(dataset._plan, options, observation)
        self.root, _ = epochs.start(0, None)
        self.stages: dict[str, Stage] = {
            p.stage.meter.name: p.stage for p in placed(self.root) if p.stage.meter is not None
        }
        self.decisions: list[str] = []
        self._tuner = Tuner(budget, lambda: self.now, self.decisions)

    def window(self, **done: dict[str, float]) -> None:
        for name, changes in done.items():
            meter = self.stages[name].meter
            assert meter is not None
            for field, change in changes.items():
                setattr(meter.counts, field, getattr(meter.counts, field) + change)
        self.now += 1.0
        self._tuner.tick(self.root)


def test_widths_follow_from_measured_work() -> None:
    dataset = Dataset.range(10).map(python, num_parallel_calls=AUTOTUNE).batch(2)
    run = Running(dataset, Budget(8))
    stage = run.stages["map"]
    assert stage.pool is not None and stage.pool.automatic
    stage.pool.width = 1
    busy = {
        "batch": {"elements": 50, "seconds": 0.1, "calls": 50},
        "map": {"seconds": 0.85, "work_seconds": 1.0, "work_cpu_seconds": 0.01, "tasks": 100},
    }
    run.window(**busy)
    assert run.decisions == []
    run.window(**busy)
    # The consumer takes 0.15 s for what costs the one worker 1 s, nearly all of it waiting.
    assert stage.pool.width == 7
    assert run.decisions == ["after 50 elements (2.00 s), map: 1 -> 7 workers"]
    run.window(batch={"calls": 1})
    assert len(run.decisions) == 1


def test_compiled_work_counts_as_computing() -> None:
    dataset = Dataset.range(10).map(lambda v: v * 2, num_parallel_calls=AUTOTUNE).batch(2)
    run = Running(dataset, Budget(3))
    stage = run.stages["map"]
    assert stage.pool is not None and not stage.workers_may_wait
    busy = {
        "batch": {"elements": 50, "seconds": 0.0, "calls": 50},
        "map": {"seconds": 0.99, "work_seconds": 1.0, "work_cpu_seconds": 0.01, "tasks": 9},
    }
    stage.pool.width = 1
    run.window(**busy)
    run.window(**busy)
    assert stage.pool.width == 3


def test_prefetches_grow_where_bursts_empty_them() -> None:
    dataset = Dataset.range(10).map(python).prefetch(AUTOTUNE)
    run = Running(dataset, Budget(4, nbytes=1e9))
    stage = run.stages["prefetch"]
    room = 100
    stage.resize(room)
    asked = {"prefetch": {"elements": 50, "calls": 50, "queue_fill": 40.0, "queue_empty": 3}}
    run.window(**asked)
    run.window(**asked)
    assert stage.room == 200
    assert run.decisions == ["after 50 elements (2.00 s), prefetch: 100 -> 200 elements ahead"]
    never_full = {"prefetch": {"elements": 50, "calls": 50, "queue_fill": 2.0, "queue_empty": 40}}
    run.window(**never_full)
    assert stage.room == 200


def test_rooms() -> None:
    bursts = Asked(calls=10, empty=1, fill=5.0)
    assert next_room(8, bursts, 100, 1e6) == 16
    assert next_room(8, bursts, 100, 350) == 11
    assert next_room(8, bursts, 100, -50) == 8
    assert next_room(1 << 16, bursts, 1, 1e9) == 1 << 16
    assert next_room(8, Asked(calls=10, empty=0, fill=10.0), 100, 1e6) == 8
    assert next_room(8, Asked(calls=0, empty=0, fill=0.0), 100, 1e6) == 8


def test_autotuning_runs_with_the_dataset_and_is_seen() -> None:
    dataset = Dataset.range(30_000).map(python, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)
    iterator = iter(dataset)
    assert [int(v) for v in iterator] == list(range(30_000))
    epochs = dataset._ready()
    epochs.runtime.decisions.append("after 3 elements (0.10 s), map: 1 -> 2 workers")
    assert "after 3 elements (0.10 s), map" in dataset.explain().partition("\nautotune\n")[2]
    assert iter(dataset).stage.meter is not None


def tuning(**values: Any) -> Options:
    options = Options()
    for name, value in values.items():
        setattr(options.autotune, name, value)
    return options


def widths(options: Options) -> tuple[int, int | None, bool]:
    dataset = Dataset.range(9).map(python, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)
    iterator = iter(dataset.with_options(options))
    source = iterator.stage.inputs()[0]
    return source.workers, iterator.stage.room, iterator.stage.meter is not None


def test_options_of_autotuning() -> None:
    cores = os.cpu_count() or 1
    assert widths(tuning()) == (max(1, cores - 1), (4 << 20) // 4, True)
    assert widths(tuning(enabled=False)) == (cores, (4 << 20) // 4, False)
    assert widths(tuning(cpu_budget=7))[0] == 6
    assert widths(tuning(ram_budget=4000))[1] == 250


def test_memory(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  9 kB\nMemAvailable:     5 kB\n")
    assert _machine(meminfo) == 5 * 1024
    assert _group(tmp_path) == 1 << 62
    (tmp_path / "memory.max").write_text("max\n")
    assert _group(tmp_path) == 1 << 62
    (tmp_path / "memory.max").write_text("100\n")
    (tmp_path / "memory.current").write_text("70\n")
    assert _group(tmp_path) == 30
    assert default_budget() > 0


def test_a_number_that_was_given_stays() -> None:
    dataset = Dataset.range(10).map(python, num_parallel_calls=3).prefetch(5)
    with_auto = Dataset.zip(dataset, Dataset.range(10).map(python, num_parallel_calls=AUTOTUNE))
    run = Running(with_auto, Budget(64))
    fixed = [p.stage for p in placed(run.root) if p.stage.pool is not None]
    assert [stage.pool.automatic for stage in fixed if stage.pool] == [False, True]
    assert not run.stages["prefetch"].automatic_room
    with pytest.raises(NotImplementedError):
        run.root.resize(3)


def test_waiting_for_a_processor_asks_for_no_workers() -> None:
    run = Running(Dataset.range(10).map(python, num_parallel_calls=AUTOTUNE).batch(2), Budget(8))
    stage = run.stages["map"]
    assert stage.pool is not None
    stage.pool.width = 1
    computing = {"work_seconds": 1.0, "work_cpu_seconds": 0.2, "work_delay_seconds": 0.8}
    busy = {
        "batch": {"elements": 50, "seconds": 0.1, "calls": 50},
        "map": {"seconds": 0.85, "tasks": 100, **computing},
    }
    run.window(**busy)
    run.window(**busy)
    # 0.2 s of work for the consumer's 0.15 s: two workers.
    assert stage.pool.width == 2
