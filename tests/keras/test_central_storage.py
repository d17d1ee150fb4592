"""Keras under `CentralStorageStrategy`: equal to mirrored variables bit by bit, kept at home."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import pytest

from drumline.distribute import MirroredStrategy, ModelParallelStrategy, Strategy
from drumline.distribute.experimental import CentralStorageStrategy
from tests.interruptions import interrupted_at

ROWS, COMPUTE = 40, ["cpu:1", "cpu:2"]
CASES = {
    "apart": (COMPUTE, None, {}),
    "several steps at once": (COMPUTE, None, {"steps_per_execution": 2}),
    "eager": (COMPUTE, None, {"run_eagerly": True}),
    "among the replicas": (COMPUTE, "cpu:2", {}),
    "one replica": (["cpu:1"], "cpu:2", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_fit_evaluate_and_predict_equal_those_of_mirrored_variables(case: str) -> None:
    compute, home, options = CASES[case]
    central = CentralStorageStrategy(compute, home)
    expected, mirrored = _trained(MirroredStrategy(compute), options)
    found, model = _trained(central, options)
    # With one replica there is no sum between the two programs that the one is compiled around.
    equal: Any = np.testing.assert_array_equal
    if len(compute) == 1:
        equal = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7)
    for ours, theirs in zip(found, expected, strict=True):
        equal(ours, theirs)
    variables = [*model.variables, *model.optimizer.variables]
    others = [*mirrored.variables, *mirrored.optimizer.variables]
    for ours, theirs in zip(variables, others, strict=True):
        equal(ours.value, theirs.value)
        assert ours.value.devices() == central.variable_sharding.device_set


def _trained(strategy: Strategy, options: Any) -> tuple[list[Any], keras.Model]:
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 6)).astype(np.float32)
    y = rng.integers(0, 3, ROWS)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((6,)),
                keras.layers.Dense(8, "relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.3),
                keras.layers.Dense(3),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], **options)
    # The last batch of seven rows does not split.
    history = model.fit(x[:-1], y[:-1], batch_size=16, epochs=2, shuffle=False, verbose=0)
    results = [*history.history.values(), model.train_on_batch(x[:8], y[:8])]
    results += [model.evaluate(x, y, batch_size=16, verbose=0), model.predict(x, verbose=0)]
    model.set_weights([weight * 0.5 for weight in model.get_weights()])
    return [*results, model.predict_on_batch(x[:6]), np.asarray(model(x))], model


class OwnStep(keras.Model):
    """A step of the user's, as Keras's guide has it, that perhaps changes what it leaves."""

    def __init__(self, *args: Any, halves: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._halves = halves

    def train_step(self, state: Any, data: Any) -> Any:
        trainables, fixed, slots, metrics = state
        x, y = data
        gradients = jax.value_and_grad(self.compute_loss_and_updates, has_aux=True)
        (loss, (_, _, fixed, metrics)), grads = gradients(
            trainables, fixed, metrics, x, y, None, training=True, optimizer_variables=slots
        )
        trainables, slots = self.optimizer.stateless_apply(slots, grads, trainables)
        if self._halves:
            trainables = [value / 2 for value in trainables]
        return {"loss": loss}, (trainables, fixed, slots, metrics)


def _of_own_step(strategy: Strategy, halves: bool) -> keras.Model:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        inputs = keras.Input((6,))
        outputs = keras.layers.Dense(1)(keras.layers.Dense(5, "tanh")(inputs))
        model = OwnStep(inputs, outputs, halves=halves)
        model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)), "mse")
    return model


@pytest.mark.parametrize("halves", [False, True])
def test_a_step_of_ones_own(halves: bool, caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 6)).astype("float32"), rng.normal(size=(20, 1)).astype("float32")
    found = []
    for strategy in (MirroredStrategy(COMPUTE), CentralStorageStrategy(COMPUTE)):
        model = _of_own_step(strategy, halves)
        watch = _Slots()
        model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0, callbacks=[watch])
        found.append(
            [variable.value for variable in (*model.variables, *model.optimizer.variables)]
        )
    assert watch.devices == {jax.devices()[0]}
    said = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(said) == halves
    assert not halves or "changes what the optimizer leaves" in said[0].getMessage()
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


class _Slots(keras.callbacks.Callback):
    """Notes where a trainer holds weights and slots between steps."""

    devices: frozenset[Any] = frozenset()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        state = self.model._jax_state
        for value in (*state["trainable_variables"], *state["optimizer_variables"]):
            self.devices |= value.devices()


def test_an_interrupt_leaves_whole_steps() -> None:
    x = np.ones((8, 1), np.float32)
    with CentralStorageStrategy(COMPUTE).scope():
        layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        model = keras.Sequential([keras.Input((1,)), layer])
        model.compile(keras.optimizers.SGD(1.0), loss=lambda y, outputs: outputs.mean(axis=-1))

    def fit() -> None:
        model.fit(x, x, batch_size=4, verbose=0, shuffle=False)

    fit()
    steps, position, interrupted = 2, 1, 0
    while interrupted_at(fit, position, ("central_update.py", "central_tables.py")):
        done = int(model.optimizer.iterations.value)
        assert steps <= done <= steps + 2
        np.testing.assert_array_equal(np.asarray(layer.kernel.value), [[-done]])
        steps, position, interrupted = done, position + 67, interrupted + 1
    assert interrupted >= 4


class _Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if int(self.model.optimizer.iterations.value) == 4:
            raise KeyboardInterrupt


def test_a_resumed_training_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(24, 6)).astype(np.float32)
    ended = []
    for stops in (False, True):
        for attempt in range(1 + stops):
            model = _of_own_step(CentralStorageStrategy(COMPUTE), False)
            backup = keras.callbacks.BackupAndRestore(str(tmp_path / f"{stops}"), save_freq=1)
            callbacks = [backup, *[_Stop()] * (stops and not attempt)]
            try:
                model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0, callbacks=callbacks)
            except KeyboardInterrupt:
                assert stops
        ended.append([np.asarray(v.value) for v in (*model.variables, *model.optimizer.variables)])
    for ours, theirs in zip(*ended, strict=True):
        np.testing.assert_array_equal(ours, theirs)


OF_GROUPS = {
    "central": lambda: CentralStorageStrategy(COMPUTE),
    "cut slots": lambda: MirroredStrategy(COMPUTE, shard="optimizer"),
    "cut weights": lambda: MirroredStrategy(COMPUTE, shard="parameters"),
    "layouts": lambda: ModelParallelStrategy({"batch": 2}, {".*/kernel": (None, "batch")}),
}


@pytest.mark.parametrize("name", OF_GROUPS)
def test_weights_and_optimizers_that_change_without_compile(name: str) -> None:
    rows = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    with OF_GROUPS[name]().scope():
        layers = [keras.layers.Dense(4), keras.layers.BatchNormalization()]
        model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(4)])
        model.compile("adam", "mse")
    model.fit(rows, rows, verbose=0)
    before = model.predict(rows, verbose=0), model.evaluate(rows, rows, verbose=0)
    model.trainable = False
    np.testing.assert_allclose(model.predict(rows, verbose=0), before[0], rtol=1e-6)
    np.testing.assert_allclose(model.evaluate(rows, rows, verbose=0), before[1], rtol=1e-6)
    model.trainable = True
    layers[0].trainable = False
    with pytest.raises(ValueError, match="that the optimizer was built with"):
        model.fit(rows, rows, verbose=0)
    layers[0].trainable = True
    weight = np.asarray(layers[0].kernel)
    model.optimizer = keras.optimizers.SGD(0.0)
    model.fit(rows, rows, verbose=0)
    np.testing.assert_array_equal(layers[0].kernel, weight)
