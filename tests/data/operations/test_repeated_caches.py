"""A cache inside a ``repeat`` is filled by the first pass and serves the others."""

import json

import numpy as np
import pytest

from drumline.data import Dataset, TensorSpec


def counted():
    calls = []

    def generator():
        calls.append(1)
        yield from range(5)

    return calls, Dataset.from_generator(generator, output_signature=TensorSpec((), np.int64))


def test_later_passes_of_one_epoch_are_served_from_the_cache():
    calls, ds = counted()
    assert [int(v) for v in ds.cache().repeat(3)] == [0, 1, 2, 3, 4] * 3
    assert len(calls) == 1


def test_also_through_nested_repeats_and_prefetch():
    calls, ds = counted()
    nested = ds.cache().repeat(2).map(lambda v: v + 1).prefetch(2).repeat(2)
    assert [int(v) for v in nested] == [1, 2, 3, 4, 5] * 4
    assert len(calls) == 1


@pytest.mark.parametrize("stop", range(0, 31, 3))
def test_resuming_in_a_pass_that_a_cache_serves(stop):
    def make():
        return counted()[1].cache().shuffle(3, seed=1).repeat(6)

    iterator = iter(make())
    for _ in range(stop):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    rest = [int(v) for v in iterator]
    again = iter(make())
    again.restore(state)
    assert [int(v) for v in again] == rest
    assert len(rest) == 30 - stop
