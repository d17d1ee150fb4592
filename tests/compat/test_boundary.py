"""Functions of tensors as functions of arrays."""

import copy
import functools
import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import cloudpickle
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


def test_functions_are_freed_without_the_garbage_collector():
    def make(held):
        def branches(x):
            if x > 0:
                return x + held
            return x

        return branches

    function = make(np.ones(3))
    assert from_core(function)(np.float64(1)).tolist() == [2, 2, 2]
    seen = weakref.ref(function)
    gc.disable()
    try:
        del function
        assert seen() is None
    finally:
        gc.enable()


STEPS_IN_A_FUNCTION = """
import gc
import jax
jax.config.update("jax_num_cpu_devices", 2)
import numpy as np
import drumline.compat.tf as tf

strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
dataset = tf.data.Dataset.from_tensor_slices(np.ones((24, 2), np.float32)).batch(2)

@tf.function
def train(iterator):
    def step(x):
        return tf.reduce_sum(x)

    return strategy.reduce("SUM", strategy.run(step, args=(next(iterator),)), axis=None)

iterator = iter(strategy.experimental_distribute_dataset(dataset))
for _ in range(3):
    train(iterator)
gc.collect()
gc.disable()
for _ in range(5):
    assert float(train(iterator)) == 4
gc.set_debug(gc.DEBUG_SAVEALL)
gc.collect()
print([type(each).__name__ for each in gc.garbage])
"""


def test_steps_defined_in_a_function_leave_nothing_to_collect():
    # In a process of its own: what other tests have set up may leave something.
    environment = {**os.environ, "PYTHONPATH": os.fspath(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", STEPS_IN_A_FUNCTION],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


def test_functions_are_pickled_and_copied_whatever_is_known_of_them():
    def double(x):
        return x * 2

    held = from_core(double)
    for again in (cloudpickle.loads(cloudpickle.dumps(double)), copy.deepcopy(double)):
        assert from_core(again)(np.int32(3)) == 6
    assert held is from_core(double)

    class Doubling:
        def __call__(self, x):
            return x * 2

    doubling = Doubling()
    held = from_core(doubling)
    assert from_core(copy.deepcopy(doubling))(np.int32(3)) == 6
    assert held is from_core(doubling)


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
