"""``tf.compat.v1`` gives what TensorFlow's gives."""

import importlib.util

import numpy as np
import pytest

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("compares with TensorFlow, which the reference extra has", allow_module_level=True)

import tensorflow as tf

import drumline.compat.tf as look_alike
from tests.compat import former_programs as programs


def same(found, expected, rtol=2e-6):
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for each, other in zip(found, expected, strict=True):
            same(each, other, rtol)
        return
    a, b = (each.numpy() if hasattr(each, "numpy") else each for each in (found, expected))
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    if a.dtype.kind in "fc":
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6)
    else:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", programs.FUNCTIONS)
def test_functions(name):
    program = programs.FUNCTIONS[name]
    rtol = 1e-4 if "BICUBIC" in name else 2e-6
    same(program(look_alike.compat.v1), program(tf.compat.v1), rtol)


@pytest.mark.parametrize("name", programs.OPTIMIZERS)
def test_optimizers(name):
    make = programs.OPTIMIZERS[name]
    same(programs.minimized(look_alike, make), programs.minimized(tf, make), 3e-5)


@pytest.mark.parametrize("name", programs.LOSSES)
def test_losses(name):
    same(programs.losses(look_alike, name), programs.losses(tf, name))


@pytest.mark.parametrize("program", [programs.decayed, programs.template, programs.scopes])
def test_programs(program):
    same(program(look_alike), program(tf))


@pytest.mark.parametrize(
    "fails",
    [
        lambda v1: v1.reduce_sum([1.0], axis=0, reduction_indices=0),
        lambda v1: v1.where([True], [[1.0], [2.0]], [[1.0], [2.0]]),
        lambda v1: v1.losses.mean_squared_error([1.0, 2.0], [1.0]),
        lambda v1: v1.losses.mean_squared_error([1.0], [1.0], reduction="no"),
        lambda v1: v1.train.AdamOptimizer().apply_gradients([]),
        lambda v1: v1.train.AdamOptimizer().minimize(v1.constant(1.0)),
        lambda v1: v1.nn.dropout([1.0]),
        lambda v1: v1.logging.set_verbosity("NO SUCH"),
    ],
)
def test_errors(fails):
    with pytest.raises(Exception) as expected:  # noqa: PT011
        fails(tf.compat.v1)
    with pytest.raises(Exception) as found:  # noqa: PT011
        fails(look_alike.compat.v1)
    refused = (ValueError, tf.errors.InvalidArgumentError)
    assert isinstance(found.value, ValueError) == isinstance(expected.value, refused)
    for kind in (TypeError, RuntimeError):
        assert isinstance(found.value, kind) == isinstance(expected.value, kind)


@pytest.mark.parametrize("value", [b"a", "ä", 1])
@pytest.mark.parametrize("name", ["as_bytes", "as_text", "as_str", "as_str_any", "path_to_str"])
def test_texts(name, value):
    def result(module):
        try:
            return getattr(module.compat, name)(value)
        except (TypeError, ValueError) as error:
            return type(error)

    assert result(look_alike) == result(tf)


def test_codes_of_errors():
    codes = [name for name in dir(tf.errors) if name.isupper()]
    assert len(codes) == 17
    for name in codes:
        assert getattr(look_alike.errors, name) == getattr(tf.errors, name)
        if name == "OK":
            continue
        code = getattr(tf.errors, name)
        found = look_alike.compat.v1.errors.exception_type_from_error_code(code)
        assert found.__name__ == tf.compat.v1.errors.exception_type_from_error_code(code).__name__
        assert look_alike.compat.v1.errors.error_code_from_exception_type(found) == code


def dimension_programs(tf):
    make = tf.compat.v1.Dimension
    known, unknown, shape = make(6), make(None), tf.TensorShape([16, None, 3])
    yield from (shape.dims[0] + known, known - 2, 8 - known, unknown * 2, 13 // known, known % 4)
    yield from (known == 6, known == make(6), known == 5, known != 5, unknown == 6, known < unknown)
    yield from (known < 7, known >= 7, bool(known), int(known), str(unknown), repr(known))
    yield from (known.is_compatible_with(6), known.is_compatible_with(5), unknown.merge_with(4))
    yield from (tf.TensorShape([known, unknown]).as_list(), tf.TensorShape(None).dims)


def test_dimensions():
    def said(tf):
        return [repr(each) for each in dimension_programs(tf)]

    assert said(look_alike) == said(tf)


@pytest.mark.parametrize(
    "fails",
    [
        lambda make: make(-1),
        lambda make: make("a"),
        lambda make: make(3) / 2,
        lambda make: make(3) - 4,
        lambda make: make(3).assert_is_compatible_with(4),
    ],
)
def test_dimensions_refuse(fails):
    with pytest.raises((TypeError, ValueError)) as expected:
        fails(tf.compat.v1.Dimension)
    with pytest.raises(expected.type):
        fails(look_alike.compat.v1.Dimension)


def identities(tf):
    tf.compat.v1.disable_tensor_equality()
    try:
        x, y = tf.Variable(0.0), tf.Variable(0.0)
        a, b = tf.constant([1.0]), tf.constant([1.0])
        return [x == y, x == x, x != y, a == b, a == a, a != b]
    finally:
        tf.compat.v1.enable_tensor_equality()


def test_tensor_equality():
    assert identities(look_alike) == identities(tf) == [False, True, True, False, True, True]
    assert bool(look_alike.Variable(0.0) == look_alike.Variable(0.0))
