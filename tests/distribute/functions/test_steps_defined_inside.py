"""A step that is defined inside a function, as TensorFlow's tutorial has it."""

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
