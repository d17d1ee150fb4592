"""Names: scopes, variables' names, modules, and creators of variables."""

import threading

import keras
import numpy as np
import pytest

from drumline.compat import tf


def test_scopes_put_names_before_those_of_variables():
    with tf.name_scope("outer") as outer:
        assert outer == "outer/"
        assert tf.get_current_name_scope() == "outer"
        assert tf.Variable(1.0, name="x").name == "outer/x:0"
        with tf.name_scope("a/b"):
            assert tf.Variable(1.0).name == "outer/a/b/Variable:0"
        with tf.name_scope("again/") as again:
            assert again == "again/"
            assert tf.Variable(1.0, name="x").name == "again/x:0"
        with tf.name_scope(""):
            assert tf.Variable(1.0, name="x").name == "x:0"
    assert tf.get_current_name_scope() == ""
    assert tf.Variable(1.0, name="x").name == "x:0"


def test_scopes_end_when_an_error_leaves_them():
    with pytest.raises(ZeroDivisionError), tf.name_scope("lost"):
        _ = 1 / 0
    assert tf.get_current_name_scope() == ""
    with pytest.raises(ValueError, match="must be a string"):
        tf.name_scope(None)


def test_scopes_are_of_their_thread():
    seen = []
    with tf.name_scope("here"):
        thread = threading.Thread(target=lambda: seen.append(tf.get_current_name_scope()))
        thread.start()
        thread.join()
    assert seen == [""]


def test_former_scopes():
    with tf.compat.v1.name_scope(None, "default", [1]) as full:
        assert full == "default/"
    with tf.compat.v1.variable_scope("net"), tf.name_scope("inner"):
        assert tf.compat.v1.get_variable("named_w", [1]).name == "net/named_w:0"
        assert tf.Variable(1.0, name="w").name == "net/inner/w:0"


class Dense(tf.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.bias = tf.Variable([0.0], name="bias")

    @tf.Module.with_name_scope
    def __call__(self):
        self.late = tf.Variable(1.0, name="late")
        return self.late


class Inner(tf.Module):
    def __init__(self):
        super().__init__()
        self.a = tf.Variable([1.0], name="a")


class MLPBlock(tf.Module):
    pass


def test_modules_names_and_the_order_of_their_variables():
    dense = Dense()
    assert dense().name == "dense/late:0"
    assert dense.name_scope.name == "dense/"
    # Its own before those of modules in it, as in TensorFlow.
    assert [each.name for each in dense.variables] == ["bias:0", "dense/late:0", "a:0"]
    assert MLPBlock().name == "mlp_block"


def test_modules_can_have_a_metaclass_of_theirs():
    import abc

    class Meta(abc.ABCMeta):
        def __call__(cls, *args, **kwargs):
            made = super().__call__(*args, **kwargs)
            made.ready = True
            return made

    class Base(tf.Module, metaclass=Meta):
        pass

    assert Base().ready
    assert isinstance(keras.layers.Dense(1), tf.Module)
    assert not isinstance(keras.layers.Dense(1), Base)


def test_objects_are_converted_by_a_registered_function():
    class Celsius:
        def __init__(self, degrees):
            self.degrees = degrees

    tf.register_tensor_conversion_function(
        Celsius, lambda value, dtype=None, name=None, as_ref=False: tf.constant(value.degrees)
    )
    assert (tf.constant(1.0) + Celsius(2.0)).numpy() == 3.0
    np.testing.assert_array_equal(tf.convert_to_tensor(Celsius([1.0, 2.0])), [1.0, 2.0])
    with pytest.raises(TypeError, match="base_type"):
        tf.register_tensor_conversion_function("Celsius", float)
    with pytest.raises(TypeError, match="NumPy"):
        tf.register_tensor_conversion_function(int, float)
