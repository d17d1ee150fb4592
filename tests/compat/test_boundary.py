"""Functions of tensors as functions of arrays."""

import functools
import gc
import weakref

import numpy as np
import pytest

from drumline.compat import tf
from drumline.compat.values.boundary import from_core, unwrap, wrap


def test_nested_values_keep_their_structure():
    value = {"b": (np.ones(2), [b"text"]), "a": None}
    wrapped = wrap(value)
    assert list(wrapped) == ["b", "a"]
    assert type(wrapped["b"][0]) is tf.Tensor
    assert unwrap(wrapped)["b"][0] is value["b"][0]
    assert wrapped["b"][1][0].numpy() == b"text"


def test_a_function_has_one_of_arrays():
    def double(x):
        return x * 2

    assert from_core(double) is from_core(double)
    assert from_core(double)(np.int32(3)) == 6

    @functools.wraps(double)
    def other(x):
        return x * 3

    assert from_core(other)(np.int32(3)) == 9


def test_a_method_has_one_of_arrays_for_each_object():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def apply(self, x):
            assert type(x) is tf.Tensor
            return x * self.factor

    two, three = Scale(2), Scale(3)
    assert from_core(two.apply) == from_core(two.apply)
    assert from_core(two.apply) != from_core(three.apply)
    assert from_core(three.apply)(np.int32(3)) == 9


def test_functions_are_freed():
    def make():
        held = np.ones(3)
        return lambda x: x + held

    function = make()
    from_core(function)
    seen = weakref.ref(function)
    del function
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("decorator", [lambda step: step, tf.function])
def test_steps_that_are_methods_are_compiled_once(decorator):
    class Trainer:
        traces = 0

        def __init__(self):
            self.strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])

        @decorator
        def step(self, x):
            type(self).traces += 1
            return x + 1.0

        def run(self):
            return self.strategy.run(self.step, args=(tf.constant(1.0),))

    trainer = Trainer()
    trainer.run()
    first = Trainer.traces
    trainer.run()
    trainer.run()
    assert Trainer.traces == first
