"""What autotuning does to running stages, with measurements given by hand."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from drumline._memory import BufferPool
from drumline.data import AUTOTUNE, Dataset, Options
from drumline.data.engine.iterator import Epochs
from drumline.data.engine.tuning import (
    Budget,
    Cap,
    Operation,
    TunedWidth,
    Tuner,
    placed,
)
from drumline.data.operations.prefetch import AutomaticRoom, PrefetchStage
from drumline.data.operations.reading.sources import GeneratorStage
from drumline.data.runtime import meter as meter
from drumline.data.runtime.meter import Observation
from drumline.data.runtime.stage import Stage
from drumline.data.runtime.threads import available_cores


def python(value: Any) -> Any:
    return int(value)


class Running:
    """A started dataset whose stages are told what they have done."""

    def __init__(
        self,
        dataset: Dataset,
        budget: Budget,
        found: dict[Operation, TunedWidth] | None = None,
        sampled: bool = False,
    ):
        self.now = 0.0
        observation = Observation(clock=lambda: self.now, queues=not sampled)
        options = Options()
        options.experimental_optimization.inject_prefetch = False
        epochs = Epochs(dataset._plan, options, observation)
        self.root, _ = epochs.start(0, None)
        self.stages: dict[str, Stage] = {
            p.stage.meter.name: p.stage for p in placed(self.root) if p.stage.meter is not None
        }
        self.decisions: list[str] = []
        self.found = {} if found is None else found
        self._tuner = Tuner(budget, lambda: self.now, self.decisions, self.found)
        self._tuner.resume(self.root)

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
    # The consumer takes 0.15 s for what costs the one worker 1 s, nearly all of it waiting: 6.7 of
    # them are occupied, and 2 sqrt(6.7) spare.
    assert stage.pool.width == 12
    assert run.decisions == ["after 50 elements (2.00 s), map: 1 -> 12 workers"]
    run.window(batch={"calls": 1})
    assert len(run.decisions) == 1


WAITING = {
    "batch": {"elements": 50, "seconds": 0.1, "calls": 50},
    "map": {"seconds": 0.85, "work_seconds": 1.0, "work_cpu_seconds": 0.01, "tasks": 100},
}
MAP = ((0,), "map")


def mapped() -> Dataset:
    return Dataset.range(10).map(python, num_parallel_calls=AUTOTUNE).batch(2)


def test_an_epoch_that_begins_with_workers_decides_once_they_have_settled() -> None:
    run = Running(mapped(), Budget(8), {MAP: TunedWidth(2)})
    assert run.stages["map"].workers == 2
    for _ in range(2):
        run.window(**WAITING)
        assert run.decisions == []
    run.window(**WAITING)
    assert run.stages["map"].workers == 12
    assert run.found[MAP] == TunedWidth(12)


def test_the_next_epoch_knows_what_did_not_help_nor_forgets_it_where_nothing_was_done() -> None:
    run = Running(mapped(), Budget(8), {MAP: TunedWidth(2, Cap(2, 40))})
    nothing = {**WAITING["map"], "work_seconds": 0.0, "work_cpu_seconds": 0.0, "tasks": 0}
    for _ in range(5):
        run.window(**WAITING)
    run.window(**{**WAITING, "map": nothing})
    run.window(**WAITING)
    assert run.stages["map"].workers == 2
    assert run.found[MAP] == TunedWidth(2, Cap(2, 36))
    for _ in range(36):
        run.window(**WAITING)
    assert run.stages["map"].workers > 2


def test_the_more_tasks_the_fewer_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = 0

    def delay() -> float:
        nonlocal measured
        measured += 1
        return 0.0

    monkeypatch.setattr(meter, "run_delay_seconds", delay)
    run = Running(mapped(), Budget(8), sampled=True)
    run.window(**{**WAITING, "map": {**WAITING["map"], "tasks": 10_000}})
    watched = run.stages["map"].meter
    assert watched is not None
    for _ in range(2_000):
        watched.task(python, 1)
    assert measured < 200


def read_in_python(number: Any) -> Dataset:
    return Dataset.range(40).map(python)


def interleaved(calls: int, cycle: int = 6) -> Dataset:
    return Dataset.range(40).interleave(read_in_python, cycle, num_parallel_calls=calls)


def test_how_many_datasets_are_read_at_once_follows_from_measured_work() -> None:
    run = Running(interleaved(AUTOTUNE).batch(2), Budget(8))
    stage = run.stages["interleave"]
    assert stage.pool is not None
    assert (stage.workers, stage.pool.most, stage.pool.automatic) == (6, 12, True)
    assert "6 read at once (AUTOTUNE: at present)" in stage.describe()
    busy = {
        "batch": {"elements": 50, "seconds": 0.4, "calls": 50},
        "interleave": {"seconds": 0.6, "work_seconds": 0.6, "work_cpu_seconds": 0.01, "tasks": 60},
    }
    for _ in range(10):
        run.window(**busy)
        assert stage.workers == 6
    run.window(**busy)
    # Reads wait for 0.6 s while the consumer is busy for 0.4 s, and have for ten windows.
    assert stage.workers == 4
    slow = {**busy, "interleave": {**busy["interleave"], "work_seconds": 40.0}}
    while stage.workers == 4 and run.now < 19.0:
        run.window(**slow)
    assert stage.workers == 12
    assert run.decisions[0] == "after 500 elements (11.00 s), interleave: 6 -> 4 workers"
    assert run.decisions[-1].endswith("interleave: 4 -> 12 workers")


def test_no_more_datasets_are_read_at_once_than_were_asked_for() -> None:
    reading, most, lock = 0, 0, threading.Lock()

    def slow(value: Any) -> int:
        nonlocal reading, most
        number = int(value)
        with lock:
            reading += 1
            most = max(most, reading)
        time.sleep(0.0005)
        with lock:
            reading -= 1
        return number

    parts = [Dataset.range(9).map(slow) for _ in range(6)]
    dataset = Dataset.range(6).interleave(lambda n: parts[n], 6, num_parallel_calls=2)
    assert sorted(map(int, dataset)) == sorted([*range(9)] * 6)
    assert most == 2


def test_reading_ahead_keeps_to_the_budget_of_memory() -> None:
    def room(**values: Any) -> int:
        dataset = Dataset.range(9).interleave(
            lambda n: Dataset.range(9).map(python).batch(1 << 13, drop_remainder=True),
            2,
            num_parallel_calls=AUTOTUNE,
        )
        inner_datasets = iter(dataset.with_options(tuning(**values))).stage._inner_datasets
        return inner_datasets.next().elements.stage.room

    assert room() == (1 << 20) // (4 << 13)
    assert room(ram_budget=8 * (4 << 13) * 4) == 4


def test_interleave_is_measured_as_it_runs() -> None:
    run = Running(interleaved(AUTOTUNE), Budget(8))
    while run.root.next(64) is not None:
        pass
    meter = run.stages["interleave"].meter
    assert meter is not None
    assert meter.counts.tasks >= 40
    assert meter.counts.elements == 1600
    run.root.close()


def test_the_next_epoch_begins_with_what_was_found() -> None:
    dataset = (
        Dataset.range(10).map(python, num_parallel_calls=AUTOTUNE).map(python, num_parallel_calls=2)
    )
    runtime = dataset._ready().runtime
    runtime._found.update({((0,), "map"): TunedWidth(5), ((), "map"): TunedWidth(7)})
    stage = iter(dataset).stage
    assert [stage.workers, stage.source.workers] == [2, 5]


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


def test_a_buffer_doubles_when_it_was_full_and_is_empty() -> None:
    said: list[str] = []
    room = AutomaticRoom(3500, said.append)
    assert room.next(8, 0, 100) == 8
    assert room.next(8, 8, 100) == 8
    assert room.next(8, 3, 100) == 8
    assert room.next(8, 0, 100) == 16
    assert room.next(16, 0, 100) == 16
    assert room.next(16, 16, 100) == 16
    assert room.next(16, 0, 100) == 32
    assert room.next(32, 32, 100) == 32
    assert room.next(32, 0, 100) == 35
    assert room.next(99, 99, 100) == 99
    assert room.next(99, 0, 100) == 99
    assert said == [
        "prefetch: 8 -> 16 elements ahead",
        "prefetch: 16 -> 32 elements ahead",
        "prefetch: 32 -> 35 elements ahead",
    ]


def test_a_prefetch_grows_by_bursts() -> None:
    gate = threading.Semaphore(0)

    def gated() -> Any:
        for i in range(40):
            assert gate.acquire(timeout=30)
            yield i

    said: list[str] = []
    spec = Dataset.range(1)._plan.spec
    source = GeneratorStage(gated, spec, "gated", BufferPool())
    stage = PrefetchStage(source, None, 2 << 20, AutomaticRoom(128 << 20, said.append))
    assert stage.room == 4
    gate.release(5)
    assert stage.next(1) is not None
    while stage.queue()[0] < 4:
        time.sleep(0.001)
    for _ in range(4):
        assert stage.next(1) is not None
    threading.Timer(0.05, gate.release, (35,)).start()
    while stage.next(1) is not None:
        pass
    assert said[0] == "prefetch: 4 -> 8 elements ahead"
    stage.close()


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


def widths(options: Options) -> tuple[int, int, bool]:
    dataset = Dataset.range(9).map(python, num_parallel_calls=AUTOTUNE).prefetch(AUTOTUNE)
    stage = iter(dataset.with_options(options)).stage
    assert isinstance(stage, PrefetchStage)
    return stage.source.workers, stage.room, stage.meter is not None


def test_options_of_autotuning() -> None:
    cores = available_cores()
    assert widths(tuning()) == (max(1, cores - 1), (8 << 20) // 4, True)
    assert widths(tuning(enabled=False)) == (cores, (8 << 20) // 4, False)
    assert widths(tuning(cpu_budget=7))[0] == 6
    assert widths(tuning(ram_budget=8000))[1] == 1000


@pytest.mark.parametrize("size", [AUTOTUNE, 3])
def test_a_block_is_made_with_any_budget(size: int) -> None:
    options = Options()
    options.autotune.ram_budget = 1
    dataset = Dataset.range(10).prefetch(size).with_options(options)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(dataset), daemon=True)
    thread.start()
    thread.join(30)
    assert found == list(range(10))


def test_a_number_that_was_given_stays() -> None:
    dataset = Dataset.range(10).map(python, num_parallel_calls=3).prefetch(5)
    with_auto = Dataset.zip(dataset, Dataset.range(10).map(python, num_parallel_calls=AUTOTUNE))
    run = Running(with_auto, Budget(64))
    fixed = [p.stage for p in placed(run.root) if p.stage.pool is not None]
    assert [stage.pool.automatic for stage in fixed if stage.pool] == [False, True]


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
