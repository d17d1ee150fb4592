"""Datasets inside datasets as in ``tf.data``, where TensorFlow is installed."""

import random

import numpy as np
import pytest

from drumline.data import Dataset

tf = pytest.importorskip("tensorflow", reason="compares with TensorFlow, which the bench extra has")

ROWS = np.arange(24, dtype=np.float32).reshape(12, 2)
LENGTHS = np.array([1, 9, 3, 9, 4, 9, 6, 2, 7, 9, 3, 3], np.int32)


def windowed(*arguments):
    return lambda D: D.range(11).window(*arguments).flat_map(lambda w: w.batch(4))


def grouped(D):
    return D.range(23).group_by_window(
        lambda v: v % 5,
        lambda key, window: window.batch(2),
        window_size_func=lambda key: key + 1,
    )


def bucketed(D):
    return D.from_tensor_slices((ROWS, LENGTHS)).bucket_by_sequence_length(
        lambda row, length: length, [3, 5, 9], [2, 1, 3, 2], padded_shapes=([3], [])
    )


def chosen(stop):
    choices = np.array([0, 1, 1, 2, 0, 1, 1, 2, 0, 0, 2, 2, 1, 0])
    return lambda D: D.choose_from_datasets(
        [D.range(4), D.range(10, 13), D.range(20, 29)], D.from_tensor_slices(choices), stop
    )


PIPELINES = {
    "window": windowed(3),
    "window shift": windowed(3, 1),
    "window stride": windowed(3, 2, 2),
    "window drop": windowed(4, 3, 2, True),
    "window skip": windowed(2, 5),
    "rows of windows": lambda D: D.range(23).window(5, 3).flat_map(lambda w: w),
    "pieces of windows": lambda D: D.range(23).window(5, 3).flat_map(lambda w: w.batch(2)),
    "whole pieces of windows": lambda D: (
        D.range(23).window(5, 3).flat_map(lambda w: w.batch(2, drop_remainder=True))
    ),
    "pieces of windows by turns": lambda D: (
        D.range(23).window(5, 3).interleave(lambda w: w.batch(3), cycle_length=3, block_length=2)
    ),
    "windows as arrays": lambda D: (
        D.range(23).window(5, 3, 2, True).map(lambda w: w.batch(5).get_single_element())
    ),
    "windows of windows": lambda D: (
        D.range(7).window(2).window(2).flat_map(lambda w: w).flat_map(lambda w: w)
    ),
    "flat_map": lambda D: D.range(5).flat_map(lambda n: D.range(n)),
    "flat_map structure": lambda D: D.from_tensor_slices({"x": ROWS, "n": LENGTHS}).flat_map(
        lambda e: D.from_tensors(e).repeat(2)
    ),
    "group_by_window": grouped,
    "bucket_by_sequence_length": bucketed,
    "choose": chosen(False),
    "choose, stop": chosen(True),
}


def leaves(element):
    if isinstance(element, dict):
        return [(k, leaves(v)) for k, v in sorted(element.items())]
    if isinstance(element, tuple):
        return [leaves(v) for v in element]
    array = np.asarray(element)
    return str(array.dtype), array.tolist()


@pytest.mark.parametrize("name", PIPELINES)
def test_same_elements_and_cardinality(name):
    theirs, ours = PIPELINES[name](tf.data.Dataset), PIPELINES[name](Dataset)
    assert [leaves(e) for e in ours] == [leaves(e) for e in theirs.as_numpy_iterator()]
    assert ours.cardinality() == int(theirs.cardinality())


def test_interleaving_in_random_cases():
    chance = random.Random(3)
    for _ in range(25):
        lengths = np.array([chance.randrange(8) for _ in range(chance.randrange(1, 10))])
        cycle, block = chance.randrange(1, 6), chance.randrange(1, 5)
        calls = chance.choice([None, 1, cycle])

        def pipeline(D, lengths=lengths, cycle=cycle, block=block, calls=calls):
            starts = np.arange(len(lengths)) * 100
            return D.from_tensor_slices((starts, starts + lengths)).interleave(
                lambda a, b: D.range(a, b), cycle, block, num_parallel_calls=calls
            )

        theirs = [int(v) for v in pipeline(tf.data.Dataset).as_numpy_iterator()]
        assert [int(v) for v in pipeline(Dataset)] == theirs, (lengths, cycle, block)
