"""A step that is defined inside a function, as TensorFlow's tutorial has it."""

import functools

import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl

ROWS = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)


def trained(devices: int, inside: bool) -> list[np.ndarray]:
    strategy = dl.distribute.MirroredStrategy([f"cpu:{i}" for i in range(devices)])
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
        optimizer = keras.optimizers.SGD(0.1)

    def one(x):
        with dl.GradientTape() as tape:
            loss = jnp.sum(model(x, training=True) ** 2) / 16
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @dl.function
    def step(batch):
        def anew(x):
            # What it reads besides keeps it from being recognized as the same function.
            return one(x) + batch_number[0] * 0

        return strategy.run(anew if inside else one, args=(batch,))

    batch_number = [0]
    batches = dl.data.Dataset.from_tensor_slices(ROWS).batch(16)
    for number, batch in enumerate(strategy.experimental_distribute_dataset(batches)):
        batch_number[0] = number
        step(batch)
    return [weight.numpy() for weight in model.weights]


@pytest.mark.parametrize("devices", [1, 2])
def test_steps_defined_inside_a_function_train_alike(devices):
    expected, found = trained(1, inside=False), trained(devices, inside=True)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


loss = 0.0  # a name of the module that a step below has as an attribute's name


class Settings:
    loss = 2.0

    def scaled(self, x):
        return x * self.loss


SETTINGS = Settings()


def count_traces(make_step, calls=4, inside=True) -> list[float]:
    """Run what `make_step(traces)` gives in each call; return how many traces, and the sums."""
    global loss
    strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    traces: list[int] = []
    sums = []

    def call(batch):
        return strategy.run(make_step(traces), args=(batch,))

    batches = dl.data.Dataset.from_tensor_slices(np.ones(2 * calls, np.float32)).batch(2)
    iterator = iter(strategy.experimental_distribute_dataset(batches))
    compiled = dl.function(lambda batches: call(next(batches)))
    for _ in range(calls):
        result = compiled(iterator) if inside else call(next(iterator))
        loss = loss + 1.0
        sums.append(float(strategy.reduce("SUM", result, axis=0)))
    return [len(traces), *sums]


def attribute(traces):
    """It reads an attribute with the name of a global that changes from call to call."""

    def step(x):
        traces.append(1)
        return x * SETTINGS.loss

    return step


def partial(traces):
    def step(factor, x, *, shift):
        traces.append(1)
        return x * factor + shift

    return functools.partial(step, 2.0, shift=0.0)


def bound_method(traces):
    scaled = SETTINGS.scaled

    def step(x):
        traces.append(1)
        return scaled(x)

    return step


def constants(traces):
    factor, names = np.float32(2.0), ("a", ("b", 3))

    def step(x):
        traces.append(1)
        return x * factor if names else x

    return step


@pytest.mark.parametrize("make_step", [attribute, partial, bound_method, constants])
def test_a_step_that_sees_the_same_is_compiled_once(make_step):
    # once to find the variables, once to compile
    assert count_traces(make_step) == [2, 4.0, 4.0, 4.0, 4.0]


def test_a_step_that_sees_another_value_is_compiled_for_it():
    values = iter(range(4))

    def make_step(traces):
        factor = (np.float32(next(values)),)

        def step(x):
            traces.append(1)
            return x * factor[0]

        return step

    assert count_traces(make_step) == [8, 0.0, 2.0, 4.0, 6.0]


def test_values_that_could_be_arguments_are_told():
    values = iter(range(5))

    def make_step(traces):
        factor = jnp.float32(next(values))
        return lambda x: x * factor

    with pytest.warns(UserWarning, match=r"5 times, since it saw other values of 'factor' each"):
        count_traces(make_step, calls=5)


def test_a_step_that_a_loop_in_python_defines_again_is_told():
    with pytest.warns(UserWarning, match="another function each time.*before the loop") as caught:
        assert count_traces(attribute, calls=6, inside=False)[0] == 12
    assert caught[0].filename == __file__ and len(caught) == 1


def test_steps_of_many_models_are_not_told(recwarn):
    def make_step(traces):
        weight = dl.Variable(2.0)
        return lambda x: x * weight.value

    count_traces(make_step, calls=6, inside=False)
    assert not recwarn.list
