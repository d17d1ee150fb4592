"""``tf.experimental.numpy``: values and dtypes of numpy, and its behaviour given to tensors."""

import subprocess
import sys

import numpy as np
import pytest
from drumline.compat.tf.experimental import numpy as tnp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from drumline.compat import tf


@pytest.fixture(autouse=True)
def no_rules_remain():
    yield
    tnp.experimental_enable_numpy_behavior(dtype_conversion_mode="off")


NUMBERS = arrays.arrays(
    st.sampled_from([np.int8, np.int32, np.int64, np.float32, np.float64]),
    st.sampled_from([(3,), (2, 3), ()]),
    elements=st.integers(-9, 9),
)


@given(NUMBERS, NUMBERS)
def test_functions_of_two_arrays_are_numpys(a, b):
    for name in ("add", "subtract", "multiply", "maximum", "minimum", "less", "equal"):
        got, wanted = getattr(tnp, name)(a, tf.constant(b)), getattr(np, name)(a, b)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got.numpy(), wanted)


@given(NUMBERS)
def test_reductions_are_numpys(a):
    for name in ("sum", "prod", "mean", "amax", "amin", "cumsum"):
        got, wanted = getattr(tnp, name)(a), getattr(np, name)(a)
        assert got.dtype == (np.float64 if name == "mean" and a.dtype.kind == "i" else wanted.dtype)
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)


def test_64_bit_integers_are_exact():
    for outside in (2**70, [2**63, 1], [2**63, -1]):
        with pytest.raises(ValueError, match="out-of-range integer"):
            tnp.array(outside)
    large = tnp.array([2**53 + 1, -(2**62)])
    assert large.dtype == tf.int64
    assert tnp.add(large, 1).numpy().tolist() == [2**53 + 2, 1 - 2**62]
    variable = tf.Variable(np.array([2**53 + 1]))
    assert tnp.add(variable, 1).numpy().tolist() == [2**53 + 2]


def test_functions_of_tensorflow_take_its_arrays_and_the_reverse():
    assert tf.reduce_sum(tnp.ones([2, 3], tnp.float32)).numpy() == 6
    assert tnp.sum(tf.ones([2, 3])).numpy() == 6
    assert np.sum(tnp.ones([2, 3])) == 6
    assert tnp.asarray(tensor := tf.constant([1, 2])) is tensor
    assert isinstance(tnp.ones(1), tnp.ndarray)
    assert tnp.ndarray is tf.Tensor


def test_gradients_and_compiled_functions_go_through():
    @tf.function
    def loss(x):
        return tnp.sum(tnp.square(tnp.matmul(x, tnp.ones([3, 1], tnp.float32))))

    x = tf.constant(np.arange(6, dtype=np.float32).reshape(2, 3))
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loss(x)
    assert value.numpy() == 9 + 144
    np.testing.assert_allclose(tape.gradient(value, x).numpy(), [[6] * 3, [24] * 3])


@pytest.mark.filterwarnings("error")
def test_compiled_functions_have_64_bits_if_an_argument_has():
    tnp.experimental_enable_numpy_behavior()

    @tf.function
    def function(x):
        return x * 2.5, tnp.sqrt(x), tnp.sum(x), tnp.where(x > 1, x, 0.5)

    narrow = function(tf.constant([1, 2]))
    wide = function(tnp.array([1, 2]))
    assert [each.dtype.name for each in narrow] == ["float32", "float32", "int32", "float32"]
    assert [each.dtype.name for each in wide] == ["float64", "float64", "int64", "float64"]
    for each in (narrow, wide):
        np.testing.assert_allclose(each[0].numpy(), [2.5, 5])
    assert function(tnp.array([2**53 + 1, 0]))[2].numpy() == 2**53 + 1


def test_a_tape_sees_64_bits():
    x = tnp.array([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tnp.sum(tnp.exp(x))
    assert y.dtype == tf.float64
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), np.exp([1.0, 2.0]), rtol=1e-14)


def test_operands_of_two_dtypes_are_refused_until_the_behavior_is_enabled():
    whole, half = tf.constant(1), tf.constant(0.5)
    with pytest.raises(tf.errors.InvalidArgumentError):
        whole + half
    tnp.experimental_enable_numpy_behavior()
    assert (whole + half).dtype == tf.float64
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.add(whole, half)
    tnp.experimental_enable_numpy_behavior(dtype_conversion_mode="all")
    assert tf.add(whole, half).dtype == tf.float32
    tnp.experimental_enable_numpy_behavior(dtype_conversion_mode="safe")
    with pytest.raises(TypeError, match="relax your dtype promotion rules"):
        whole + tf.constant(0.5, tf.float32)
    tnp.experimental_enable_numpy_behavior(dtype_conversion_mode="off")
    with pytest.raises(tf.errors.InvalidArgumentError):
        whole + half


def test_weak_tensors_take_the_dtype_beside_them():
    tnp.experimental_enable_numpy_behavior(dtype_conversion_mode="all")
    assert repr(tf.constant(5)) == "<tf.Tensor: shape=(), dtype=int32, numpy=5, weak=True>"
    assert (tf.constant(1.2) + tf.constant(3.1, tf.float16)).dtype == tf.float16
    assert "weak=True" in repr(-tf.constant(5))
    assert "weak" not in repr(tf.constant(5, tf.int32))


def test_methods_of_tensors():
    tnp.experimental_enable_numpy_behavior()
    x = tnp.arange(24).reshape(2, 3, 4)
    assert x.T.shape == (4, 3, 2)
    assert (x.ndim, x.size, x.max().numpy(), x.mean().numpy()) == (3, 24, 23, 11.5)
    assert x[:, (True, False, True)].shape == (2, 2, 4)
    assert x[1, (0, 0, 1), tnp.asarray([0, 1, 1])].numpy().tolist() == [12, 13, 17]
    assert x.astype(tnp.float32).dtype == tf.float32
    with pytest.raises(TypeError):
        x[0] = 1


def test_options_are_honoured_where_tensorflow_passes_over_them():
    assert tnp.linspace(0, 10, 3, dtype=np.int32).numpy().tolist() == [0, 5, 10]
    assert tnp.logspace(0, 2, 3, dtype=np.float32).dtype == tf.float32
    assert tnp.round([65, 89], -1).numpy().tolist() == [60, 90]


def test_tensors_name_the_call_that_gives_them_numpys_methods():
    program = (
        "from drumline.compat import tf\n"
        "x = tf.constant([1])\n"
        "assert not hasattr(x, 'reshape')\n"
        "try:\n"
        "    x.T\n"
        "except AttributeError as error:\n"
        "    assert 'experimental_enable_numpy_behavior()' in str(error)\n"
        "else:\n"
        "    raise AssertionError\n"
        "tf.experimental.numpy.experimental_enable_numpy_behavior()\n"
        "assert x.T.shape == (1,)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_shapes_that_depend_on_values_are_refused_in_traces():
    with pytest.raises(Exception, match="shape depends on values"):
        tf.function(lambda x: tnp.nonzero(x))(tf.constant([1, 0]))


def test_arrays_of_numpy_take_the_dtype_asked_for():
    assert tf.constant(np.array([1, 2], np.int32), tf.float64).dtype == tf.float64
    assert tf.convert_to_tensor(np.ones(2, np.float32), tf.float64).dtype == tf.float64
    assert tf.add(tf.constant(2), np.array(1.0, np.float16)).numpy() == 3
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError)):
        tf.add(tf.constant(2), np.array(1.5, np.float16))
