"""Positions deep in large sources: what restoring them reads, and how large their states are."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.data import GLOBAL, Dataset

FAR = 60_000_003
LENGTH = 10**8


class Counted:
    """A sequence of numbers that counts how many were asked for."""

    def __init__(self):
        self.asked = 0

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        self.asked += 1
        return np.int64(index)


PLANS = {
    "shuffle": lambda ds: ds.shuffle(1000, seed=3).skip(FAR).batch(16),
    "shuffle, repeat": lambda ds: ds.shuffle(1000, seed=3).skip(FAR).repeat(2).batch(16),
    "repeat, shuffle": lambda ds: ds.repeat().shuffle(1000, seed=3).skip(LENGTH + FAR).batch(16),
    "global": lambda ds: ds.shuffle(GLOBAL, seed=3).skip(FAR).batch(16),
    "map, filter": lambda ds: ds.map(lambda v: v * 2).skip(FAR).filter(lambda v: v % 6 > 0),
    "zip": lambda ds: Dataset.zip(ds.skip(FAR), ds.shuffle(1000, seed=4).skip(FAR)).batch(16),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=list(PLANS))
def test_restoring_reads_next_to_nothing(plan):
    source = Counted()
    dataset = plan(Dataset.from_sequence(source)).prefetch(2)
    iterator = iter(dataset)
    for _ in range(5):
        next(iterator)
    text = json.dumps(iterator.state())
    assert len(text) < 4096
    rest = [next(iterator) for _ in range(5)]
    iterator.close()
    again = iter(dataset)
    source.asked = 0
    again.restore(json.loads(text))
    # A block of compiled functions, and one read ahead.
    assert source.asked <= 2 * 16_384
    for expected in rest:
        assert np.array_equal(next(again), expected)
    again.close()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9), st.none() | st.integers(0, 4), st.integers(1, 30), st.integers(0, 30))
def test_a_shuffle_of_passes_is_that_of_the_stream_of_them(length, count, size, used):
    passes = Dataset.range(length).repeat(count)
    by_position = passes.shuffle(size, seed=5).take(40)
    stream = passes.filter(lambda v: v >= 0).shuffle(size, seed=5).take(40)
    assert "by index" in by_position.explain()
    assert "shuffle rows" in stream.explain()
    expected = [int(v) for v in stream]
    iterator = iter(by_position)
    head = [int(v) for _, v in zip(range(used), iterator, strict=False)]
    again = iter(by_position)
    again.restore(json.loads(json.dumps(iterator.state())))
    assert head + [int(v) for v in again] == expected


def test_passes_that_differ_are_shuffled_as_they_come():
    reshuffled = Dataset.range(6).shuffle(6, seed=1).repeat().shuffle(2, seed=2)
    assert "shuffle rows" in reshuffled.explain()
    assert sorted(int(v) for v in reshuffled.take(12))[-2:] == [5, 5]
