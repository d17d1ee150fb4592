"""What each process of a cluster records in a folder of its own."""

from __future__ import annotations

import json
import os
from typing import Any

import keras
import numpy as np

import drumline as dl


def member(folder: str) -> None:
    """In a process: record in steps, in functions around them, in short batches, and in `fit`."""
    strategy = dl.distribute.MultiWorkerMirroredStrategy()
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    with dl.summary.create_file_writer(os.path.join(folder, str(rank))).as_default():
        in_functions(strategy)
        in_fit(strategy)


def in_functions(strategy: dl.distribute.Strategy) -> None:
    """Two steps with a row and more for each replica, and one with rows for some alone."""
    replicas = strategy.num_replicas_in_sync
    with strategy.scope():
        count = dl.Variable(np.int32(0))
    rows = np.arange(2 * replicas + 1, dtype=np.float32)
    data = dl.data.Dataset.from_tensor_slices(rows).batch(replicas)

    def replica_step(x: Any) -> Any:
        dl.summary.scalar("first", x[0] + 10, step=count)
        return x.sum()

    @dl.function
    def step(batch: Any) -> Any:
        each = strategy.run(replica_step, args=(batch,))
        dl.summary.scalar("total", strategy.reduce("SUM", each, axis=None), step=count)
        dl.summary.write("constant", np.arange(2), step=count)
        count.assign_add(1)

    for batch in strategy.experimental_distribute_dataset(data):
        step(batch)
        strategy.run(replica_step, args=(batch,))


def in_fit(strategy: dl.distribute.Strategy) -> None:
    """Steps of Keras's, of whole batches too."""

    class Recorded(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            dl.summary.scalar("largest", keras.ops.max(x), step=optimizer.iterations)
            return x

    with strategy.scope():
        optimizer = keras.optimizers.SGD()
        model = keras.Sequential([keras.Input((1,)), Recorded(), keras.layers.Dense(1)])
        model.compile(optimizer, "mse")
    x = np.arange(1, 10, dtype=np.float32)[:, None]
    model.fit(x, x, batch_size=4, verbose=0, shuffle=False)
