"""Compiles steps for devices that are not there, and says what the programs consist of.

    python -m tests.compiled_for_tpus.programs TOPOLOGY NAME ...

prints a line of JSON for each name, with a topology as ``v5e:2x4`` or ``h100:1x8``. It is a process
of its own, since what libtpu needs in the environment has to be there before JAX starts. Each is as
the program of a test of `MirroredStrategy`: of `fit`, `evaluate`, `predict`, or `strategy.run`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

import drumline as dl
import drumline.keras  # before Keras, whose backend it chooses
from drumline.keras.state import PREDICT_STATE, TEST_STATE
from drumline.keras.step.train_step import GlobalBatchStep, TrainStep
from drumline.keras.trainer import _predict_step
from drumline.plan.gpu_topology import gpu_topology
from drumline.plan.planned_strategy import PlannedStrategy, lowered_step, tpu_topology
from tests.compiled_for_tpus.facts import facts_of

import keras  # isort: skip

ROWS = 16  # of each replica


@dataclasses.dataclass(frozen=True)
class Program:
    """A lowered step, and what is known of it before it is compiled.

    Attributes:
        lowered: the step.
        parameters: how many numbers have a gradient that is reduced.
        beside: how many others are reduced at most: losses, metrics, moving averages, integers as
            two floats.
        state: the bytes that the step replaces.
        most_collectives: how many there are at most; more than one if XLA divides the program.
    """

    lowered: jax.stages.Lowered
    parameters: int
    beside: int
    state: int
    most_collectives: int = 1


def numbers(variables: Iterable[Any]) -> int:
    return sum(int(np.prod(variable.shape, dtype=np.int64)) for variable in variables)


def build(model: keras.Model, x: Any, y: Any) -> None:
    """Make all variables, for rows as `x` and `y`."""
    model._symbolic_build(
        data_batch=tuple(np.zeros((2, *leaf.shape[1:]), leaf.dtype) for leaf in (x, y))
    )
    model.optimizer.build(model.trainable_variables)


def state_of(*groups: Sequence[Any]) -> tuple[list[jax.ShapeDtypeStruct], ...]:
    return tuple([jax.ShapeDtypeStruct(v.shape, v.dtype) for v in group] for group in groups)


def size_of(state: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


def fit(
    model: keras.Model, strategy: PlannedStrategy, x: Any, y: Any, collectives: int = 1
) -> Program:
    """The training step of `fit`, for rows as `x` and `y`."""
    build(model, x, y)
    floats = [v for v in model.non_trainable_variables if "float" in v.dtype]
    integers = [
        v
        for v in model.non_trainable_variables
        if "int" in v.dtype and v.aggregation == "only_first_replica"
    ]
    state = state_of(
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    return Program(
        TrainStep(model, strategy).lowered(state, (x, y)),
        numbers(model.trainable_variables) if collectives else 0,
        numbers([*floats, *integers, *integers, *model.metrics_variables]) if collectives else 0,
        size_of(state),
        collectives,
    )


def rows(
    strategy: PlannedStrategy, shape: tuple[int, ...], dtype: str = "float32", fewer: int = 0
) -> Any:
    """A global batch, of `ROWS` for each replica, but for those that its last has `fewer`."""
    return jax.ShapeDtypeStruct((ROWS * strategy.num_replicas_in_sync - fewer, *shape), dtype)


def classifier() -> keras.Model:
    """The guide's model of digits, with a metric, dropout and Adam."""
    model = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], jit_compile=True)
    return model


def convnet(strategy: PlannedStrategy) -> Program:
    """A step of `fit` on a batch that splits evenly."""
    with strategy.scope():
        x, y = rows(strategy, (12, 12, 1)), rows(strategy, (), "int32")
        return fit(classifier(), strategy, x, y)


def remainder(strategy: PlannedStrategy) -> Program:
    """A step of `fit` on the last batch of an epoch, which every replica computes."""
    with strategy.scope():
        x, y = rows(strategy, (12, 12, 1), fewer=3), rows(strategy, (), "int32", fewer=3)
        return fit(classifier(), strategy, x, y, collectives=0)


def evaluate(strategy: PlannedStrategy) -> Program:
    """A step of `evaluate`: XLA divides it, and sums the loss and the metric."""
    with strategy.scope():
        model = classifier()
        x, y = rows(strategy, (12, 12, 1)), rows(strategy, (), "int32")
        build(model, x, y)
        state = state_of(
            model.trainable_variables, model.non_trainable_variables, model.metrics_variables
        )
        step = GlobalBatchStep(model.test_step, model, TEST_STATE, strategy)
        lowered = step.lowered(state, (x, y))
    return Program(lowered, 0, numbers(model.metrics_variables), size_of(state), 2)


def predict(strategy: PlannedStrategy) -> Program:
    """A step of `predict`, whose outputs stay where they are computed."""
    with strategy.scope():
        model = classifier()
        x = rows(strategy, (12, 12, 1))
        build(model, x, rows(strategy, (), "int32"))
        state = state_of(model.trainable_variables, model.non_trainable_variables)
        step = GlobalBatchStep(
            _predict_step(model), model, PREDICT_STATE, strategy, sharded_outputs=True
        )
        lowered = step.lowered(state, (x,))
    return Program(lowered, 0, 0, size_of(state), 0)


def mixed_precision(strategy: PlannedStrategy) -> Program:
    """Convolutions, moving averages of BatchNormalization and matrix products in bfloat16."""
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((16, 16, 3)),
                keras.layers.Conv2D(32, 3, use_bias=False, dtype="mixed_bfloat16"),
                keras.layers.BatchNormalization(dtype="mixed_bfloat16"),
                keras.layers.ReLU(dtype="mixed_bfloat16"),
                keras.layers.GlobalAveragePooling2D(dtype="mixed_bfloat16"),
                keras.layers.Dense(128, "relu", dtype="mixed_bfloat16"),
                keras.layers.Dense(10),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        model.compile(optimizer, loss, jit_compile=True)
        return fit(model, strategy, rows(strategy, (16, 16, 3)), rows(strategy, (), "int32"))


def counting(strategy: PlannedStrategy) -> Program:
    """`fit` of a layer that counts its batches in an integer, by what replicas compute."""

    class Counting(keras.layers.Layer):
        def build(self, input_shape: Any) -> None:
            self.count = self.add_weight(
                shape=(),
                dtype="int32",
                initializer="zeros",
                trainable=False,
                aggregation="only_first_replica",
            )

        def call(self, x: Any) -> Any:
            self.count.assign(self.count + 1)
            return x

    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((20,)), Counting(), keras.layers.Dropout(0.1), keras.layers.Dense(10)]
        )
        model.compile("sgd", "mse", jit_compile=True)
        return fit(model, strategy, rows(strategy, (20,)), rows(strategy, (10,)))


def custom_loop(strategy: PlannedStrategy) -> Program:
    """A step of the user's: a tape, dropout, BatchNormalization, Adam, metrics, counts of steps."""
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((20,)),
                keras.layers.Dense(64, activation="relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.1),
                keras.layers.Dense(10),
            ]
        )
        optimizer = keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
        mean = keras.metrics.Mean()
        only_first = dl.VariableAggregation.ONLY_FIRST_REPLICA
        steps = dl.Variable(0, dtype="int32", aggregation=only_first)
        seen = dl.Variable(0, dtype="int32", aggregation=only_first)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
    replicas = strategy.num_replicas_in_sync

    def step(x: Any, y: Any) -> Any:
        with dl.GradientTape() as tape:
            losses = loss_of(y, model(x, training=True))
            loss = dl.nn.compute_average_loss(losses, global_batch_size=ROWS * replicas)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        mean.update_state(losses)
        steps.assign_add(1)
        seen.assign(seen + x.shape[0])
        return loss

    x = dl.distribute.PerReplica.of_stacked(np.zeros((replicas, ROWS, 20), np.float32))
    y = dl.distribute.PerReplica.of_stacked(np.zeros((replicas, ROWS), np.int32))
    lowered = lowered_step(strategy, step, (x, y))
    averages = [v for v in model.non_trainable_variables if "float" in v.dtype]
    updated = [v for v in optimizer.variables if "learning_rate" not in v.path]
    written = [*model.variables, *updated, *mean.variables, steps, seen]
    return Program(
        lowered,
        numbers(model.trainable_variables),
        numbers([*averages, *mean.variables, seen, seen]),
        4 * numbers(written),
    )


def attention(strategy: PlannedStrategy) -> Program:
    """A block of a transformer in bfloat16, with AdamW and gradients clipped by their norm."""
    policy = "mixed_bfloat16"
    with strategy.scope():
        inputs = keras.Input((32,), dtype="int32")
        x = keras.layers.Embedding(100, 64, dtype=policy)(inputs)
        attended = keras.layers.MultiHeadAttention(2, 32, dtype=policy)(x, x, use_causal_mask=True)
        x = keras.layers.LayerNormalization(dtype=policy)(x + attended)
        outputs = keras.layers.Dense(100)(keras.layers.Dense(128, "gelu", dtype=policy)(x))
        model = keras.Model(inputs, outputs)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.AdamW(global_clipnorm=1.0), loss, jit_compile=True)
        tokens = rows(strategy, (32,), "int32")
        return fit(model, strategy, tokens, tokens)


def recurrent(strategy: PlannedStrategy) -> Program:
    """An LSTM, whose loop the program keeps, with accumulated gradients."""
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((12, 8)), keras.layers.LSTM(32), keras.layers.Dense(1)]
        )
        optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
        model.compile(optimizer, "mse", jit_compile=True)
        return fit(model, strategy, rows(strategy, (12, 8)), rows(strategy, (1,)))


def whole_batch(strategy: PlannedStrategy) -> Program:
    """A model with a `train_step` of its own, which XLA divides over the devices."""

    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(64)

        def call(self, x: Any) -> Any:
            return self.dense(x)

        def train_step(self, state: Any, data: Any) -> Any:
            return super().train_step(state, data)

    with strategy.scope():
        model = Own()
        model.compile("adam", "mse", jit_compile=True)
        return fit(model, strategy, rows(strategy, (64,)), rows(strategy, (64,)), collectives=3)


PROGRAMS: dict[str, Callable[[PlannedStrategy], Program]] = {
    "convnet": convnet,
    "remainder": remainder,
    "evaluate": evaluate,
    "predict": predict,
    "counting": counting,
    "mixed_precision": mixed_precision,
    "custom_loop": custom_loop,
    "attention": attention,
    "recurrent": recurrent,
    "whole_batch": whole_batch,
}


def main(topology: str, names: list[str]) -> None:
    """Compile programs one after another."""
    drumline.keras.install()
    on_gpus = topology.startswith(("a100", "h"))
    devices = gpu_topology(topology) if on_gpus else tpu_topology(topology)
    for name in names:
        strategy = PlannedStrategy(devices)
        started = time.process_time()
        program = PROGRAMS[name](strategy)
        lowered = time.process_time()
        said = dataclasses.asdict(dataclasses.replace(program, lowered=None))  # type: ignore[arg-type]
        del said["lowered"]
        said |= {"name": name, "described": strategy.describe(), "refused": _refused(strategy)}
        said |= facts_of(strategy.compiled(program.lowered))
        said |= {"seconds": [round(lowered - started, 1), round(time.process_time() - lowered, 1)]}
        print(json.dumps(said), flush=True)


def _refused(strategy: PlannedStrategy) -> str:
    try:
        strategy.run(lambda: None)
    except RuntimeError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
