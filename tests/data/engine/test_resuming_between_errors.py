"""Operations over elements of which some fail, resumed at any position: an error is an element."""

import copy
import json

import numpy as np
import pytest

from drumline.data import Dataset


def picky(v):
    if int(v) % 7 == 3:
        raise ValueError(str(int(v)))
    return np.int64(int(v))


def source():
    return Dataset.range(20).map(picky)


OPERATIONS = {
    "shuffle": lambda: source().shuffle(5, seed=1),
    "shard": lambda: source().shard(3, 1),
    "shard of errors": lambda: source().shard(7, 3),
    "unique": lambda: source().map(lambda v: v // 2).unique(),
    "batch": lambda: source().batch(2),
    "dropping": lambda: source().batch(3, drop_remainder=True),
    "padded_batch": lambda: source().padded_batch(2),
    "ragged_batch": lambda: source().ragged_batch(2),
    "window": lambda: source().window(3, shift=2).flat_map(lambda w: w.batch(3)),
    "strides": lambda: source().window(3, shift=1, stride=2).flat_map(lambda w: w.batch(3)),
    "group_by_window": lambda: source().group_by_window(
        lambda v: v % 3, lambda key, window: window.batch(2), 2
    ),
    "take and skip": lambda: source().skip(2).take(11),
    "repeat": lambda: source().take(5).repeat(3),
    "cache": lambda: source().take(5).cache().repeat(2),
    "concatenate": lambda: source().concatenate(source().take(5)),
    "zip": lambda: Dataset.zip(source(), source().skip(1)),
    "enumerate": lambda: source().enumerate(),
    "parallel": lambda: Dataset.range(20).map(picky, num_parallel_calls=3).prefetch(4),
    "ignored": lambda: source().ignore_errors(),
    "interleave": lambda: source().interleave(lambda v: Dataset.range(v).map(picky), 3, 2),
    "chosen": lambda: Dataset.sample_from_datasets([source(), source().skip(3)], seed=1),
    "resampled": lambda: source().rejection_resample(lambda v: v % 2, [0.2, 0.8], seed=1),
    "scan": lambda: source().scan(np.int64(0), lambda s, v: (s + v, s)),
}


def outcomes(iterator, count=None):
    found = []
    while count is None or len(found) < count:
        try:
            found.append(str(next(iterator)))
        except StopIteration:
            break
        except ValueError as error:
            found.append(repr(error))
    return found


@pytest.mark.parametrize("name", OPERATIONS)
def test_any_position(name):
    dataset = OPERATIONS[name]()
    whole = outcomes(iter(copy.copy(dataset)))
    assert any("Error" in found for found in whole) != (name == "ignored")
    for stop in range(0, len(whole) + 1, 1 + len(whole) // 6):
        iterator = iter(copy.copy(dataset))
        assert outcomes(iterator, stop) == whole[:stop]
        again = iter(copy.copy(dataset))
        again.restore(json.loads(json.dumps(iterator.state())))
        assert outcomes(again) == whole[stop:]


def test_nothing_past_the_smaller_of_two_numbers_is_computed():
    calls = []

    def counted(v):
        calls.append(int(v))
        return np.int64(int(v))

    numbers = Dataset.range(50).take_while(lambda v: v >= 0).map(counted, num_parallel_calls=2)
    dataset = numbers.take(3).batch(1).take(100)
    calls.clear()
    assert len(list(dataset)) == 3
    assert sorted(calls) == [0, 1, 2]
