"""Custom loops of `MirroredStrategy(shard=...)`: rows are updated, with the bits of copies."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute import MirroredStrategy, Strategy, get_replica_context
from drumline.distribute.step.arguments import flatten_arguments
from drumline.distribute.step.replica_programs import ReplicaProgram
from drumline.training.cut_values import is_cut, reading_rows, row_length
from tests.distribute.collectives.traffic import bytes_between
from tests.interruptions import interrupted_at

DEVICES = ["cpu:0", "cpu:1", "cpu:2"]
BATCH = 12
thorough = pytest.mark.thorough
Optimizer = Callable[[], keras.optimizers.Optimizer]
OPTIMIZERS: dict[str, Optimizer] = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    "decayed": lambda: keras.optimizers.AdamW(
        keras.optimizers.schedules.ExponentialDecay(0.01, 5, 0.9)
    ),
    "accumulated": lambda: keras.optimizers.Adam(0.01, gradient_accumulation_steps=2),
    "averaged": lambda: keras.optimizers.Lion(1e-3, use_ema=True, ema_overwrite_frequency=3),
    "rmsprop": lambda: keras.optimizers.RMSprop(1e-3, momentum=0.5),
}
ROUNDED = {"averaged"}
"""A sum of two products, of which XLA rounds one or the other."""
ACROSS: dict[str, Optimizer] = {
    "lamb": lambda: keras.optimizers.Lamb(1e-3),
    "clipped": lambda: keras.optimizers.Adam(1e-3, global_clipnorm=0.5),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-3)),
    "adafactor": lambda: keras.optimizers.Adafactor(1e-3),
    "muon": lambda: keras.optimizers.Muon(1e-3),
}
losses_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)


class Loop:
    """A model and the step of a custom loop of it."""

    def __init__(self, strategy: Strategy, optimizer: Optimizer, width: int = 17) -> None:
        self.strategy = strategy
        keras.utils.set_random_seed(1)
        with strategy.scope():
            layers = [
                keras.Input((6,)),
                keras.layers.Dense(width, "relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dense(3),
            ]
            self.model = keras.Sequential(layers)
            self.optimizer = optimizer()

    def step(self, x: Any, y: Any) -> Any:
        with dl.GradientTape() as tape:
            losses = losses_of(y, self.model(x, training=True))
            loss = dl.nn.compute_average_loss(losses, global_batch_size=BATCH)
        weights = self.model.trainable_variables
        gradients = tape.gradient(loss, weights)
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return loss

    def batches(self, rows: int) -> Any:
        dataset = dl.data.Dataset.from_tensor_slices(rows_of(rows)).batch(BATCH)
        return self.strategy.experimental_distribute_dataset(dataset)

    def train(
        self, rows: int, step: Callable[..., Any] | None = None, epochs: int = 3
    ) -> list[float]:
        batches, losses = self.batches(rows), []
        for _ in range(epochs):
            for batch in batches:
                results = self.strategy.run(step or self.step, batch)
                losses.append(float(self.strategy.reduce("SUM", results, axis=None)))
        return losses

    def values(self) -> list[np.ndarray]:
        return [np.asarray(v) for v in (*self.model.variables, *self.optimizer.variables)]

    def require_cut(self, shard: str) -> None:
        """Slots, and weights if `shard` says so, are cut, each of whose devices has a row."""
        shapes = [tuple(variable.shape) for variable in self.model.trainable_variables]
        slots = [v for v in self.optimizer.variables if tuple(v.shape) in shapes]
        assert slots and all(map(is_cut, slots))
        weights = [variable for variable in self.model.variables if is_cut(variable)]
        expected = self.model.trainable_variables if shard == "parameters" else []
        assert list(map(id, weights)) == list(map(id, expected))
        for variable in [*slots, *weights]:
            length = row_length(math.prod(variable.shape), len(DEVICES))
            with reading_rows():
                rows = variable.value
            assert [part.data.shape for part in rows.addressable_shards] == [(1, length)] * 3


def rows_of(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, 6)).astype(np.float32), rng.integers(0, 3, count)


QUICK = {("adam", "optimizer"), ("averaged", "parameters")}


@pytest.mark.parametrize(
    ("name", "shard"),
    [
        pytest.param(name, shard, marks=[] if (name, shard) in QUICK else thorough)
        for name in OPTIMIZERS
        for shard in ("optimizer", "parameters")
    ],
)
def test_a_loop_has_the_bits_of_one_of_copies(name: str, shard: str) -> None:
    found = Loop(MirroredStrategy(DEVICES, shard=shard), OPTIMIZERS[name])
    expected = Loop(MirroredStrategy(DEVICES), OPTIMIZERS[name])
    losses = [loop.train(36) for loop in (found, expected)]
    given = [[loss, *loop.values()] for loss, loop in zip(losses, (found, expected), strict=True)]
    for ours, theirs in zip(*given, strict=True):
        if name in ROUNDED:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(ours, theirs)
    found.require_cut(shard)


@pytest.mark.parametrize("shard", ["optimizer", pytest.param("parameters", marks=thorough)])
def test_shares_of_different_sizes_and_steps_that_are_not_compiled(shard: str) -> None:
    found = Loop(MirroredStrategy(DEVICES, shard=shard), OPTIMIZERS["adam"])
    expected = Loop(MirroredStrategy(DEVICES), OPTIMIZERS["adam"])
    losses = [loop.train(16) for loop in (found, expected)]  # 12 rows, and 4 for three replicas
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    found.require_cut(shard)
    before = dl.config.functions_run_eagerly()
    dl.config.run_functions_eagerly(True)
    try:
        losses = [loop.train(12) for loop in (found, expected)]
    finally:
        dl.config.run_functions_eagerly(before)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    found.require_cut(shard)
    for ours, theirs in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_step_reads_and_writes_what_is_cut_as_whole_values() -> None:
    strategy = MirroredStrategy(DEVICES, shard="parameters")
    loop = Loop(strategy, OPTIMIZERS["momentum"])
    loop.train(12)
    kernel = loop.model.trainable_variables[0]
    before = np.asarray(kernel)

    def step(x: Any, y: Any) -> Any:
        loop.step(x, y)
        updated = keras.ops.sum(kernel.value)
        kernel.assign(kernel.value + 1)
        context = get_replica_context()
        assert context is not None
        return context.all_gather(updated[None])

    batch = next(iter(loop.batches(12)))
    sums = strategy.experimental_local_results(strategy.run(step, batch))[0]
    after = np.asarray(kernel) - 1
    np.testing.assert_allclose(sums, [after.sum()] * 3, rtol=1e-5)
    assert not np.array_equal(after, before)
    loop.require_cut("parameters")


def test_gradients_that_the_user_has_summed_are_not_summed_again() -> None:
    def trained(shard: str | None) -> Loop:
        loop = Loop(MirroredStrategy(DEVICES, shard=shard), OPTIMIZERS["adam"])

        def step(x: Any, y: Any) -> Any:
            with dl.GradientTape() as tape:
                loss = keras.ops.mean(losses_of(y, loop.model(x)))
            weights = loop.model.trainable_variables
            context = get_replica_context()
            assert context is not None
            gradients = context.all_reduce("MEAN", tape.gradient(loss, weights))
            loop.optimizer.apply_gradients(
                zip(gradients, weights, strict=True), skip_gradients_aggregation=True
            )
            return loss

        loop.train(24, step)
        return loop

    found, expected = trained("optimizer"), trained(None)
    for ours, theirs in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
    found.require_cut("optimizer")


def test_checkpoints_and_fit_go_on_where_a_loop_was(tmp_path: Path) -> None:
    first = Loop(MirroredStrategy(DEVICES, shard="parameters"), OPTIMIZERS["adam"])
    first.train(12)
    checkpoint = dl.train.Checkpoint(model=first.model, optimizer=first.optimizer)
    path = checkpoint.save(str(tmp_path / "a"))
    expected = first.values()
    second = Loop(MirroredStrategy(DEVICES[:2]), OPTIMIZERS["adam"])
    second.optimizer.build(second.model.trainable_variables)
    dl.train.Checkpoint(model=second.model, optimizer=second.optimizer).restore(path)
    assert all(map(np.array_equal, second.values(), expected))
    second.train(12)
    checkpoint = dl.train.Checkpoint(model=second.model, optimizer=second.optimizer)
    dl.train.Checkpoint(model=first.model, optimizer=first.optimizer).restore(
        checkpoint.save(str(tmp_path / "b"))
    )
    assert all(map(np.array_equal, first.values(), second.values()))
    first.train(12)
    first.model.compile(first.optimizer, losses_of.name)
    first.model.fit(*rows_of(12), batch_size=12, verbose=0)
    first.train(12)
    first.require_cut("parameters")


@pytest.mark.parametrize("shard", ["optimizer", "parameters"])
def test_a_step_sends_each_row_twice_to_all_others(shard: str) -> None:
    loop = Loop(MirroredStrategy(DEVICES, shard=shard), OPTIMIZERS["adam"], width=600)
    loop.optimizer.build(loop.model.trainable_variables)
    form, arrays = flatten_arguments(next(iter(loop.batches(BATCH))), {})
    program = ReplicaProgram(loop.strategy, loop.step, form).lowered(arrays).compile().as_text()
    assert program is not None
    rows = [row_length(math.prod(v.shape), len(DEVICES)) for v in loop.model.trainable_variables]
    sent = bytes_between(program).sum(axis=1)
    # The gradients' rows and the weights'; the layer's moving averages, which are summed.
    others = 4 * 2 * 600 * 4 // 3
    assert all(0 <= each - 2 * 2 * 4 * sum(rows) <= others + 64 for each in sent), (sent, rows)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in ("lamb", "clipped") else thorough) for n in ACROSS]
)
def test_optimizers_that_look_across_a_variable_are_refused(name: str) -> None:
    loop = Loop(MirroredStrategy(DEVICES, shard="optimizer"), ACROSS[name])
    # Keras's Adafactor makes some of its variables so that no step can.
    loop.optimizer.build(loop.model.trainable_variables)
    with pytest.raises(ValueError, match=r"computes across a variable.*Train by Keras's `fit`"):
        loop.train(12)


@pytest.mark.parametrize("shard", ["optimizer", "parameters"])
def test_functions_run_steps_and_read_what_is_cut(shard: str) -> None:
    def trained(loop: Loop) -> list[float]:
        @dl.function
        def train_step(batch: Any) -> Any:
            losses = loop.strategy.run(loop.step, batch)
            return loop.strategy.reduce("SUM", losses, axis=None)

        @dl.function
        def epoch(batches: Any) -> Any:
            total = 0.0
            for batch in batches:
                total = total + train_step(batch)
            return total

        @dl.function
        def halved() -> Any:
            kernel = loop.model.trainable_variables[0]

            def add(total: Any, _: Any) -> Any:  # the kernel is first read within a loop
                return total + keras.ops.sum(kernel.value), None

            total, _ = jax.lax.scan(add, 0.0, None, 2)
            kernel.assign(kernel.value * 0.5)
            return total + sum(keras.ops.sum(v.value**2) for v in loop.optimizer.variables[2:])

        losses = [float(train_step(batch)) for batch in loop.batches(28)]
        losses += [float(epoch(loop.batches(rows))) for rows in (36, 28)]
        return [*losses, float(halved()), *loop.train(12), float(halved())]

    found = Loop(MirroredStrategy(DEVICES, shard=shard), OPTIMIZERS["adam"])
    expected = Loop(MirroredStrategy(DEVICES), OPTIMIZERS["adam"])
    np.testing.assert_allclose(trained(found), trained(expected), rtol=1e-6)
    for ours, theirs in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    found.require_cut(shard)


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=thorough)])
def test_an_interrupt_leaves_some_whole_number_of_steps(every: int) -> None:
    strategy = MirroredStrategy(DEVICES, shard="parameters")
    with strategy.scope():
        dense = keras.layers.Dense(5, use_bias=False, kernel_initializer="zeros")
        dense.build((None, 3))
        optimizer = keras.optimizers.SGD(1.0, momentum=1e-9)
        optimizer.build(dense.trainable_variables)
    (kernel,) = dense.trainable_variables

    def step(x: Any) -> None:
        optimizer.apply_gradients([(x, kernel)])

    def steps() -> int:
        done = int(optimizer.iterations.value)
        np.testing.assert_array_equal(np.asarray(kernel), np.full((3, 5), -3.0 * done))
        return done

    ones = np.ones((3, 5), np.float32)
    for _ in range(2):
        strategy.run(step, (ones,))
    position, before = 1, steps()
    while interrupted_at(lambda: strategy.run(step, (ones,)), position, ["/drumline/", "/jax/"]):
        done = steps()
        assert done in (before, before + 1), position
        before = done
        position += every
    assert position > 100
    assert is_cut(kernel) and all(map(is_cut, optimizer.variables[2:]))


def test_other_strategies_and_scopes_are_refused() -> None:
    loop = Loop(MirroredStrategy(DEVICES, shard="parameters"), OPTIMIZERS["adam"])
    loop.train(12)
    batch = next(iter(loop.batches(12)))
    with pytest.raises(ValueError, match="cut over the replicas.*the variables' own strategy"):
        MirroredStrategy(DEVICES).run(loop.step, batch)
    with keras.StatelessScope(), pytest.raises(ValueError, match="that Keras or JAX traces"):
        loop.strategy.run(loop.step, batch)
    loop.train(12)
    loop.require_cut("parameters")
