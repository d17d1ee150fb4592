"""Stages by themselves, where a whole plan would hide what they do."""

import numpy as np
import pytest

from drumline._memory import BufferPool
from drumline.data import Dataset, TensorSpec
from drumline.data.elements.block import Block
from drumline.data.operations.ordering.order import SourceStage
from drumline.data.operations.ordering.shuffle_buffer import ShuffleStage
from drumline.data.operations.prefetch import PrefetchStage
from drumline.data.operations.reading.sources import Integers
from drumline.data.runtime.stage import BatchSizeController, Sequential


def walk(n):
    return SourceStage(Integers(0, 1, n, np.dtype(np.int64)), Sequential(n))


def pulled(stage, limit):
    found = []
    while (block := stage.next(limit)) is not None:
        found += block.columns[0].tolist()
    return found


def test_a_prefetch_resumes_inside_a_block():
    stage = PrefetchStage(walk(2000), 500, 8)
    taken = []
    states = {}
    for _ in range(300):
        taken += stage.next(3).columns[0].tolist()
        states[len(taken)] = stage.state()
    assert any(state.get("used") for state in states.values())
    for count, state in list(states.items())[::17]:
        again = PrefetchStage(walk(2000), 500, 8)
        again.restore(state)
        assert again.next(1).columns[0].tolist() == [count]
        again.close()
    stage.close()


def test_a_prefetch_holds_no_more_than_its_size():
    source = walk(10_000)
    stage = PrefetchStage(source, 5, 8)
    first = stage.next(1).columns[0].tolist()
    for _ in range(200):
        assert source.state()["position"] <= len(first) + 5 + 5
        first += stage.next(1).columns[0].tolist()
    stage.close()


def test_short_blocks_are_padded_with_a_row_the_function_can_handle():
    ds = Dataset.from_tensor_slices(np.array([7.0, 8.0], np.float32)).map(lambda v: v + 1)
    (node,) = [n for n in ds._plan.walk() if n.name == "map"]
    padded = node.function.run._padded(np.array([7.0, 8.0], np.float32), slice(0, 2))
    assert len(padded) == node.function.run.block_length
    assert padded[:3].tolist() == [7.0, 8.0, 7.0]
    assert (padded[2:] == 7.0).all()


def test_a_restored_shuffle_keeps_only_its_buffer():
    def stage():
        spec = Dataset.range(1)._plan.spec
        return ShuffleStage(walk(5000), 50, 9, spec, BufferPool())

    first = stage()
    head = []
    while len(head) < 3000:
        head += first.next(100).columns[0].tolist()
    again = stage()
    again.restore(first.state())
    assert again._store._rows._slots.size <= 50 + 1024
    assert pulled(again, 64) == pulled(first, 64)


def test_a_block_slices_its_error_as_its_last_position():
    block = Block([np.arange(3)], 3, ValueError("x"))
    assert block.events == 4
    assert block.slice(0, 3).error is None
    tail = block.slice(2, 4)
    assert (tail.n, tail.columns[0].tolist(), str(tail.error)) == (1, [2], "x")
    assert block.slice(3, 4).n == 0


def test_the_first_request_is_for_one_element():
    assert BatchSizeController(8).start(1) == 1


def test_a_restored_batch_still_counts_its_elements():
    rows = [np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(3)]
    ds = Dataset.from_generator(lambda: iter(rows), output_signature=TensorSpec((None,)))
    iterator = iter(ds.batch(2))
    next(iterator)
    again = iter(ds.batch(2))
    again.restore(iterator.state())
    next(again)
    with pytest.raises(ValueError, match="element 5 has shape"):
        next(again)
