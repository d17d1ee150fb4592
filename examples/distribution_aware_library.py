"""A layer and a metric that work in a strategy's scope and outside, in a step and outside.

`python examples/distribution_aware_library.py` uses both in four places and compares.
"""

import drumline as dl  # before Keras, whose backend it selects

# isort: split
import keras
import numpy as np


class GlobalCentering(keras.layers.Layer):
    """Subtracts the mean of the global batch, whichever part of it this replica has."""

    def call(self, inputs):
        sums = keras.ops.sum(inputs, axis=0), float(inputs.shape[0])
        context = dl.distribute.get_replica_context()
        if context is not None:  # None across replicas, where the inputs are the whole batch
            sums = context.all_reduce("SUM", sums)
        total, rows = sums
        return inputs - total / rows


class MeanSquare:
    """The mean of the squares of all values seen, by all replicas together."""

    def __init__(self):
        self.total, self.count = (
            dl.Variable(
                0.0,
                synchronization=dl.VariableSynchronization.ON_READ,
                aggregation=dl.VariableAggregation.SUM,
            )
            for _ in range(2)
        )

    def update_state(self, values):
        self.total.assign_add(keras.ops.sum(values**2))
        self.count.assign_add(float(np.prod(values.shape)))

    def result(self):
        return float(self.total.value / self.count.value)


def plain(rows):
    """Outside of every scope."""
    layer, metric = GlobalCentering(), MeanSquare()
    centred = layer(rows)
    metric.update_state(centred)
    return np.asarray(centred), metric.result()


def across_replicas(strategy, rows):
    """In a strategy's scope, but in no step."""
    with strategy.scope():
        return plain(rows)


def in_a_step(strategy, rows):
    """On each replica's share."""
    with strategy.scope():
        layer, metric = GlobalCentering(), MeanSquare()

    def step(share):
        centred = layer(share)
        metric.update_state(centred)
        return centred

    dataset = dl.data.Dataset.from_tensor_slices(rows).batch(len(rows))
    (batch,) = strategy.experimental_distribute_dataset(dataset)
    centred = strategy.run(step, args=(batch,))
    return np.asarray(strategy.gather(centred, axis=0)), metric.result()


if __name__ == "__main__":
    dl.config.set_logical_devices("cpu", 2)
    strategy = dl.distribute.MirroredStrategy()
    for count in (8, 7):  # seven rows: the replicas have shares of different sizes
        rows = np.random.default_rng(count).normal(3, 2, (count, 5)).astype("float32")
        expected, mean_square = plain(rows)
        print(f"{count} rows, outside of scopes: mean square {mean_square:.6f}")
        for place, (centred, result) in {
            "in scope, no step": across_replicas(strategy, rows),
            "in a step": in_a_step(strategy, rows),
        }.items():
            print(f"{count} rows, {place}: mean square {result:.6f}")
            np.testing.assert_allclose(centred, expected, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(result, mean_square, rtol=1e-5)
    print("the same everywhere")
