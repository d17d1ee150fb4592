"""Sparse tensors in Keras's layers and models give what dense ones give."""

import keras
import numpy as np
import pytest

import drumline.compat.tf as tf

ROWS = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 0]], np.float32)


@pytest.fixture
def sparse():
    return tf.sparse.from_dense(ROWS)


def test_a_model_with_a_sparse_input(sparse):
    inputs = tf.keras.Input(shape=(4,), sparse=True)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(2)(inputs))
    expected = ROWS @ model.get_weights()[0]
    called = model(sparse)
    assert type(called) is tf.Tensor
    np.testing.assert_allclose(called, expected, rtol=1e-6)
    predicted = model.predict(sparse, verbose=0)
    assert isinstance(predicted, np.ndarray)
    np.testing.assert_allclose(predicted, expected, rtol=1e-6)


def test_it_trains_as_on_dense_rows(sparse):
    def trained(is_sparse):
        keras.utils.set_random_seed(3)
        inputs = tf.keras.Input(shape=(4,), sparse=is_sparse)
        model = tf.keras.Model(inputs, tf.keras.layers.Dense(2)(inputs))
        model.compile("sgd", "mse")
        x = sparse if is_sparse else ROWS
        model.fit(x, np.ones((3, 2), np.float32), batch_size=3, epochs=3, verbose=0)
        return model.get_weights()

    for found, expected in zip(trained(True), trained(False), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_users_layer_is_given_a_sparse_tensor(sparse):
    class Doubled(tf.keras.layers.Layer):
        def call(self, x):
            assert isinstance(x, tf.SparseTensor)
            return 2 * tf.sparse.to_dense(x)

    np.testing.assert_array_equal(Doubled()(sparse), 2 * ROWS)


def test_a_layer_of_keras_gives_a_sparse_tensor():
    ids, weights = tf.constant([[3, 1, 3]]), tf.constant([[0.5, 2.0, 1.0]])
    layer = tf.keras.layers.CategoryEncoding(num_tokens=5, output_mode="count", sparse=True)
    counted = layer(ids, count_weights=weights)
    assert isinstance(counted, tf.SparseTensor)
    np.testing.assert_array_equal(counted.indices, [[0, 1], [0, 3]])
    np.testing.assert_array_equal(tf.sparse.to_dense(counted), [[0, 2, 0, 1.5, 0]])
