"""Random plans of operations with a defined order: elements and cardinality as in ``tf.data``."""

import random

import numpy as np
import pytest

from drumline.data import Dataset

tf = pytest.importorskip("tensorflow", reason="compares with TensorFlow, which the bench extra has")


def _interleave(draw):
    cycle, block, most = draw(1, 4), draw(1, 3), draw(1, 4)
    return lambda D, ds: ds.interleave(lambda v: D.range(v % most * 9, v % most * 10), cycle, block)


def _window(draw):
    size, shift, stride, drop = draw(1, 4), draw(1, 4), draw(1, 3), bool(draw(0, 1))
    return lambda D, ds: ds.window(size, shift, stride, drop).flat_map(lambda w: w)


def _batch(draw):
    size, drop = draw(1, 6), bool(draw(0, 1))
    return lambda D, ds: ds.batch(size, drop).unbatch()


def _rebatch(draw):
    size, other, drop = draw(1, 6), draw(1, 6), bool(draw(0, 1))
    return lambda D, ds: ds.batch(size).rebatch([other, 2], drop).unbatch()


def _choose(draw):
    choices, stop = [draw(0, 1) for _ in range(draw(1, 12))], bool(draw(0, 1))
    return lambda D, ds: D.choose_from_datasets(
        [ds, D.range(5)], D.from_tensor_slices(np.array(choices)), stop
    )


def _shard(draw):
    count = draw(1, 4)
    index = draw(0, count - 1)
    return lambda D, ds: ds.shard(count, index)


def _grouped(draw):
    keys, size = draw(1, 4), draw(1, 4)
    return lambda D, ds: ds.group_by_window(lambda v: v % keys, lambda key, w: w, size)


def _one(make, least, most):
    def step(draw):
        number = draw(least, most)
        return lambda D, ds: make(D, ds, number)

    return step


STEPS = [
    _interleave,
    _window,
    _batch,
    _rebatch,
    _choose,
    _shard,
    _grouped,
    _one(lambda D, ds, n: ds.map(lambda v: v * n - 3), -3, 3),
    _one(lambda D, ds, n: ds.map(lambda v: v // n, num_parallel_calls=2), 1, 3),
    _one(lambda D, ds, n: ds.filter(lambda v: v % n != 0), 2, 4),
    _one(lambda D, ds, n: ds.take(n), -1, 30),
    _one(lambda D, ds, n: ds.skip(n), -1, 6),
    _one(lambda D, ds, n: ds.repeat(n), 0, 3),
    _one(lambda D, ds, n: ds.repeat().take(30 + n), 0, 9),
    _one(lambda D, ds, n: ds.prefetch(n), 0, 3),
    _one(lambda D, ds, n: ds.cache(), 0, 0),
    _one(lambda D, ds, n: ds.concatenate(D.range(n)), 0, 6),
    _one(lambda D, ds, n: D.zip((ds, D.range(n))).map(lambda a, b: a * 5 + b), 0, 30),
    _one(lambda D, ds, n: ds.enumerate(n).map(lambda i, v: i * v), -3, 3),
    _one(lambda D, ds, n: ds.flat_map(lambda v: D.from_tensors(v).repeat(v % n)), 1, 3),
    _one(lambda D, ds, n: ds.scan(np.int64(1), lambda s, v: (s * n + v % 7, s + v)), -2, 2),
    _one(lambda D, ds, n: ds.unique(), 0, 0),
    _one(lambda D, ds, n: ds.take_while(lambda v: v % 64 < n), 3, 60),
    _one(lambda D, ds, n: ds.map(lambda v: 60 // (v % 5 - n)).ignore_errors(), 0, 4),
]


def plan(seed):
    chance = random.Random(seed)
    length = chance.choice([0, 1, 5, 23, 40])
    steps = [chance.choice(STEPS)(chance.randint) for _ in range(chance.randint(1, 6))]

    def build(D):
        ds = D.range(length)
        for step in steps:
            ds = step(D, ds)
        return ds

    return build


@pytest.mark.parametrize("seed", range(40))
def test_same_elements_and_cardinality(seed):
    build = plan(seed)
    theirs, ours = build(tf.data.Dataset), build(Dataset)
    expected = [int(v) for v in theirs.take(300).as_numpy_iterator()]
    assert [int(v) for v in ours.take(300)] == expected
    assert int(theirs.cardinality()) in (ours.cardinality(), -2)
