"""`BackupAndRestore` on parameter servers: every server's own files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from tests.keras.parameter_server.conftest import classifier


class Interrupted(Exception):
    """Stands for what ends a job."""


class InterruptAfter(keras.callbacks.Callback):
    """Ends the training when an epoch has ended and is saved, before anything is tidied up."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self._epoch = epoch

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == self._epoch + 1:
            raise Interrupted


def values_of(model: keras.Model) -> list[np.ndarray]:
    return [np.array(v.numpy()) for v in (*model.weights, *model.optimizer.variables)]


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def interrupted(strategy: Any, examples: Any, tmp_path_factory: Any) -> Any:
    """A backup of two epochs of a training that was interrupted, and the values then."""
    directory = tmp_path_factory.mktemp("backup")
    with strategy.scope():
        model = classifier()
    backup = keras.callbacks.BackupAndRestore(directory, double_checkpoint=True)
    with pytest.raises(Interrupted):
        model.fit(
            *examples, batch_size=9, epochs=3, verbose=0, callbacks=[backup, InterruptAfter(1)]
        )
    return directory, values_of(model)


def test_a_training_goes_on_with_model_optimizer_and_epoch(
    strategy: Any, examples: Any, interrupted: Any, tmp_path: Path
) -> None:
    saved, values = interrupted
    assert sorted(os.listdir(saved)) == [
        "checkpoint",
        *("latest-1.safetensors", "latest-1.servers", "latest-2.safetensors", "latest-2.servers"),
    ]
    for own in (True, False):
        directory = tmp_path / str(own)
        shutil.copytree(saved, directory)
        seen: list[Any] = []

        class Note(keras.callbacks.Callback):
            def on_train_begin(self, logs: Any = None) -> None:
                seen.append(values_of(self.model))  # noqa: B023

            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                seen.append(epoch)  # noqa: B023

        with strategy.scope() if own else dl.distribute.OneDeviceStrategy("cpu:0").scope():
            model = classifier()
        backup = keras.callbacks.BackupAndRestore(directory)
        history = model.fit(
            *examples, batch_size=9, epochs=3, verbose=0, callbacks=[backup, Note()]
        )
        assert_same(seen[0], values)
        assert seen[1:] == [2] and np.isfinite(history.history["loss"]).all()
        assert int(model.optimizer.iterations.numpy()) == 3 * 4
        assert not directory.exists(), "the training reached its end"


def test_a_damaged_backup_gives_way_to_the_one_before(
    strategy: Any, examples: Any, interrupted: Any, tmp_path: Path, caplog: Any
) -> None:
    saved, _ = interrupted
    shutil.copytree(saved, tmp_path / "backup")
    with strategy.scope():
        model = classifier()
    (part,) = (tmp_path / "backup" / "latest-2.servers").glob("*/ps-0-of-2.safetensors")
    os.truncate(part, 200)
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    backup.set_model(model)
    backup.on_train_begin()
    assert model._initial_epoch == 1
    assert int(model.optimizer.iterations.numpy()) == 4
    assert "ps-0-of-2" in caplog.text
