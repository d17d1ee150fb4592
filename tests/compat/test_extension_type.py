"""Extension types in drumline: nodes of JAX's pytrees, and what they refuse."""

import jax
import numpy as np
import pytest

from drumline.compat import tf


class Masked(tf.experimental.BatchableExtensionType):
    values: tf.Tensor
    mask: tf.Tensor


class Fixed(tf.experimental.ExtensionType):
    values: tf.Tensor
    number: int = 1


def test_is_a_node_of_pytrees():
    value = Fixed([1.0, 2.0], 5)
    leaves, structure = jax.tree_util.tree_flatten(value)
    assert [np.asarray(leaf).tolist() for leaf in leaves] == [[1.0, 2.0]]
    again = jax.tree_util.tree_unflatten(structure, leaves)
    assert type(again) is Fixed and again.number == 5


def test_passes_through_jit():
    doubled = jax.jit(lambda m: Masked(m.values * 2, m.mask))(Masked([1.0, 2.0], [True, False]))
    assert np.asarray(doubled.values).tolist() == [2.0, 4.0]


def test_is_traced_anew_for_another_spec_only():
    traced = []

    @tf.function
    def f(x):
        traced.append(1)
        return x.values + x.number

    assert float(f(Fixed(1.0))) == 2.0
    first = len(traced)
    assert float(f(Fixed(2.0))) == 3.0
    assert len(traced) == first
    assert float(f(Fixed(1.0, 7))) == 8.0
    assert len(traced) > first


def test_passes_through_a_strategy():
    strategy = tf.distribute.get_strategy()
    result = strategy.run(lambda m: Masked(m.values + 1, m.mask), (Masked([1.0], [True]),))
    assert np.asarray(result.values).tolist() == [2.0]


def test_a_type_that_is_not_batchable_says_so():
    dataset = tf.data.Dataset.from_tensors(Fixed([1.0]))
    assert next(iter(dataset)).number == 1
    with pytest.raises(TypeError, match="BatchableExtensionType"):
        next(iter(dataset.batch(1)))


def test_a_function_without_a_handler_names_the_remedy():
    with pytest.raises(TypeError, match="dispatch_for_api"):
        tf.abs(Fixed([1.0]))


def test_ones_like_goes_to_what_is_registered_for_functions_of_one_tensor():
    @tf.experimental.dispatch_for_unary_elementwise_apis(Masked)
    def of_values(api, x):
        return Masked(api(x.values), x.mask)

    try:
        made = tf.ones_like(Masked([3.0], [False]), dtype=tf.int32)
        assert made.values.dtype == tf.int32 and np.asarray(made.values).tolist() == [1]
    finally:
        tf.experimental.unregister_dispatch_for(of_values)


def test_a_concrete_function_refuses_another_spec():
    f = tf.function(lambda m: m.values).get_concrete_function(
        Masked.Spec(tf.TensorSpec([2]), tf.TensorSpec([2], tf.bool))
    )
    assert np.asarray(f(Masked([1.0, 2.0], [True, True]))).tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="was traced for"):
        f(Masked([1.0], [True]))


class Shaped(tf.experimental.BatchableExtensionType):
    shape: tf.TensorShape
    values: tf.Tensor


def test_batches_of_the_source_with_shapes_are_not_cut_into_rows():
    whole = tf.data.Dataset.from_tensors(Shaped([2], [[1.0], [2.0]]))
    with pytest.raises(NotImplementedError, match="Shaped has a tf.TensorShape"):
        whole.unbatch()
    rows = tf.data.Dataset.from_tensor_slices(Shaped([2], [[1.0], [2.0]]))
    (again,) = rows.batch(2).unbatch().batch(2)
    assert again.shape == [2] and again.values.shape == [2, 1]


def test_a_function_that_is_traced_once_gives_an_extension_type():
    class Pair(tf.experimental.ExtensionType):
        first: tf.Tensor
        second: tf.Tensor

    v, seen = tf.Variable(2.0), []

    @tf.function
    def pair(x):
        seen.append(1)
        return {"pair": Pair(x * v, x), "x": x}

    for _ in range(2):
        found = pair(tf.constant([1.0, 3.0]))
        assert found["pair"].first.numpy().tolist() == [2.0, 6.0]
        assert found["pair"].second.numpy().tolist() == found["x"].numpy().tolist() == [1.0, 3.0]
    assert len(seen) == 1
