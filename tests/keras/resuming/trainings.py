"""Trainings that are stopped and go on in new objects, and what they leave."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

import drumline as dl

ROWS, FEATURES, BATCH = 88, 6, 8
STEPS = ROWS // BATCH
EPOCHS = 3

_draw = np.random.default_rng(0)
X = _draw.normal(size=(ROWS, FEATURES)).astype(np.float32)
Y = (X[:, :1] > 0).astype(np.float32)


class Stopped(BaseException):
    """Stands for what ends a process."""


class StopAfter(keras.callbacks.Callback):
    """Ends a training after so many executions of steps, counted over all its epochs."""

    def __init__(self, executions: int) -> None:
        super().__init__()
        self._left = executions

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._left -= 1
        if not self._left:
            raise Stopped


class StopInValidation(keras.callbacks.Callback):
    """Ends a training in the validation of an epoch."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self._epoch = epoch
        self._now = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._now = epoch

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._now == self._epoch:
            raise Stopped


def augmented(x: Any, y: Any) -> Any:
    return x + dl.random.normal((FEATURES,), stddev=0.3), y


def dataset(shuffle: bool = True, augment: bool = True) -> dl.data.Dataset:
    """The rows in batches."""
    rows = dl.data.Dataset.from_tensor_slices((X, Y))
    if shuffle:
        rows = rows.shuffle(ROWS, seed=1)
    if augment:
        rows = rows.map(augmented)
    return rows.batch(BATCH)


def build(dropout: bool = True, **compiling: Any) -> keras.Model:
    """A small model, the same in every call."""
    keras.utils.set_random_seed(7)
    layers = [
        keras.Input((FEATURES,)),
        keras.layers.Dense(8, activation="relu"),
        *([keras.layers.BatchNormalization()] if dropout else []),
        *([keras.layers.Dropout(0.4, seed=3)] if dropout else []),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential(layers)
    options = {"optimizer": keras.optimizers.Adam(0.01), "loss": "mse", "metrics": ["mae"]}
    model.compile(**{**options, **compiling})
    return model


@dataclass
class Left:
    """What a training leaves."""

    values: list[np.ndarray]
    history: dict[str, list[float]]
    epochs: list[int]
    files: dict[str, str] = field(default_factory=dict)

    def differs_in(self, other: Left) -> list[str]:
        """Names of what is not the same bit for bit."""
        found = []
        if len(self.values) != len(other.values) or not all(
            np.array_equal(a, b) for a, b in zip(self.values, other.values, strict=True)
        ):
            found.append("values")
        found += [
            n for n in ("history", "epochs", "files") if getattr(self, n) != getattr(other, n)
        ]
        return found


def left_by(model: keras.Model, files: Mapping[str, str] | None = None) -> Left:
    """What a training of the model has left."""
    variables = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    return Left(
        [np.asarray(v.numpy() if hasattr(v, "numpy") else v) for v in variables],
        model.history.history,
        model.history.epoch,
        dict(files or {}),
    )


@dataclass
class Training:
    """A training as a program has it: everything is made anew whenever it starts.

    Attributes:
        data: gives ``x`` and other arguments of `fit`.
        strategy: gives a strategy, or None.
        compiling: further arguments of `compile`.
        callbacks: gives the callbacks but for the backup, for a directory.
        epochs: how many.
    """

    data: Callable[[], dict[str, Any]]
    strategy: Callable[[], Any] = lambda: None
    compiling: Callable[[], dict[str, Any]] = dict
    callbacks: Callable[[Path], list[Any]] = lambda place: []
    epochs: int = EPOCHS

    def run(
        self,
        place: Path,
        backup: Callable[[Path], Any] | None = None,
        stop: Any = None,
        **fit: Any,
    ) -> Left:
        """Train to the end, or to where `stop` ends it."""
        place.mkdir(exist_ok=True)
        strategy = self.strategy()
        with contextlib.nullcontext() if strategy is None else strategy.scope():
            model = build(**self.compiling())
        callbacks = [*([backup(place / "backup")] if backup else []), *self.callbacks(place)]
        if stop is not None:
            callbacks.append(stop)
        options = {"epochs": self.epochs, "verbose": 0, **self.data(), **fit}
        try:
            model.fit(callbacks=callbacks, **options)
        finally:
            for callback in callbacks:  # which the end of a process would close
                if getattr(callback, "csv_file", None) is not None:
                    callback.csv_file.close()
        logs = {path.name: path.read_text() for path in sorted(place.glob("*.csv"))}
        return left_by(model, logs)

    def resumed(self, place: Path, backup: Callable[[Path], Any], *stops: Any, **fit: Any) -> Left:
        """Train, stopped by each of `stops` and started again."""
        for stop in stops:
            try:
                self.run(place, backup, stop, **fit)
            except Stopped:
                continue
            raise AssertionError(f"{stop} did not end the training")
        return self.run(place, backup, **fit)
