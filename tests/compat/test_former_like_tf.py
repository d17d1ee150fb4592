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
    same(program(look_alike.compat.v1), program(tf.compat.v1))


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
