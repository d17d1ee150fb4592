"""Callbacks of a training on parameter servers, and what its model is saved as."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.keras.state import strategy_of
from tests.keras.parameter_server.conftest import classifier
from tests.summary.reading import values


def test_batches_and_epochs_are_told(still: Any, examples: Any, monkeypatch: Any) -> None:
    told: list[tuple[str, int]] = []
    losses: list[float] = []

    class Note(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            told.append(("begin", batch))

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            told.append(("end", batch))
            losses.append(logs["loss"])

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            told.append(("epoch", epoch))

    model, _ = still
    monkeypatch.setattr(model, "steps_per_execution", 2)
    model.fit(*examples, batch_size=8, epochs=2, verbose=0, callbacks=[Note()])
    first = told[: told.index(("epoch", 0))]
    assert [batch for what, batch in first if what == "begin"] == [0, 2, 4]
    assert [batch for what, batch in first if what == "end"] == [1, 3, 5]
    assert told[-1] == ("epoch", 1) and np.isfinite(losses).all() and len(losses) == 6


def test_the_coordinator_writes_for_tensorboard(still: Any, examples: Any, tmp_path: Path) -> None:
    """Each value once, read by TensorBoard's own reader; of weights that stay as they are."""
    model, _ = still
    board = dl.keras.callbacks.TensorBoard(tmp_path, histogram_freq=2, update_freq=2)
    history = model.fit(
        *examples, batch_size=6, epochs=2, verbose=0, validation_data=examples, callbacks=[board]
    ).history
    train = values(tmp_path / "train")
    by_tag: dict[str, list[int]] = {}
    for tag, step, _ in train:
        by_tag.setdefault(tag, []).append(step)
    weights = [f"{weight.path}/histogram" for weight in model.weights]
    assert by_tag == {
        "keras": [0],
        **{f"epoch_{name}": [0, 1] for name in ("loss", "accuracy", "learning_rate")},
        "batch_loss": [2, 4, 6, 8, 10, 12],
        **{weight: [0] for weight in weights},
    }
    losses = [float(value) for tag, _, value in train if tag == "epoch_loss"]
    np.testing.assert_allclose(losses, history["loss"], rtol=1e-6)
    for weight, tag in zip(model.weights, weights, strict=True):
        (found,) = [value for each, _, value in train if each == tag]
        assert found[:, 2].sum() == np.prod(weight.shape)
        np.testing.assert_allclose(found[0, 0], np.min(weight.numpy()), rtol=1e-6)
    validation = [value for tag, _, value in values(tmp_path / "validation") if tag == "epoch_loss"]
    np.testing.assert_allclose(validation, history["val_loss"], rtol=1e-6)


def test_stopping_in_an_epoch_and_early(still: Any, examples: Any) -> None:
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = True

    model, _ = still
    before = model.get_weights()
    coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy_of(model))
    steps = coordinator.counts()["completed"]
    endless = dl.data.Dataset.from_tensor_slices(examples).batch(12).repeat()
    options = {"steps_per_epoch": 50_000, "verbose": 0, "callbacks": [Stop()]}
    history = model.fit(endless, epochs=3, **options)
    assert len(history.epoch) == 1 and np.isfinite(history.history["loss"][0])
    assert 1 <= coordinator.counts()["completed"] - steps < 10_000
    early = keras.callbacks.EarlyStopping("loss", patience=1, restore_best_weights=True)
    assert len(model.fit(*examples, epochs=9, verbose=0, callbacks=[early]).epoch) <= 4
    for value, wanted in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_steps_are_cancelled_with_their_epoch(still: Any, examples: Any) -> None:
    class Fail(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 9:
                raise ArithmeticError("enough")

    model, _ = still
    coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy_of(model))
    with pytest.raises(ArithmeticError, match="enough"):
        model.fit(*examples, batch_size=2, verbose=0, callbacks=[Fail()])
    assert coordinator.done()
    before = coordinator.counts()["completed"]
    model.fit(*examples, batch_size=2, verbose=0)
    assert coordinator.counts()["completed"] == before + 18


@pytest.mark.parametrize(
    ("callback", "first", "rates"),
    [
        (
            lambda: keras.callbacks.LearningRateScheduler(lambda epoch: 0.5 * (epoch == 1)),
            *(0.0, [0.0, 0.5, 0.0]),
        ),
        (
            lambda: keras.callbacks.ReduceLROnPlateau("loss", 0.0, patience=1, min_delta=99.0),
            *(0.5, [0.5, 0.5, 0.0]),
        ),
    ],
    ids=["LearningRateScheduler", "ReduceLROnPlateau"],
)
def test_learning_rates_reach_the_servers(
    still: Any, examples: Any, callback: Any, first: float, rates: list[float]
) -> None:
    model, _ = still
    before = model.get_weights()
    tables = [before[0]]

    class Tables(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            tables.append(self.model.get_weights()[0])

    model.optimizer.learning_rate = first
    history = model.fit(*examples, epochs=3, verbose=0, callbacks=[callback(), Tables()]).history
    model.optimizer.learning_rate = 0.0
    model.set_weights(before)
    assert history["learning_rate"] == rates
    changed = [bool(np.any(a != b)) for a, b in itertools.pairwise(tables)]
    assert changed == [rate > 0 for rate in rates]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_what_is_saved_is_what_the_servers_keep(
    strategy: Any, examples: Any, tmp_path: Path
) -> None:
    with strategy.scope():
        model = classifier()
    callbacks = [
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras"),
        keras.callbacks.TensorBoard(tmp_path / "log"),
        keras.callbacks.CSVLogger(str(tmp_path / "log.csv")),
    ]
    model.fit(*examples, epochs=2, verbose=0, callbacks=callbacks)
    loaded = keras.models.load_model(tmp_path / "2.keras")
    wanted = model.predict(examples[0], verbose=0)
    np.testing.assert_allclose(loaded.predict(examples[0], verbose=0), wanted, atol=1e-5)
    slots, served = loaded.optimizer.variables[2:], model.optimizer.variables[2:]
    for slot, own in zip(slots, served, strict=True):
        np.testing.assert_allclose(np.asarray(slot), np.asarray(own), err_msg=slot.path)
    assert max(np.abs(np.asarray(slot)).max() for slot in slots) > 0
    assert (tmp_path / "1.keras").exists() and any((tmp_path / "log").rglob("events*"))
    model.save_weights(tmp_path / "w.weights.h5")
    model.set_weights([np.zeros_like(value) for value in model.get_weights()])
    assert not model.predict(examples[0], verbose=0).any()
    model.load_weights(tmp_path / "w.weights.h5")
    np.testing.assert_allclose(model.predict(examples[0], verbose=0), wanted, atol=1e-6)


def test_an_interrupted_training_goes_on(strategy: Any, examples: Any, tmp_path: Path) -> None:
    class Interrupt(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

    with strategy.scope():
        model = classifier()
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with pytest.raises(KeyboardInterrupt):
        model.fit(*examples, epochs=4, verbose=0, callbacks=[backup, Interrupt()])
    trained = model.get_weights()
    with strategy.scope():
        again = classifier()
    seen: list[Any] = []

    class Look(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            seen.append((epoch, self.model.get_weights()))

    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    again.fit(*examples, epochs=4, verbose=0, callbacks=[backup, Look()])
    assert [epoch for epoch, _ in seen] == [2, 3]
    for value, wanted in zip(seen[0][1], trained, strict=True):
        np.testing.assert_array_equal(value, wanted)
