"""`Checkpoint.save` and `restore` from Keras's callbacks, where `fit` has the variables' values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl

ROWS = np.random.default_rng(3).random((24, 6), dtype=np.float32)
TARGETS = np.arange(24) % 3


def none() -> None:
    return None


def mirrored() -> dl.distribute.Strategy:
    return dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])


def made(strategy: Callable[[], dl.distribute.Strategy | None]) -> keras.Model:
    keras.utils.set_random_seed(0)
    found = strategy()

    def model() -> keras.Model:
        layers = [keras.layers.Dense(5), keras.layers.BatchNormalization(), keras.layers.Dense(3)]
        net = keras.Sequential([keras.Input((6,)), *layers])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        net.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"])
        return net

    if found is None:
        return model()
    with found.scope():
        return model()


def values(model: keras.Model) -> list[np.ndarray]:
    return [np.array(v.value) for v in [*model.variables, *model.optimizer.variables]]


MOMENTS = [
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_epoch_begin",
    "on_epoch_end",
    "on_train_end",
    "on_test_batch_end",
    "on_test_end",
]
OBJECTS: dict[str, Callable[[keras.Model], dict[str, Any]]] = {
    "model": lambda model: {"model": model},
    "a layer and the optimizer": lambda model: {
        "layer": model.layers[0],
        "optimizer": model.optimizer,
    },
}


class Saving(keras.callbacks.Callback):
    """Saves at one moment of every step or epoch, and notes the values then."""

    def __init__(self, moment: str, objects: dict[str, Any], directory: Path) -> None:
        super().__init__()
        self.manager = dl.train.CheckpointManager(dl.train.Checkpoint(**objects), directory, None)
        self.seen: list[list[np.ndarray]] = []
        setattr(self, moment, self.save)

    def save(self, *arguments: Any, **logs: Any) -> None:
        self.manager.save()
        self.seen.append(values(self.model))


def train(model: keras.Model, callbacks: list[Any]) -> dict[str, list[float]]:
    history = model.fit(
        *(ROWS, TARGETS), batch_size=8, epochs=2, verbose=0, shuffle=False, callbacks=callbacks,
        validation_data=(ROWS[:8], TARGETS[:8]),
    )  # fmt: skip
    found: dict[str, list[float]] = history.history
    return found


@pytest.mark.parametrize("objects", OBJECTS)
@pytest.mark.parametrize("strategy", [none, mirrored])
def test_saving_at_any_moment_of_fit(tmp_path: Path, strategy: Any, objects: str) -> None:
    undisturbed = made(strategy)
    expected = train(undisturbed, [])
    model = made(strategy)
    callbacks = [Saving(moment, OBJECTS[objects](model), tmp_path / moment) for moment in MOMENTS]
    assert train(model, callbacks) == expected
    for mine, theirs in zip(values(model), values(undisturbed), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for callback in callbacks:
        saved = callback.manager.checkpoints
        assert len(saved) == len(callback.seen) > 0
        other = made(none)
        other.optimizer.build(other.trainable_variables)
        checkpoint = dl.train.Checkpoint(**OBJECTS[objects](other))
        for path, seen in zip(saved, callback.seen, strict=True):
            checkpoint.restore(path).expect_partial()
            found = values(other)
            if objects != "model":
                # The layer's kernel and bias come first, the optimizer's variables last.
                slots = len(other.optimizer.variables)
                found, seen = [*found[:2], *found[-slots:]], [*seen[:2], *seen[-slots:]]
            for mine, theirs in zip(found, seen, strict=True):
                np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("strategy", [none, mirrored])
def test_restoring_within_fit_takes_effect(tmp_path: Path, strategy: Any) -> None:
    model = made(strategy)
    model.optimizer.build(model.trainable_variables)
    checkpoint = dl.train.Checkpoint(model=model)
    path = checkpoint.save(tmp_path / "ckpt")
    start = values(model)

    class Restore(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            checkpoint.restore(path)

    model.fit(ROWS, TARGETS, batch_size=8, verbose=0, callbacks=[Restore()])
    for mine, theirs in zip(values(model), start, strict=True):
        np.testing.assert_array_equal(mine, theirs)
