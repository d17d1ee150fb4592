"""What `fit` resumes bit for bit: each way of saving, crossed with each kind of randomness."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from tests.keras.resuming.trainings import (
    EPOCHS,
    STEPS,
    Left,
    StopAfter,
    Stopped,
    build,
    dataset,
    left_by,
)

KINDS: dict[str, tuple[bool, bool, bool]] = {
    "nothing random": (False, False, False),
    "shuffle": (True, False, False),
    "augmentation": (False, True, False),
    "dropout": (False, False, True),
    "all": (True, True, True),
}
Stop = Any


def _fit(model: keras.Model, x: Any, callbacks: list[Any], stop: Stop, **options: Any) -> Left:
    model.fit(x, verbose=0, callbacks=[*callbacks, *stop], **{"epochs": EPOCHS, **options})
    return left_by(model)


def backup(place: Path, kind: tuple[bool, bool, bool], stop: Stop) -> Left:
    callbacks = [keras.callbacks.BackupAndRestore(place)]
    return _fit(build(kind[2]), dataset(*kind[:2]), callbacks, stop)


def backup_every_3(place: Path, kind: tuple[bool, bool, bool], stop: Stop) -> Left:
    callbacks = [keras.callbacks.BackupAndRestore(place, save_freq=3)]
    return _fit(build(kind[2]), dataset(*kind[:2]), callbacks, stop)


def checkpointing(place: Path, kind: tuple[bool, bool, bool], stop: Stop) -> Left:
    callbacks = [dl.keras.callbacks.Checkpointing(place, every_steps=3, every_epochs=1)]
    return _fit(build(kind[2]), dataset(*kind[:2]), callbacks, stop)


def manager(place: Path, kind: tuple[bool, bool, bool], stop: Stop, burn: bool = False) -> Left:
    """A callback that saves a checkpoint at the end of each epoch, and ``initial_epoch``."""
    model, train = build(kind[2]), dataset(*kind[:2])
    model.optimizer.build(model.trainable_variables)
    done = dl.Variable(0)
    kept = dl.train.CheckpointManager(dl.train.Checkpoint(model=model, done=done), place, 2)
    kept.restore_or_initialize()

    class Save(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            done.assign(epoch + 1)
            kept.save()

    begun = int(done.numpy())
    for _ in range(begun if burn else 0):
        iter(train)
    return _fit(model, train, [Save()], stop, initial_epoch=begun)


def manager_and_epochs_begun_by_hand(
    place: Path, kind: tuple[bool, bool, bool], stop: Stop
) -> Left:
    return manager(place, kind, stop, burn=True)


def generator(place: Path, kind: tuple[bool, bool, bool], stop: Stop) -> Left:
    """A generator that gives the same at every start, over one iterator of a dataset."""
    model = build(kind[2])  # first: it sets the seed that draws in the dataset get theirs from
    batches = (batch for batch in dataset(*kind[:2]).repeat(EPOCHS))
    callbacks = [keras.callbacks.BackupAndRestore(place, save_freq=3)]
    options = {"steps_per_epoch": STEPS, "shuffle": False}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This `fit` cannot be resumed exactly: a generator")
        return _fit(model, batches, callbacks, stop, **options)


def train_on_batch(place: Path, kind: tuple[bool, bool, bool], stop: Stop) -> Left:
    """A custom loop with the iterator in its checkpoint."""
    model = build(kind[2])
    model.optimizer.build(model.trainable_variables)
    batches, done = iter(dataset(*kind[:2]).repeat(EPOCHS)), dl.Variable(0)
    checkpoint = dl.train.Checkpoint(model=model, done=done, batches=batches)
    kept = dl.train.CheckpointManager(checkpoint, place, 2)
    kept.restore_or_initialize()
    for x, y in batches:
        model.reset_metrics()  # which `train_on_batch` does in newer versions of Keras alone
        model.train_on_batch(x, y)
        done.assign_add(1)
        if int(done.numpy()) % 3 == 0:
            kept.save()
        for callback in stop:
            callback.on_train_batch_end(0)
    model.history = keras.callbacks.History()
    model.history.epoch = []
    return left_by(model)


WAYS: dict[str, Callable[[Path, tuple[bool, bool, bool], Stop], Left]] = {
    way.__name__: way
    for way in (
        backup,
        backup_every_3,
        checkpointing,
        manager,
        manager_and_epochs_begun_by_hand,
        generator,
        train_on_batch,
    )
}
_QUICK = {("backup_every_3", kind) for kind in KINDS} | {(way, "all") for way in WAYS}


def _cells() -> list[Any]:
    return [
        pytest.param(way, kind, marks=() if (way, kind) in _QUICK else pytest.mark.thorough)
        for way in WAYS
        for kind in KINDS
    ]


@pytest.mark.parametrize(("way", "kind"), _cells())
def test_a_stopped_training_ends_like_an_undisturbed_one(
    way: str, kind: str, tmp_path: Path, quick_compilation: None
) -> None:
    run = WAYS[way]
    undisturbed = run(tmp_path / "undisturbed", KINDS[kind], [])
    with pytest.raises(Stopped):
        run(tmp_path / "stopped", KINDS[kind], [StopAfter(STEPS + 5)])
    resumed = run(tmp_path / "stopped", KINDS[kind], [])
    if way.startswith("manager"):
        # Keras's History has the epochs of one `fit` alone: those since the restart are the same.
        begun = resumed.epochs[0]
        assert begun == 1
        undisturbed.epochs = undisturbed.epochs[begun:]
        undisturbed.history = {name: each[begun:] for name, each in undisturbed.history.items()}
    assert resumed.differs_in(undisturbed) == []
    assert all(np.isfinite(value).all() for value in resumed.values)
