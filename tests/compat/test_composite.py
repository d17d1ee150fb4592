"""Ragged and sparse tensors in datasets, compiled functions, and users' dispatch."""

import pytest

from drumline.compat import tf


def test_rows_of_a_dataset_are_batched_as_rows():
    ragged = tf.ragged.constant([[1], [2, 3], []])
    batches = list(tf.data.Dataset.from_tensor_slices(ragged).batch(2))
    assert [batch.to_list() for batch in batches] == [[[1], [2, 3]], [[]]]


def test_sparse_rows_are_batched_to_sparse_tensors():
    sparse = tf.SparseTensor([[0, 1], [2, 0]], [5, 6], [3, 2])
    batches = list(tf.data.Dataset.from_tensor_slices(sparse).batch(2))
    dense = [tf.sparse.to_dense(batch).numpy().tolist() for batch in batches]
    assert dense == [[[0, 5], [0, 0]], [[6, 0]]]


def test_compiled_functions_take_rows_of_each_length():
    sums = tf.function(lambda x: tf.reduce_sum(x, axis=1))
    assert sums(tf.ragged.constant([[1, 2], [3]])).numpy().tolist() == [3, 3]
    assert sums(tf.ragged.constant([[1], [2, 3]])).numpy().tolist() == [1, 5]


def test_functions_without_a_ragged_form_say_so():
    with pytest.raises(TypeError, match="to_tensor"):
        tf.linalg.det(tf.ragged.constant([[1.0], [2.0, 3.0]]))


def test_zeros_would_not_stay_zeros():
    with pytest.raises(TypeError, match="map_values"):
        tf.exp(tf.SparseTensor([[0]], [1.0], [2]))


def test_options_of_batches_and_lookups_of_ragged_tensors_are_not_dropped() -> None:
    rows = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []]))
    (batch,) = rows.batch(2, drop_remainder=True)
    assert batch.to_list() == [[1], [2, 3]]
    with pytest.raises(TypeError, match="unexpected keyword"):
        rows.batch(2, padded=True)
    found = tf.nn.embedding_lookup(
        tf.ones([4, 1]) * 3, tf.ragged.constant([[1], [2]]), max_norm=1.0
    )
    assert found.to_list() == [[[1.0]], [[1.0]]]
