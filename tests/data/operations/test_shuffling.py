"""Shuffles: complete, seeded, different by epoch, the same over streams and positions."""

import random

import numpy as np
import pytest

from drumline.data import UNKNOWN_CARDINALITY, Dataset
from tests.data.plans import bits


def values(ds):
    return [int(v) for v in ds]


def test_every_element_once_and_not_in_order():
    found = values(Dataset.range(1000).shuffle(1000, seed=1))
    assert sorted(found) == list(range(1000))
    assert found != list(range(1000))


def test_a_small_buffer_moves_elements_forward_less_than_its_size():
    found = values(Dataset.range(500).shuffle(10, seed=1))
    assert sorted(found) == list(range(500))
    assert all(value <= position + 9 for position, value in enumerate(found))


def test_epochs_differ_and_repeat_the_same_in_a_new_dataset():
    first, second = (Dataset.range(100).shuffle(100, seed=5) for _ in range(2))
    epochs = [values(first) for _ in range(3)]
    assert len(set(map(tuple, epochs))) == 3
    assert [values(second) for _ in range(3)] == epochs


def test_without_reshuffling_epochs_agree():
    ds = Dataset.range(50).shuffle(50, seed=2, reshuffle_each_iteration=False)
    assert values(ds) == values(ds)
    twice = values(ds.repeat(2))
    assert twice[:50] == twice[50:]


def test_passes_of_a_repeat_differ():
    twice = values(Dataset.range(50).shuffle(50, seed=2).repeat(2))
    assert sorted(twice[:50]) == list(range(50))
    assert twice[:50] != twice[50:]


def test_a_shuffled_dataset_zipped_with_itself_has_two_orders():
    ds = Dataset.range(50).shuffle(50, seed=3)
    pairs = [(int(a), int(b)) for a, b in Dataset.zip(ds, ds)]
    assert [a for a, _ in pairs] != [b for _, b in pairs]


def test_without_a_seed_pythons_random_decides():
    random.seed(7)
    first = values(Dataset.range(50).shuffle(50))
    random.seed(7)
    assert values(Dataset.range(50).shuffle(50)) == first
    assert values(Dataset.range(50).shuffle(50)) != first


def test_streams_are_shuffled_like_positions():
    rows = np.arange(400.0).reshape(200, 2)
    direct = Dataset.from_tensor_slices(rows).shuffle(30, seed=4)
    stream = Dataset.from_tensor_slices(rows).filter(lambda r: True).shuffle(30, seed=4)
    assert "by index" in direct.explain()
    assert "shuffle rows" in stream.explain()
    assert bits([(r,) for r in direct]) == bits([(r,) for r in stream])


def test_streams_of_varying_shapes_and_strings():
    from drumline.data import TensorSpec

    def rows():
        for i in range(40):
            yield np.full(i % 3 + 1, i), f"s{i}"

    spec = (TensorSpec((None,), np.int64), TensorSpec((), str))
    found = list(Dataset.from_generator(rows, output_signature=spec).shuffle(20, seed=1))
    assert sorted(int(a[0]) for a, _ in found) == list(range(40))
    assert all(a.shape == (a[0] % 3 + 1,) and s == b"s%d" % a[0] for a, s in found)


@pytest.mark.parametrize(
    "source",
    [
        lambda: Dataset.range(300),
        lambda: Dataset.range(300).filter(lambda v: v >= 0),
        lambda: Dataset.range(300).flat_map(lambda v: Dataset.from_tensors(v)),
        lambda: Dataset.range(0),
    ],
)
def test_an_unknown_size_is_that_of_all_elements(source):
    ds = source()
    everything = ds.shuffle(UNKNOWN_CARDINALITY, seed=3)
    assert values(everything) == values(ds.shuffle(300, seed=3))
    assert everything.cardinality() == ds.cardinality()
    assert "all elements" in everything.explain()
    iterator = iter(ds.shuffle(UNKNOWN_CARDINALITY, seed=3))
    first = [int(v) for _, v in zip(range(100), iterator, strict=False)]
    other = iter(source().shuffle(UNKNOWN_CARDINALITY, seed=3))
    other.restore(iterator.state())
    assert first + values(other) == values(source().shuffle(UNKNOWN_CARDINALITY, seed=3))


@pytest.mark.parametrize("size", [0, -1, -3])
def test_sizes_that_are_none(size):
    with pytest.raises(ValueError, match="buffer_size must be at least 1"):
        Dataset.range(3).shuffle(size)


def test_all_elements_of_what_never_ends():
    with pytest.raises(ValueError, match="never full"):
        Dataset.range(3).repeat().shuffle(UNKNOWN_CARDINALITY)
