"""Compiles steps for a TPU that is not there, and says what the programs consist of.

    python -m tests.compiled_for_tpus.programs NAME ...

prints a line of JSON for each name: a process of its own, since what libtpu needs in the
environment has to be there before JAX starts. Each is the program of a test of `MirroredStrategy`:
of `fit`, or of `strategy.run`.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import re
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

import drumline as dl
import drumline.keras  # before Keras, whose backend it chooses
from drumline.keras.step.train_step import TrainStep
from drumline.plan.planned_strategy import PlannedStrategy, lowered_step, tpu_topology

import keras  # isort: skip

TOPOLOGY = "v5e:2x4"
ROWS = 16  # of each replica


@dataclasses.dataclass(frozen=True)
class Program:
    """A lowered step, and what is known of it before it is compiled.

    Attributes:
        lowered: the step.
        parameters: how many numbers have a gradient.
        beside: how many others are reduced at most: losses, metrics, moving averages.
        state: the bytes that the step replaces.
        whole: whether XLA divides a program over the global batch, with collectives of its own.
    """

    lowered: jax.stages.Lowered
    parameters: int
    beside: int
    state: int
    whole: bool = False


def numbers(variables: Iterable[Any]) -> int:
    return sum(int(np.prod(variable.shape, dtype=np.int64)) for variable in variables)


def fit(
    model: keras.Model, strategy: PlannedStrategy, x: Any, y: Any, whole: bool = False
) -> Program:
    """The training step of `fit`, for rows as `x` and `y`."""
    model._symbolic_build(
        data_batch=tuple(np.zeros((2, *leaf.shape[1:]), leaf.dtype) for leaf in (x, y))
    )
    model.optimizer.build(model.trainable_variables)
    floats = [v for v in model.non_trainable_variables if "float" in v.dtype]
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([jax.ShapeDtypeStruct(v.shape, v.dtype) for v in group] for group in groups)
    return Program(
        TrainStep(model, strategy).lowered(state, (x, y)),
        numbers(model.trainable_variables),
        numbers(floats) + numbers(model.metrics_variables),
        sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)),
        whole,
    )


def rows(strategy: PlannedStrategy, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    return jax.ShapeDtypeStruct((ROWS * strategy.num_replicas_in_sync, *shape), dtype)


def convnet(strategy: PlannedStrategy) -> Program:
    """The guide's model of digits, with a metric, dropout and Adam."""
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((28, 28, 1)),
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
        return fit(model, strategy, rows(strategy, (28, 28, 1)), rows(strategy, (), "int32"))


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


def custom_loop(strategy: PlannedStrategy) -> Program:
    """A step of the user's: a tape, dropout, Adam, and a count of steps."""
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((20,)),
                keras.layers.Dense(64, activation="relu"),
                keras.layers.Dropout(0.1),
                keras.layers.Dense(10),
            ]
        )
        optimizer = keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
        only_first = dl.VariableAggregation.ONLY_FIRST_REPLICA
        steps = dl.Variable(0, dtype="int32", aggregation=only_first)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
    replicas = strategy.num_replicas_in_sync

    def step(x: Any, y: Any) -> Any:
        with dl.GradientTape() as tape:
            losses = loss_of(y, model(x, training=True))
            loss = dl.nn.compute_average_loss(losses, global_batch_size=ROWS * replicas)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        steps.assign_add(1)
        return loss

    x = dl.distribute.PerReplica.of_stacked(np.zeros((replicas, ROWS, 20), np.float32))
    y = dl.distribute.PerReplica.of_stacked(np.zeros((replicas, ROWS), np.int32))
    lowered = lowered_step(strategy, step, (x, y))
    return Program(
        lowered,
        numbers(model.trainable_variables),
        0,
        4 * numbers([*model.variables, *optimizer.variables, steps]),
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
        return fit(model, strategy, rows(strategy, (64,)), rows(strategy, (64,)), whole=True)


PROGRAMS: dict[str, Callable[[PlannedStrategy], Program]] = {
    "convnet": convnet,
    "mixed_precision": mixed_precision,
    "custom_loop": custom_loop,
    "attention": attention,
    "recurrent": recurrent,
    "whole_batch": whole_batch,
}

_COLLECTIVE = re.compile(
    r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)
_ARRAY = re.compile(r"\b(pred|[subf]\w*\d+)\[([\d,]*)\]")


def facts_of(lowered: jax.stages.Lowered) -> dict[str, Any]:
    """What is said of a program: its collectives, foreign calls, donation, and types."""
    started = time.process_time()
    compiled = lowered.compile()
    text = compiled.as_text()
    memory = compiled.memory_analysis()
    collectives = []
    for shapes, kind in _COLLECTIVE.findall(text):
        arrays = [
            (dtype, int(np.prod([int(each) for each in dims.split(",") if each], dtype=np.int64)))
            for dtype, dims in _ARRAY.findall(shapes)
        ]
        collectives.append([kind, arrays])
    return {
        "collectives": collectives,
        "custom_calls": sorted(set(re.findall(r'custom_call_target="([^"]+)"', text))),
        "multiplied": _multiplied(text),
        "arguments": memory.argument_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def _multiplied(text: str) -> dict[str, int]:
    """How many convolutions there are, which matrix products are too on TPUs, by operands' type."""
    types = dict(re.findall(r"%([\w.-]+) = (\w+)\[", text))
    found: collections.Counter[str] = collections.Counter()
    for operand in re.findall(r"\bconvolution\([^%]*%([\w.-]+)", text):
        found[types[operand]] += 1
    return dict(found)


def main(names: list[str]) -> None:
    """Compile programs one after another."""
    drumline.keras.install()
    devices = tpu_topology(TOPOLOGY)
    for name in names:
        strategy = PlannedStrategy(devices)
        started = time.process_time()
        program = PROGRAMS[name](strategy)
        facts = dataclasses.asdict(dataclasses.replace(program, lowered=None))  # type: ignore[arg-type]
        del facts["lowered"]
        facts |= {"name": name, "lowered_cpu_seconds": round(time.process_time() - started, 1)}
        facts |= {"described": strategy.describe(), "refused": _refused(strategy)}
        print(json.dumps(facts | facts_of(program.lowered)), flush=True)


def _refused(strategy: PlannedStrategy) -> str:
    try:
        strategy.run(lambda: None)
    except RuntimeError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
