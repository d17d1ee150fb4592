"""Saving and restoring: what comes back, where, and when."""

from __future__ import annotations

import gc
import logging
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl

ROWS = np.random.default_rng(3).random((8, 6), dtype=np.float32)
TARGETS = np.arange(8) % 3


def mirrored(replicas: int) -> dl.distribute.MirroredStrategy:
    return dl.distribute.MirroredStrategy([f"cpu:{index}" for index in range(replicas)])


class Net(keras.Model):
    """Layers as attributes, in a list, and one that is made in build."""

    def __init__(self) -> None:
        super().__init__()
        self.first = keras.layers.Dense(5, activation="tanh")
        self.rest = [keras.layers.BatchNormalization(), keras.layers.Dropout(0.3)]

    def build(self, input_shape: Any) -> None:
        self.last = keras.layers.Dense(3)
        super().build(input_shape)

    def call(self, x: Any, training: bool = False) -> Any:
        x = self.first(x)
        for layer in self.rest:
            x = layer(x, training=training) if isinstance(layer, keras.layers.Dropout) else layer(x)
        return self.last(x)


def sequential() -> keras.Model:
    return keras.Sequential([keras.layers.Dense(5, activation="relu"), keras.layers.Dense(3)])


class Program:
    """A model in training, with all that goes with it."""

    def __init__(
        self,
        strategy: Any = None,
        model: Callable[[], keras.Model] = Net,
        optimizer: Callable[[], Any] = lambda: keras.optimizers.Adam(0.05),
    ) -> None:
        self.strategy = strategy or mirrored(1)
        with self.strategy.scope():
            self.model = model()
            self.optimizer = optimizer()
            self.accuracy = keras.metrics.SparseCategoricalAccuracy()
            self.steps = dl.Variable(0, aggregation="ONLY_FIRST_REPLICA")
            self.seen = dl.Variable(0.0, synchronization="ON_READ", aggregation="SUM")
        self.losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
        dataset = dl.data.Dataset.from_tensor_slices((ROWS, TARGETS)).shuffle(8, seed=1)
        batches = dataset.repeat().batch(4)
        self.batches = iter(self.strategy.experimental_distribute_dataset(batches))
        self.checkpoint = dl.train.Checkpoint(
            model=self.model,
            optimizer=self.optimizer,
            others={"accuracy": self.accuracy, "counts": [self.steps, self.seen]},
            batches=self.batches,
        )

    def step(self, x: Any, y: Any) -> Any:
        with dl.GradientTape() as tape:
            logits = self.model(x, training=True)
            loss = dl.nn.compute_average_loss(self.losses(y, logits), global_batch_size=4)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        self.accuracy.update_state(y, logits)
        self.steps.assign_add(1)
        self.seen.assign_add(x.shape[0])
        return loss

    def train(self, steps: int) -> list[float]:
        losses = [
            self.strategy.reduce("SUM", self.strategy.run(self.step, args=next(self.batches)))
            for _ in range(steps)
        ]
        return [float(loss) for loss in losses]

    def values(self) -> list[np.ndarray]:
        variables = [*self.model.variables, *self.optimizer.variables, *self.accuracy.variables]
        return [np.asarray(v.value) for v in [*variables, self.steps, self.seen]]


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: keras.optimizers.Adam(0.05),
    "loss scaling": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, 0.9)),
}


@pytest.mark.parametrize(
    ("model", "optimizer", "before"), [(Net, "adam", 0), (sequential, "loss scaling", 1)]
)
def test_training_goes_on_as_if_it_had_not_stopped(
    tmp_path: Path, model: Any, optimizer: str, before: int
) -> None:
    first = Program(mirrored(2), model, OPTIMIZERS[optimizer])
    first.train(3)
    path = first.checkpoint.save(tmp_path / "ckpt")
    assert path == str(tmp_path / "ckpt-1")
    expected = first.train(3)

    second = Program(mirrored(2), model, OPTIMIZERS[optimizer])
    second.train(before)
    status = second.checkpoint.restore(path)
    assert second.train(3) == expected
    status.assert_consumed()
    for mine, theirs in zip(second.values(), first.values(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert second.checkpoint.save_counter == 1 and int(second.steps.value) == 6


@pytest.mark.parametrize("built", [False, True])
def test_another_number_of_replicas(tmp_path: Path, built: bool) -> None:
    first = Program(mirrored(2), sequential)
    first.train(3)
    path = first.checkpoint.save(tmp_path / "ckpt")
    for replicas in (1, 4):
        other = Program(mirrored(replicas), sequential)
        if built:
            other.train(2)
        status = other.checkpoint.restore(path)
        if not built:
            with pytest.raises(AssertionError, match="is not built yet"):
                status.assert_consumed()
            with other.strategy.scope():
                other.model(ROWS)
                other.optimizer.build(other.model.trainable_variables)
        status.assert_consumed()
        for mine, theirs in zip(other.values(), first.values(), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert float(other.seen.value) == 12
        places = {len(v.value.sharding.device_set) for v in other.model.variables}
        assert places == {replicas}


def test_a_model_that_is_built_in_a_compiled_function(tmp_path: Path) -> None:
    first = Program(model=sequential)
    first.train(2)
    first.checkpoint.save(tmp_path / "ckpt")
    model, optimizer = sequential(), keras.optimizers.Adam(0.5)
    checkpoint = dl.train.Checkpoint(model=model, optimizer=optimizer)
    status = checkpoint.restore(dl.train.latest_checkpoint(tmp_path))
    assert float(optimizer.learning_rate) == pytest.approx(0.05)
    found = dl.function(lambda x: model(x))(ROWS)
    np.testing.assert_allclose(found, first.model(ROWS), rtol=1e-6)
    optimizer.build(model.trainable_variables)
    for mine, theirs in zip(optimizer.variables, first.optimizer.variables, strict=True):
        np.testing.assert_array_equal(mine.value, theirs.value)
    status.assert_existing_objects_matched().expect_partial()


def test_values_changed_after_restoring_stay(tmp_path: Path) -> None:
    first = Program(model=sequential)
    first.train(1)
    path = first.checkpoint.save(tmp_path / "ckpt")
    optimizer = keras.optimizers.Adam(0.5)
    dl.train.Checkpoint(optimizer=optimizer).restore(path).expect_partial()
    optimizer.learning_rate = 0.25
    optimizer.build(first.model.trainable_variables)
    assert float(optimizer.learning_rate) == 0.25
    moments = zip(optimizer.variables[2:], first.optimizer.variables[2:], strict=True)
    assert all(np.array_equal(mine.value, theirs.value) for mine, theirs in moments)


def test_an_object_at_two_names(tmp_path: Path) -> None:
    model = sequential()
    model.compile("adam", "mse")
    model.fit(ROWS, np.zeros((8, 3)), verbose=0)
    checkpoint = dl.train.Checkpoint(model=model, optimizer=model.optimizer)
    path = checkpoint.save(tmp_path / "ckpt")
    alone = keras.optimizers.Adam()
    alone.build(model.trainable_variables)
    status = dl.train.Checkpoint(optimizer=alone).restore(path).expect_partial()
    status.assert_existing_objects_matched()
    assert int(alone.iterations) == 1
    with pytest.raises(AssertionError, match="model/layers/0/variables/0"):
        status.assert_consumed()


def test_replicas_values_without_an_aggregate(tmp_path: Path) -> None:
    def made(replicas: int) -> dl.Variable:
        with mirrored(replicas).scope():
            return dl.Variable(np.zeros(2, np.float32), synchronization="ON_READ")

    first = made(2)
    first._direct_assign(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    path = dl.train.Checkpoint(v=first).write(tmp_path / "v")
    second = made(2)
    dl.train.Checkpoint(v=second).read(path).assert_consumed()
    assert np.asarray(second.copies()).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match=r"shape \(2, 2\).*variable.*shape \(3, 2\)"):
        dl.train.Checkpoint(v=made(3)).read(path)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "complex64"])
def test_types(tmp_path: Path, dtype: str) -> None:
    saved = dl.Variable(np.asarray([[1, 0, 1]]).astype(jnp.dtype(dtype)))
    empty, seed = dl.Variable(np.zeros((0, 2))), keras.random.SeedGenerator(5)
    dl.train.Checkpoint(a=saved, b=empty, seed=seed).write(tmp_path / "v")
    fresh = dl.Variable(jnp.zeros((1, 3), dtype))
    other = keras.random.SeedGenerator(6)
    objects = {"a": fresh, "b": dl.Variable(np.ones((0, 2))), "seed": other}
    dl.train.Checkpoint(**objects).read(tmp_path / "v").assert_consumed()
    assert fresh.value.dtype == jnp.dtype(dtype) and fresh.value.tolist() == saved.value.tolist()
    drawn = [keras.random.normal((3,), seed=each).tolist() for each in (seed, other)]
    assert drawn[0] == drawn[1]


def test_nothing_is_restored_if_something_does_not_fit(tmp_path: Path) -> None:
    a, b = dl.Variable(1.0), dl.Variable(np.ones(3))
    path = dl.train.Checkpoint(a=a, b=b).write(tmp_path / "v")
    a.assign(2.0)
    with pytest.raises(ValueError, match=r"at 'b/variables/0' an array of shape \(3,\)"):
        dl.train.Checkpoint(a=a, b=dl.Variable(np.ones(4))).read(path)
    with pytest.raises(ValueError, match="dtype float32, but the variable .* dtype float16"):
        dl.train.Checkpoint(a=a, b=dl.Variable(np.ones(3), dtype="float16")).read(path)
    assert float(a.value) == 2


def test_status(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = dl.train.Checkpoint(a=dl.Variable(1.0), b=dl.Variable(2.0)).save(tmp_path / "ckpt")
    a = dl.Variable(0.0)
    more = dl.train.Checkpoint(a=a, c=dl.Variable(0.0)).restore(path).expect_partial()
    with pytest.raises(AssertionError, match="no value for 'c/variables/0'"):
        more.assert_existing_objects_matched()
    checkpoint = dl.train.Checkpoint(a=a)
    with pytest.raises(AssertionError, match="No checkpoint was given"):
        checkpoint.restore(None).assert_consumed()
    with caplog.at_level(logging.WARNING, "drumline"):
        checkpoint.restore(path).assert_existing_objects_matched().expect_partial()
        gc.collect()
        assert not caplog.records
        checkpoint.restore(path)
        gc.collect()
    assert "'b/variables/0'" in caplog.text and "expect_partial()" in caplog.text


def test_a_metric_that_has_no_variables_yet(tmp_path: Path) -> None:
    metric = keras.metrics.AUC(multi_label=True)
    metric.update_state(np.eye(3), np.eye(3) * 0.5)
    path = dl.train.Checkpoint(metric=metric).write(tmp_path / "m")
    with pytest.raises(ValueError, match="call update_state once, then restore"):
        dl.train.Checkpoint(metric=keras.metrics.AUC(multi_label=True)).read(path)


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"cannot save 'step': int.*dl.Variable\(0\)"):
        dl.train.Checkpoint(step=3)
    with pytest.raises(TypeError, match="cannot save 'nested/1'"):
        dl.train.Checkpoint(nested=[dl.Variable(0), "text"]).write(tmp_path / "v")
    with pytest.raises(ValueError, match="'save' is a method"):
        dl.train.Checkpoint(save=dl.Variable(0))
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        dl.train.Checkpoint().restore(tmp_path / "none")


def test_names_added_later_and_nested_checkpoints(tmp_path: Path) -> None:
    inner = dl.train.Checkpoint(v=dl.Variable(4.0))
    outer = dl.train.Checkpoint()
    outer.inner = inner
    path = outer.save(os.path.join(tmp_path, "ckpt"))
    v = dl.Variable(0.0)
    dl.train.Checkpoint(inner=dl.train.Checkpoint(v=v)).restore(path).assert_consumed()
    assert float(v.value) == 4


def test_a_model_that_waits_is_not_kept_alive(tmp_path: Path) -> None:
    first = Program(model=sequential)
    first.train(1)
    path = first.checkpoint.save(tmp_path / "ckpt")
    model = sequential()
    dl.train.Checkpoint(model=model).restore(path).expect_partial()
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_parts_are_found_by_names_of_attributes(tmp_path: Path) -> None:
    class Named(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = keras.layers.Dense(3)

        def call(self, x: Any) -> Any:
            return self.hidden(x)

    net = Named()
    net(np.ones((1, 2), np.float32))
    net.hidden.bias.assign([1.0, 2.0, 3.0])
    path = dl.train.Checkpoint(net=net).save(tmp_path / "net")
    bias = dl.Variable(np.zeros(3, np.float32))
    part = dl.train.Checkpoint(bias=bias)
    whole = dl.train.Checkpoint(net=dl.train.Checkpoint(hidden=part))
    whole.restore(path).expect_partial().assert_existing_objects_matched()
    assert bias.numpy().tolist() == [1.0, 2.0, 3.0]
