"""Datasets as leaves of ``from_tensors`` and ``from_tensor_slices``, as in TensorFlow 2.21."""

import json
import pickle

import numpy as np
import pytest

from drumline.data import Dataset, DatasetSpec, RaggedArray, TensorSpec

INT = DatasetSpec(TensorSpec((), np.int64))


def ints(dataset):
    return [int(v) for v in dataset]


def test_a_dataset_is_an_element():
    ds = Dataset.from_tensors(Dataset.range(3))
    assert ds.element_spec == INT and ds.cardinality() == 1
    assert [ints(inner) for inner in ds] == [[0, 1, 2]]
    assert ints(ds.repeat(2).flat_map(lambda d: d)) == [0, 1, 2, 0, 1, 2]
    pair = Dataset.from_tensors((1, {"a": Dataset.range(3)}))
    assert pair.element_spec == (TensorSpec((), np.int32), {"a": INT})
    assert ints(pair.flat_map(lambda n, d: d["a"].map(lambda v: v + n))) == [1, 2, 3]


def test_a_list_of_datasets_is_sliced():
    both = Dataset.from_tensor_slices([Dataset.range(2), Dataset.range(5, 9)])
    assert both.element_spec == INT and both.cardinality() == 2
    assert ints(both.flat_map(lambda d: d)) == [0, 1, 5, 6, 7, 8]
    assert ints(both.interleave(lambda d: d, 2)) == [0, 5, 1, 6, 7, 8]
    beside = Dataset.from_tensor_slices(([10, 20], [Dataset.range(2), Dataset.range(1)]))
    assert ints(beside.flat_map(lambda n, d: d.map(lambda v: v + n))) == [10, 11, 20]
    shuffled = both.shuffle(2, seed=2).flat_map(lambda d: d)
    assert sorted(ints(shuffled)) == [0, 1, 5, 6, 7, 8]
    assert ints(both.skip(1).concatenate(both.take(1)).flat_map(lambda d: d)) == [5, 6, 7, 8, 0, 1]
    inside = Dataset.range(2).flat_map(
        lambda x: Dataset.from_tensor_slices([Dataset.range(2), Dataset.range(x)]).flat_map(
            lambda d: d
        )
    )
    assert ints(inside) == [0, 1, 0, 1, 0]


def test_specs_of_a_list_are_merged():
    ragged = [
        Dataset.from_tensors(np.zeros(2)),
        Dataset.from_tensors(np.zeros(3)),
    ]
    ds = Dataset.from_tensor_slices(ragged)
    assert ds.element_spec == DatasetSpec(TensorSpec((None,), np.float64))
    assert [v.shape for v in ds.flat_map(lambda d: d)] == [(2,), (3,)]


def test_ragged_arrays_stand_beside_datasets():
    rows = RaggedArray.from_rows([[1, 2], [3]])
    whole = Dataset.from_tensors((rows, Dataset.range(2)))
    assert whole.element_spec[0] == Dataset.from_tensors(rows).element_spec
    ((found, inner),) = whole
    assert [row.tolist() for row in found] == [[1, 2], [3]] and ints(inner) == [0, 1]
    sliced = Dataset.from_tensor_slices((rows, [Dataset.range(2), Dataset.range(1)]))
    assert [(row.tolist(), ints(d)) for row, d in sliced] == [([1, 2], [0, 1]), ([3], [0])]


def test_what_is_no_slice_or_does_not_agree_is_refused():
    ds = Dataset.range(3)
    with pytest.raises(ValueError, match="is a dataset and cannot be sliced"):
        Dataset.from_tensor_slices(ds)
    with pytest.raises(ValueError, match=r"\['a'\] is a dataset and cannot be sliced"):
        Dataset.from_tensor_slices({"a": ds})
    with pytest.raises(ValueError, match="first dimensions differ"):
        Dataset.from_tensor_slices(([1, 2], [ds]))
    with pytest.raises(TypeError, match="that of dataset 1 is .*float32"):
        Dataset.from_tensor_slices([ds, Dataset.range(2, output_type=np.float32)])
    with pytest.raises(TypeError, match="datasets cannot be stacked"):
        list(Dataset.from_tensors(ds).batch(1))
    with pytest.raises(TypeError, match="padded_batch takes arrays"):
        list(Dataset.from_tensors(ds).padded_batch(1))
    with pytest.raises(TypeError, match="cannot be stored"):
        Dataset.from_tensors(ds).save("nowhere")


@pytest.mark.parametrize("stop", range(0, 13, 3))
def test_a_state_has_the_seeds_of_inner_datasets(stop):
    def make():
        inner = [Dataset.range(6).shuffle(6), Dataset.range(10, 16).shuffle(3)]
        return Dataset.from_tensor_slices(inner).interleave(lambda d: d, 2)

    iterator = iter(make())
    for _ in range(stop):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    rest = ints(iterator)
    again = iter(make())
    again.restore(state)
    assert ints(again) == rest


def test_inner_datasets_are_part_of_what_a_state_belongs_to():
    def make(length):
        return Dataset.from_tensors(Dataset.range(length)).flat_map(lambda d: d)

    iterator = iter(make(5))
    next(iterator)
    with pytest.raises(ValueError, match="range"):
        iter(make(6)).restore(iterator.state())


def test_a_generator_among_the_datasets_is_not_read_ahead():
    seen = []

    def numbers():
        for i in range(50):
            seen.append(i)
            yield i

    made = Dataset.from_generator(numbers, output_signature=TensorSpec((), np.int64))
    ds = Dataset.from_tensor_slices([Dataset.range(1), made]).flat_map(lambda d: d)
    seen.clear()
    iterator = iter(ds)
    assert [int(next(iterator)) for _ in range(4)] == [0, 0, 1, 2]
    assert seen == [0, 1, 2]


def test_they_are_pickled_with_their_datasets():
    ds = Dataset.from_tensors((1, Dataset.range(3).shuffle(3))).flat_map(lambda n, d: d)
    assert ints(pickle.loads(pickle.dumps(ds))) == ints(ds)
