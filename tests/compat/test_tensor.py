"""`Tensor`: what it holds, its operators, and how it passes through JAX."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drumline.compat import tf


def test_python_values_have_tensorflows_types():
    assert tf.constant(1).dtype == tf.int32
    assert tf.constant(1.5).dtype == tf.float32
    assert tf.constant(True).dtype == tf.bool
    assert tf.constant("a").numpy() == b"a"
    assert tf.constant([[1, 2]]).shape.as_list() == [1, 2]
    with pytest.raises(ValueError, match=r"tf\.int64"):
        tf.constant(2**40)


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64, tf.complex64, tf.complex128])
@pytest.mark.parametrize("given", ["f2", "f4", "f8", "i4", "i8", "u1", "?"])
def test_arrays_become_the_dtype_that_is_asked_for(given, dtype):
    array = np.ones(2, given)
    for value in (array, array[0], jnp.asarray(array), [array]):
        for made in (tf.constant(value, dtype), tf.convert_to_tensor(value, dtype)):
            assert made.dtype == dtype
            assert made.numpy().dtype == dtype.as_numpy_dtype
            assert np.all(made.numpy() == 1)


def test_64_bits_keep_their_values():
    big = tf.constant(2**40, tf.int64)
    assert int(big + 1) == 2**40 + 1
    assert (tf.constant(0.1, tf.float64) * 3).numpy() == np.float64(0.1) * 3
    variable = tf.Variable(2**40, dtype=tf.int64)
    assert int(variable.assign_add(1) + tf.constant(1, tf.int64)) == 2**40 + 2
    assert int(tf.cast(tf.constant(5), tf.int64)) == 5


def test_operands_take_the_dtype_of_the_tensor_beside_them():
    assert (tf.constant(1.0) + 1).dtype == tf.float32
    assert (2 * tf.constant(3, tf.int64)).dtype == tf.int64
    assert (tf.constant([1.0]) + np.array([2.0])).dtype == tf.float32
    assert (tf.constant(3) / 2).dtype == tf.float64
    with pytest.raises(tf.errors.InvalidArgumentError, match="tf.cast"):
        tf.constant(1) + tf.constant(1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="int32"):
        tf.constant(1) + 1.5
    with pytest.raises(tf.errors.InvalidArgumentError, match="shapes"):
        tf.constant([1, 2]) + tf.constant([1, 2, 3])


def test_equality_is_by_element_and_tensors_have_no_hash():
    assert (tf.constant([1, 2]) == [1, 3]).numpy().tolist() == [True, False]
    assert (tf.constant(1) == None) is False  # noqa: E711
    assert (tf.constant(["a", "b"]) == "a").numpy().tolist() == [True, False]
    with pytest.raises(TypeError, match="ref"):
        hash(tf.constant(1))
    one = tf.constant(1)
    assert {one.ref(): 2}[one.ref()] == 2
    assert one.ref().deref() is one


def test_slices_and_iteration():
    rows = tf.reshape(tf.range(6), [2, 3])
    assert rows[tf.constant(1), ..., tf.newaxis].shape == (3, 1)
    assert [int(tf.reduce_sum(row)) for row in rows] == [3, 12]
    assert len(rows) == 2
    with pytest.raises(TypeError, match="scalar"):
        iter(tf.constant(1))


def test_text_of_tensors():
    assert repr(tf.constant(1)) == "<tf.Tensor: shape=(), dtype=int32, numpy=1>"
    assert str(tf.constant([1.0])) == "tf.Tensor([1.], shape=(1,), dtype=float32)"
    assert f"{tf.constant(1.5):.2f}" == "1.50"


def test_integers_and_booleans_are_indices():
    assert ["a", "b"][tf.constant(1)] == "b"
    held = tf.train.Int64List(value=[tf.constant(2**40, tf.int64), tf.constant(True)])
    assert list(held.value) == [2**40, 1]
    with pytest.raises(TypeError):
        ["a", "b"][tf.constant(1.0)]


def test_copies():
    tensor = tf.constant([1, 2])
    assert copy.deepcopy(tensor) is tensor
    assert pickle.loads(pickle.dumps(tensor)).numpy().tolist() == [1, 2]
    given = np.array([1, 2])
    tensor = tf.constant(given)
    given[0] = 5
    assert tensor.numpy().tolist() == [1, 2]


def test_tensors_pass_through_jax():
    doubled = jax.jit(lambda tensor: tensor * 2)(tf.constant([1.0]))
    assert type(doubled) is tf.Tensor
    assert doubled.numpy().tolist() == [2.0]
    gradient = jax.grad(lambda tensor: (tensor * tensor)._value.sum())(tf.constant([3.0]))
    assert gradient.numpy().tolist() == [6.0]


def test_arrays_of_jax_are_tensors_to_users():
    assert isinstance(jnp.ones(2), tf.Tensor)
    assert not isinstance(np.ones(2), tf.Tensor)
    assert (tf.constant(1.0) + jnp.ones(2)).numpy().tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", ["int8", "uint16", "float16", "bfloat16", "complex64", "string"])
def test_dtypes_have_one_object_and_many_names(name):
    dtype = tf.as_dtype(name)
    assert dtype is getattr(tf, name)
    assert dtype == name
    assert dtype == dtype.as_numpy_dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype


def test_shapes():
    shape = tf.TensorShape([None, 3])
    assert shape.rank == 2
    assert not shape.is_fully_defined()
    assert shape.merge_with([2, None]) == [2, 3]
    assert tf.TensorShape(None).rank is None
    with pytest.raises(ValueError, match="incompatible"):
        shape.assert_is_compatible_with([2, 4])


def test_strings_are_chosen_by_what_a_device_computed():
    names = np.array(["a", "b", "c"])
    scores = tf.Variable([[0.1, 0.2, 0.9], [0.8, 0.1, 0.3]]) * 1.0
    best = tf.argmax(scores, -1)
    assert isinstance(best.numpy(), np.ndarray)
    high = scores[0] > 0.15
    for found, wanted in [
        (tf.gather(names, best), [b"c", b"a"]),
        (tf.gather_nd(names, best[:, None]), [b"c", b"a"]),
        (tf.where(high, names, "none"), [b"none", b"b", b"c"]),
        (tf.boolean_mask(names, high), [b"b", b"c"]),
        (
            tf.tensor_scatter_nd_update(tf.constant(names), best[:1, None], ["z"]),
            [b"a", b"b", b"z"],
        ),
    ]:
        assert found.dtype == tf.string and found.numpy().tolist() == wanted
    with pytest.warns(UserWarning, match="holds|strings"):
        chosen = tf.function(lambda x: tf.gather(names, tf.argmax(x, -1)))(scores)
    assert chosen.numpy().tolist() == [b"c", b"a"]
