"""A custom strategy: gradients travel as bfloat16, and are summed as float32.

A strategy answers where variables live, where replicas run and how values are reduced. This one
changes the third answer alone: `python examples/third_party_strategy.py`.
"""

import argparse

import drumline as dl  # before Keras, whose backend it selects

# isort: split
import jax
import jax.numpy as jnp
import keras
import numpy as np


class CompressedMirroredStrategy(dl.distribute.MirroredStrategy):
    """A `MirroredStrategy` whose float32 arrays travel in half the bytes.

    Each replica adds up one piece of the arrays, in float32, from the bfloat16 pieces of all, and
    sends the sum to the others as bfloat16. Scalars, such as losses and counts, stay exact.
    """

    def all_reduce(self, op, value):
        return jax.tree.map(lambda leaf: self._reduce(dl.distribute.ReduceOp.of(op), leaf), value)

    def _reduce(self, op, leaf):
        if jnp.ndim(leaf) == 0 or leaf.dtype != jnp.float32:
            return super().all_reduce(op, leaf)
        replicas, (axis,) = self.num_replicas_in_sync, self.mesh.axis_names
        flat = jnp.ravel(leaf)
        pieces = jnp.pad(flat, (0, -flat.size % replicas)).reshape(replicas, -1)
        received = jax.lax.all_to_all(_to_wire(pieces), axis, 0, 0)
        total = jnp.sum(_from_wire(received), axis=0)
        if op is dl.distribute.ReduceOp.MEAN:
            total = total / replicas
        whole = _from_wire(jax.lax.all_gather(_to_wire(total), axis))
        return jnp.ravel(whole)[: flat.size].reshape(leaf.shape)


def _to_wire(array):
    # As integers: compilers may widen bfloat16 on its way between devices.
    return jax.lax.bitcast_convert_type(array.astype(jnp.bfloat16), jnp.uint16)


def _from_wire(array):
    return jax.lax.bitcast_convert_type(array, jnp.bfloat16).astype(jnp.float32)


def train(strategy, steps):
    """The losses of `steps` steps on digits."""
    digits = dl.datasets.load("digits", split="train", as_supervised=True)
    batches = digits.map(lambda x, y: (x / np.float32(16), y)).repeat().batch(64).take(steps)
    keras.utils.set_random_seed(2)
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(10)]
        )
        optimizer = keras.optimizers.SGD(0.1)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def step(images, labels):
        with dl.GradientTape() as tape:
            losses = loss_of(labels, model(images, training=True))
            loss = dl.nn.compute_average_loss(losses, global_batch_size=64)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    distributed = strategy.experimental_distribute_dataset(batches)
    return [float(strategy.reduce("SUM", strategy.run(step, args=batch))) for batch in distributed]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps
    dl.config.set_logical_devices("cpu", 2)
    exact = train(dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]), steps)
    compressed = train(CompressedMirroredStrategy(["cpu:0", "cpu:1"]), steps)
    largest = max(abs(a - b) for a, b in zip(exact, compressed, strict=True))
    print(f"loss: {exact[0]:.4f} at first, {exact[-1]:.4f} at the end, float32 on the wire")
    print(f"loss: {compressed[0]:.4f} at first, {compressed[-1]:.4f} at the end, bfloat16")
    print(f"largest difference in any of {steps} steps: {largest:.1e}")
    if largest > 0.02 or largest == 0:
        raise SystemExit("the compressed strategy trains differently, or nothing was compressed")
