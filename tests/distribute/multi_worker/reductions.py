"""What processes reduce and gather outside of steps, and a process that ends meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from typing import Any

import jax
import ml_dtypes
import numpy as np

import drumline as dl

LARGE = 70_000
"""Numbers of a replica that are too many to be gathered in shared memory."""
ROUNDS = 40
FATAL = 7
STEPS = 20
"""How many steps the instructions are counted of."""


def given(replica: int) -> dict[str, np.ndarray]:
    """Arrays whose sums depend on the order, of many types and sizes, and special numbers."""
    random = np.random.default_rng(replica)
    spread = random.normal(size=(5, 7)) * 10.0 ** random.integers(-3, 4, (5, 7))
    special = np.float32([np.nan, -0.0, np.inf, 1e-42, -1e-42, 3e38])
    return {
        "float32": spread.astype(np.float32),
        "float16": spread.astype(np.float16),
        "bfloat16": spread.astype(ml_dtypes.bfloat16),
        "scalar": np.float32(random.normal()),
        "special": special * np.float32(1 if replica else -1),
        "int32": random.integers(-1000, 1000, (3,)).astype(np.int32),
        "int8": random.integers(-10, 10, (2, 3)).astype(np.int8),
        "uint8": random.integers(0, 20, (9,)).astype(np.uint8),
        "bool": random.integers(0, 2, (6,)).astype(bool),
        "complex64": (random.normal(size=(3, 2)) * (1 + 2j)).astype(np.complex64),
        "more": random.normal(size=3000).astype(np.float32),
        "large": random.normal(size=LARGE).astype(np.float32),
    }


def wide(replica: int) -> dict[str, np.ndarray]:
    """Numbers of 64 bits."""
    random = np.random.default_rng(100 + replica)
    return {
        "int64": random.integers(-(2**60), 2**60, (4,)),
        "float64": random.normal(size=(4,)) * 1e-9 + 1,
    }


def combined(strategy: dl.distribute.Strategy) -> dict[str, str]:
    """The bits of everything that the strategy can make of the replicas' values."""
    found: dict[str, Any] = {}
    with jax.enable_x64(False):
        found |= _combined(strategy, given)
    with jax.enable_x64(True):
        found |= _combined(strategy, wide)
    return {name: described(each) for name, each in found.items()}


def described(array: np.ndarray) -> str:
    """An array's type, shape and bits."""
    return f"{array.dtype}{array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"


def _combined(strategy: dl.distribute.Strategy, make: Any) -> dict[str, np.ndarray]:
    def value_fn(context: Any) -> Any:
        arrays = make(context.replica_id_in_sync_group)
        return jax.tree.map(lambda array: jax.numpy.asarray(array), arrays)

    values = strategy.experimental_distribute_values_from_function(value_fn)
    if strategy.num_replicas_in_sync > 1:  # as steps return them
        values = strategy.run(lambda value: value, args=(values,))
    found = {}
    for name, value in values.items():
        found[f"sum {name}"] = strategy.reduce("SUM", value)
        if name in ("scalar", "int32", "bfloat16", "float64"):
            found[f"mean {name}"] = strategy.reduce("MEAN", value)
        if name in ("float32", "bool"):
            found[f"mean of rows {name}"] = strategy.reduce("MEAN", value, axis=0)
        if name in ("float16", "uint8", "bool", "int64", "special", "large", "complex64"):
            found[f"gathered {name}"] = strategy.gather(value, axis=0)
    return {name: np.asarray(each) for name, each in found.items()}


def member(fault: bool = False, count: bool = False) -> None:
    """In a process of a cluster: combine values; many steps and reductions; or end in one.

    Args:
        fault: end in a reduction.
        count: count the instructions of a step, and do nothing else.
    """
    strategy = dl.distribute.MultiWorkerMirroredStrategy()
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    if fault:
        return _end_in_a_reduction(strategy, rank)
    if count:
        facts = {"instructions": instructions_of_a_step(strategy)}
        print(json.dumps({"facts": facts}), flush=True)
        return
    facts = {"combined": combined(strategy), "totals": totals(strategy, rank)}
    if os.environ.get("DRUMLINE_SHARED_MEMORY") == "0":
        pass  # by messages each reduction is one of all processes
    elif rank == 1:
        facts["alone"] = reduced_alone(strategy)
    else:
        counted(strategy)
    print(json.dumps({"facts": facts}), flush=True)


def totals(strategy: dl.distribute.Strategy, rank: int) -> list[list[float]]:
    """Steps with sums of their own, and reductions of several sizes, each process at its pace."""

    def step(value: Any) -> Any:
        context = dl.distribute.get_replica_context()
        large = jax.numpy.full((3000,), value)
        return context.all_reduce("SUM", value), context.all_reduce("SUM", large).sum(), large

    found = []
    for number in range(ROUNDS):
        value = strategy.experimental_distribute_values_from_function(
            lambda context, number=number: np.float32(number + context.replica_id_in_sync_group)
        )
        if number % 3 == rank:
            time.sleep(0.003)
        small, sums, large = strategy.run(step, args=(value,))
        own = strategy.experimental_local_results(small)[0]
        found.append([float(own), float(strategy.reduce("SUM", sums))])
        found[-1].append(float(strategy.reduce("SUM", large)[-1]))
        found[-1].append(float(strategy.gather(value_of(strategy, value), axis=0)[-1]))
    return found


def counted(strategy: dl.distribute.Strategy) -> Any:
    """What a step returns: more than goes along with it, and then small values."""

    def step() -> Any:
        own = dl.distribute.get_replica_context().replica_id_in_sync_group + 1
        large = jax.numpy.full((LARGE,), own, np.float32)
        return {"large": large, "loss": large[0] / 8, "right": own, "is_first": own == 1}

    return strategy.run(step)


def reduced_alone(strategy: dl.distribute.Strategy) -> list[float]:
    """The small values reduced by one process, while the others call nothing."""
    values = counted(strategy)
    names = ("loss", "right", "is_first")
    return [float(strategy.reduce(op, values[name])) for name in names for op in ("SUM", "MEAN")]


def value_of(strategy: dl.distribute.Strategy, value: Any) -> Any:
    """The replicas' numbers as arrays that can be joined."""
    return strategy.run(lambda x: x[None], args=(value,))


def instructions_of_a_step(strategy: dl.distribute.Strategy) -> float:
    """Instructions of Python that the main thread executes for a step with its data and its loss.

    The step is defined in a function that takes the iterator, as tutorials have it. Unlike time,
    the number is the same on a busy machine.
    """
    import keras

    rows = np.zeros((4, 3), np.float32)
    data = dl.data.Dataset.from_tensors((rows, rows[:, :1])).repeat()
    iterator = iter(strategy.experimental_distribute_dataset(data))
    with strategy.scope():
        model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam()

    @dl.function
    def train_step(iterator: Any) -> Any:
        def step(inputs: Any) -> Any:
            with dl.GradientTape() as tape:
                loss = keras.ops.mean((model(inputs[0]) - inputs[1]) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        losses = strategy.run(step, args=(next(iterator),))
        return strategy.reduce("SUM", losses, axis=None)

    executed = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal executed
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        executed += event == "opcode"
        return trace

    for _ in range(3):
        train_step(iterator)
    sys.settrace(trace)
    try:
        for _ in range(STEPS):
            train_step(iterator)
    finally:
        sys.settrace(None)
    return executed / STEPS


def _end_in_a_reduction(strategy: dl.distribute.Strategy, rank: int) -> None:
    value = strategy.experimental_distribute_values_from_function(lambda _: np.float32(1))
    value = strategy.run(lambda x: x[None] + 1, args=(value,))
    for number in range(100):
        if number == FATAL:
            print(json.dumps({"facts": {"reduces": number}, "time": time.time()}), flush=True)
        if number == FATAL and rank == 1:
            time.sleep(1.0)  # the others wait in their reduction meanwhile
            os.kill(os.getpid(), signal.SIGKILL)
        float(strategy.reduce("SUM", value, axis=0))
