"""Layers that learn from datasets, without TensorFlow."""

import keras
import numpy as np
import pytest

from drumline.data import Dataset

ROWS = np.random.default_rng(0).normal(1000, 2, (101, 4, 3)).astype(np.float32)


@pytest.mark.parametrize("axis", [-1, None, (1, 2)])
def test_means_are_those_of_the_array(axis):
    wanted, made, labelled = (keras.layers.Normalization(axis) for _ in range(3))
    wanted.adapt(ROWS.astype(np.float64))
    made.adapt(Dataset.from_tensor_slices(ROWS).batch(32))
    labelled.adapt(Dataset.from_tensor_slices((ROWS, np.arange(101))).batch(7))
    for layer in (made, labelled):
        np.testing.assert_allclose(layer.mean, wanted.mean, rtol=1e-6)
        np.testing.assert_allclose(layer.variance, wanted.variance, rtol=1e-5)
        np.testing.assert_allclose(layer(ROWS), wanted(ROWS), atol=1e-3)


def test_single_vectors_are_rows():
    vectors = ROWS.reshape(-1, 3)
    wanted, made = keras.layers.Normalization(), keras.layers.Normalization()
    wanted.adapt(vectors.astype(np.float64))
    made.adapt(Dataset.from_tensor_slices(vectors))
    np.testing.assert_allclose(made.mean, wanted.mean, rtol=1e-6)
    np.testing.assert_allclose(made.variance, wanted.variance, rtol=1e-5)


def test_bins_hold_equal_numbers():
    layer = keras.layers.Discretization(num_bins=4)
    layer.adapt(Dataset.range(1000).batch(64))
    np.testing.assert_allclose(layer.bin_boundaries, [250, 500, 750], atol=10)
    layer.adapt(Dataset.range(1000).batch(100), steps=1)
    np.testing.assert_allclose(layer.bin_boundaries, [25, 50, 75], atol=2)


def test_single_numbers_are_put_in_batches():
    layer = keras.layers.Discretization(num_bins=4)
    layer.adapt(Dataset.range(1000))
    np.testing.assert_allclose(layer.bin_boundaries, [250, 500, 750], atol=20)
    made = keras.layers.Normalization(axis=None)
    made.adapt(Dataset.range(5))
    assert np.asarray(made.mean).item() == 2 and np.asarray(made.variance).item() == 2


def test_discretization_says_what_to_do_with_an_endless_dataset():
    layer = keras.layers.Discretization(num_bins=4)
    with pytest.raises(ValueError, match=r"Discretization\.adapt: .*never ends.*steps=.*take"):
        layer.adapt(Dataset.range(3).repeat())
    layer.adapt(Dataset.range(1000).repeat().batch(100), steps=1)
    np.testing.assert_allclose(layer.bin_boundaries, [25, 50, 75], atol=2)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (Dataset.from_tensors({"a": ROWS}), "batches must be arrays, or tuples that begin with"),
        (Dataset.from_tensors(ROWS).repeat(), r"never ends \(.*give a part of it, dataset.take"),
        (Dataset.from_tensors("a"), "expected numbers, got strings"),
        (Dataset.from_tensors(ROWS).take(0), "has no element"),
    ],
)
def test_what_cannot_be_learnt_from(dataset, message):
    with pytest.raises(ValueError, match=rf"Normalization\.adapt: .*{message}"):
        keras.layers.Normalization().adapt(dataset)
