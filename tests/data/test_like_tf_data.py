"""The same pipelines in ``tf.data``, where TensorFlow is installed (the ``bench`` extra)."""

import numpy as np
import pytest

from drumline.data import Dataset

tf = pytest.importorskip("tensorflow", reason="compares with TensorFlow, which the bench extra has")

ROWS = np.arange(24, dtype=np.float32).reshape(12, 2)
IDS = np.arange(12) + 2**41


def uneven(D):
    rows = [list(range(n)) for n in (2, 0, 5, 1, 3, 4, 2)]
    return D.from_generator(lambda: iter(rows), output_types=np.int32, output_shapes=(None,))


PIPELINES = {
    "slices": lambda D: D.from_tensor_slices({"x": ROWS, "i": IDS}),
    "literals": lambda D: D.from_tensor_slices(([1, 2], [1.5, 2.5], ["a", "b"], [True, False])),
    "map": lambda D: D.from_tensor_slices((ROWS, IDS)).map(lambda x, i: (x * 2, i + 1)),
    "filter": lambda D: D.range(20).filter(lambda v: v % 3 == 0),
    "batch": lambda D: D.range(10).batch(4),
    "batch drop": lambda D: D.range(10).batch(4, drop_remainder=True),
    "unbatch": lambda D: D.from_tensor_slices(ROWS).batch(5).unbatch(),
    "repeat take skip": lambda D: D.range(5).repeat(3).skip(4).take(7),
    "skip all": lambda D: D.range(5).skip(-1),
    "take all": lambda D: D.range(5).take(-1),
    "shard": lambda D: D.range(11).shard(4, 2).repeat(2).shard(3, 1),
    "shard stream": lambda D: D.range(40).filter(lambda v: v % 3 > 0).shard(3, 0),
    "zip": lambda D: D.zip((D.range(3), D.range(10, 15))),
    "nested zip": lambda D: D.zip({"a": D.range(3), "b": (D.range(3, 6), D.range(4))}),
    "enumerate": lambda D: D.from_tensor_slices(ROWS).enumerate(start=5),
    "concatenate": lambda D: D.range(3).concatenate(D.range(2)),
    "range step": lambda D: D.range(10, 0, -3),
    "range type": lambda D: D.range(3, output_type=np.int32),
    "tensors": lambda D: D.from_tensors((ROWS, 3)).repeat(2),
    "padded batch": lambda D: uneven(D).padded_batch(3, padding_values=-1),
    "padded batch to a shape": lambda D: uneven(D).padded_batch(2, [9], None, True),
    "padded batch of several": lambda D: D.from_tensor_slices(
        {"x": ROWS, "s": ["a"] * 12}
    ).padded_batch(5, {"x": [4], "s": []}, {"x": 2.0, "s": None}),
    "take while": lambda D: D.range(20).take_while(lambda v: v % 7 < 5),
    "scan": lambda D: D.range(9).scan(np.int64(3), lambda s, e: (s * 2 + e, s - e)),
    "unique": lambda D: D.from_tensor_slices([3, 1, 3, 2, 1]).unique(),
    "unique rows": lambda D: D.from_tensor_slices([["a", "b"], ["a", "b"], ["b", "a"]]).unique(),
    "counter": lambda D: D.counter(5, -2, dtype="int32").take(4),
    "counter of floats": lambda D: D.counter(0.5, 0.25, dtype="float32").take(4),
    "rebatch": lambda D: D.range(8).filter(lambda v: v >= 0).batch(3).rebatch([2, 3]),
    "rebatch drop": lambda D: D.range(8).filter(lambda v: v >= 0).batch(3).rebatch(3, True),
    "empty": lambda D: D.range(0).repeat().batch(3),
}


def leaves(element):
    if isinstance(element, dict):
        return [(k, leaves(v)) for k, v in sorted(element.items())]
    if isinstance(element, tuple):
        return [leaves(v) for v in element]
    array = np.asarray(element)
    return array.dtype.kind, array.dtype.itemsize if array.dtype != object else 0, array.tolist()


@pytest.mark.parametrize("name", PIPELINES)
def test_same_elements_and_cardinality(name):
    theirs, ours = PIPELINES[name](tf.data.Dataset), PIPELINES[name](Dataset)
    expected = [leaves(e) for e in theirs.as_numpy_iterator()]
    found = [leaves(e) for e in ours]
    assert [str(e).replace("'S', 1", "'O', 0") for e in found] == [
        str(e).replace("'S', 1", "'O', 0") for e in expected
    ]
    assert ours.cardinality() == int(theirs.cardinality())
