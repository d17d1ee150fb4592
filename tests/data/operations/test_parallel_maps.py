"""Python functions on several threads: order, errors, positions, and how far they read ahead."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.data import AUTOTUNE, Dataset, Options
from drumline.data.elements.block import Block
from drumline.data.operations.batch import BatchStage
from drumline.data.operations.map import ParallelMapStage
from drumline.data.operations.ordering.order import SourceStage
from drumline.data.operations.reading.sources import Integers
from drumline.data.runtime.stage import Sequential
from drumline.data.runtime.threads import Workers

PATIENCE = 30.0


def below(dataset: Dataset, kind: type) -> Any:
    """The running stage of that kind, and the iterator that owns it."""
    iterator = iter(dataset)
    stages = [iterator.stage]
    for stage in stages:
        stages += stage.inputs()
    return next(stage for stage in stages if isinstance(stage, kind)), iterator


def test_calls_run_at_once_and_come_in_order() -> None:
    meeting = threading.Barrier(3, timeout=PATIENCE)

    def meet(value: Any) -> Any:
        number = int(value)
        if 1 <= number <= 3:  # These calls must be under way at once, or the barrier breaks.
            meeting.wait()
        time.sleep(0.001 * (3 - number % 3))
        return number * 2

    found = Dataset.range(31).map(meet, num_parallel_calls=4)
    assert [int(v) for v in found] == list(range(0, 62, 2))


def test_errors_come_in_their_place() -> None:
    def picky(value: Any) -> Any:
        if int(value) % 4 == 1:
            raise ValueError(f"no {int(value)}")
        return int(value)

    iterator = iter(Dataset.range(10).map(picky, num_parallel_calls=3))
    found: list[Any] = []
    for _ in range(10):
        try:
            found.append(int(next(iterator)))
        except ValueError as error:
            found.append((str(error), error.element_index))
    assert found == [0, ("no 1", 1), 2, 3, 4, ("no 5", 5), 6, 7, 8, ("no 9", 9)]
    assert next(iterator, None) is None


class FailsAtSevens:
    """Doubles numbers, four at a time; has no result for 7, 17, ..."""

    block_length = 1
    ragged: bool | None = None
    varying: bool | None = None

    def limit(self, wanted: int) -> int:
        return 4

    def __call__(self, block: Block, position: Any) -> Block:
        numbers = block.columns[0]
        bad = np.flatnonzero(numbers % 10 == 7)
        if not len(bad):
            return Block([numbers * 2], block.n, block.error)
        return Block([numbers[: bad[0]] * 2], int(bad[0]), ValueError(str(position(int(bad[0])))))

    def describe(self) -> str:
        return "doubled"


def test_what_follows_an_error_in_a_task_comes_next() -> None:
    with ThreadPoolExecutor(3) as threads:
        walk = SourceStage(Integers(0, 1, 40, np.dtype(np.int64)), Sequential(40))
        pool: Workers[Block] = Workers(threads, 3, owned=False)
        stage = ParallelMapStage(walk, FailsAtSevens(), pool, may_wait=True)
        found: list[Any] = []
        while (block := stage.next(3)) is not None:
            found += block.columns[0].tolist()
            if block.error is not None:
                found.append(str(block.error))
        stage.close()
    assert found == [str(i) if i % 10 == 7 else 2 * i for i in range(40)]


@pytest.mark.parametrize("stop", [0, 1, 7, 40])
def test_resumes_anywhere(stop: int) -> None:
    dataset = Dataset.range(40).map(lambda v: v * 3).map(lambda v: int(v) + 1, num_parallel_calls=4)
    iterator = iter(dataset)
    for _ in range(stop):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    rest = list(iterator)
    again = iter(dataset)
    again.restore(state)
    assert list(again) == rest
    assert len(rest) == 40 - stop


class Called:
    """Remembers with what it was called."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def __call__(self, value: Any) -> Any:
        self.values.append(int(value))
        return int(value)


def test_nothing_past_a_take_is_computed() -> None:
    called = Called()
    mapped = Dataset.range(1000).map(called, num_parallel_calls=4)
    called.values.clear()
    assert len(list(mapped.take(5))) == 5
    assert sorted(called.values) == [0, 1, 2, 3, 4]
    called.values.clear()
    assert len(list(mapped.batch(3).take(2))) == 2
    assert sorted(called.values) == [0, 1, 2, 3, 4, 5]
    iterator = iter(mapped.take(9))
    for _ in range(4):
        next(iterator)
    state = iterator.state()
    iterator.close()
    called.values.clear()
    again = iter(mapped.take(9))
    again.restore(state)
    assert len(list(again)) == 5
    assert max(called.values) == 8


def test_a_generator_is_read_ahead_by_two_calls_a_worker() -> None:
    yielded = []

    def generate() -> Any:
        for i in range(100):
            yielded.append(i)
            yield i

    signature = {"output_types": np.int64, "output_shapes": ()}
    mapped = Dataset.from_generator(generate, **signature).map(
        lambda v: int(v) + 1, num_parallel_calls=2
    )
    yielded.clear()
    iterator = iter(mapped)
    assert next(iterator) == 1
    assert len(yielded) <= 1 + 2 * 2
    assert [int(v) for v in iterator] == list(range(2, 101))


def test_the_number_of_workers_may_change_while_they_run() -> None:
    dataset = Dataset.range(300).map(lambda v: int(v), num_parallel_calls=AUTOTUNE)
    stage, iterator = below(dataset, ParallelMapStage)
    found = []
    for width in (5, 1, 3):
        stage.pool.width = width
        assert stage.workers == width
        found += [int(next(iterator)) for _ in range(90)]
    found += [int(v) for v in iterator]
    assert found == list(range(300))


def test_a_narrower_pool_runs_fewer_at_once() -> None:
    running, most, lock = 0, [], threading.Lock()

    def work() -> None:
        nonlocal running
        with lock:
            running += 1
            most.append(running)
        time.sleep(0.002)
        with lock:
            running -= 1

    with ThreadPoolExecutor(8) as threads:
        workers: Workers[None] = Workers(threads, 4, owned=False)
        for promise in [workers.submit(work) for _ in range(12)]:
            promise.result()
        assert max(most) <= 4
        workers.width = 1
        most.clear()
        for promise in [workers.submit(work) for _ in range(6)]:
            promise.result()
        assert max(most) == 1
        workers.width = 4
        most.clear()
        promises = [workers.submit(work) for _ in range(16)]
        workers.width = 1
        for promise in promises:
            promise.result()
        assert max(most[-6:]) == 1
        waiting = [workers.submit(work) for _ in range(5)]
        workers.close()
        with pytest.raises(CancelledError):
            waiting[-1].result()


def test_a_private_pool_is_shared_by_all_maps() -> None:
    names: set[str] = set()

    def note(value: Any) -> Any:
        names.add(threading.current_thread().name)
        return int(value)

    options = Options()
    options.threading.private_threadpool_size = 2
    mapped = Dataset.range(60).map(note, num_parallel_calls=8).map(note, num_parallel_calls=8)
    names.clear()
    assert [int(v) for v in mapped.with_options(options)] == list(range(60))
    assert len(names) <= 2
    assert all(name.startswith("drumline-map") for name in names)


def test_what_is_batched_is_not_copied_where_any_number_may_be_made() -> None:
    files = [dl.image.encode_jpeg(np.full((9, 7, 3), i, np.uint8)) for i in range(25)]

    def prepared(contents: Any) -> Any:
        return dl.image.resize(dl.image.decode_jpeg(contents, channels=3), (64, 64)) / 255

    source = Dataset.range(4).interleave(lambda _: Dataset.from_tensor_slices(files))
    ds = source.map(prepared, num_parallel_calls=2).batch(48)
    stage, iterator = below(ds, BatchStage)
    seen: list[Any] = []
    inner = stage.source.next
    stage.source.next = lambda limit: seen.append(inner(limit)) or seen[-1]
    made = list(iterator)
    assert [block.n for block in seen if block is not None] == [48, 48, 4]
    assert all(np.shares_memory(batch, seen[i].columns[0]) for i, batch in enumerate(made))
    np.testing.assert_array_equal(np.concatenate(made), np.stack([*source.map(prepared)]))


@pytest.mark.parametrize("stop", [0, 1, 3, 5])
def test_batches_made_whole_resume_and_fail_where_others_do(stop: int) -> None:
    files = [dl.image.encode_jpeg(np.full((9, 7, 3), i, np.uint8)) for i in range(9)]
    files[6] = b"no picture"

    def prepared(contents: Any) -> Any:
        return dl.image.resize(dl.image.decode_jpeg(contents, channels=3), (5, 4)) / 255

    def batches(iterator: Any) -> list[Any]:
        made: list[Any] = []
        while True:
            try:
                made.append(next(iterator).tolist())
            except ValueError as error:
                made.append(str(error))
            except StopIteration:
                return made

    source = Dataset.range(3).interleave(lambda _: Dataset.from_tensor_slices(files))
    wanted = batches(iter(source.map(prepared).batch(8)))
    assert sum(isinstance(batch, str) for batch in wanted) > 0
    ds = source.map(prepared, num_parallel_calls=2).batch(8)
    iterator = iter(ds)
    made = []
    for _ in range(min(stop, len(wanted))):
        try:
            made.append(next(iterator).tolist())
        except ValueError as error:
            made.append(str(error))
    state = json.loads(json.dumps(iterator.state()))
    iterator.close()
    again = iter(ds)
    again.restore(state)
    assert made + batches(again) == wanted


def test_workers_tell_how_many_tasks_are_not_done() -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def stay() -> None:
        begun.release()
        assert go_on.wait(PATIENCE)

    with ThreadPoolExecutor(2) as threads:
        workers: Workers[None] = Workers(threads, 2, owned=False)
        promises = [workers.submit(stay) for _ in range(5)]
        assert begun.acquire(timeout=PATIENCE) and begun.acquire(timeout=PATIENCE)
        assert workers.unfinished == 5
        go_on.set()
        for promise in promises:
            promise.result()
    assert workers.unfinished == 0


def test_without_further_threads_it_does_not_seem_to_go_on(monkeypatch):
    """As where a container limits processes; it had lost an element, and hung after that."""
    mapped = Dataset.range(5).map(lambda v: v.item(), num_parallel_calls=2)
    iterator = iter(mapped)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            next(iterator)
    with pytest.raises(RuntimeError, match="new thread"):
        next(iterator)
    assert list(mapped) == list(range(5))
