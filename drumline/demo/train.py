"""Training under a strategy: the script a user would write.

The convnet and learning rates are those of TensorFlow's tutorial on distributed Keras training,
https://www.tensorflow.org/tutorials/distribute/keras. The losses of the first steps are recorded,
before rounding errors have grown.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import drumline as dl
from drumline.demo.settings import DemoSettings, DigitsData
from drumline.keras.callbacks import TensorBoard


def build_model(image_shape: tuple[int, ...]) -> keras.Model:
    """The tutorial's convnet for ten classes of images of `image_shape`, compiled."""
    model = keras.Sequential(
        [
            keras.Input(image_shape),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.Adam(),
        metrics=["accuracy"],
    )
    return model


def decay(epoch: int, epochs: int) -> float:
    """The tutorial's learning rate for an epoch, its 12 epochs stretched to `epochs`.

    1e-3 for the first quarter, 1e-4 until 7/12, then 1e-5.
    """
    if epoch * 12 < 3 * epochs:
        return 1e-3
    return 1e-4 if epoch * 12 < 7 * epochs else 1e-5


FIRST_STEPS = 50
"""How many steps are recorded. MNIST's losses on one device, with initial weights changed by one
part in ten million, are within 1e-6 of one another for 100 steps, and 4e-3 apart at step 250."""


class FirstSteps(keras.callbacks.Callback):
    """Records the mean loss of the steps so far, after each of the first steps of a training.

    Attributes:
        losses: what was recorded; the last training's.
    """

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []
        self._epoch = 0

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Forget an earlier training."""
        self.losses = []

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Remember which epoch it is: only the first is recorded."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Record the loss."""
        if self._epoch == 0 and len(self.losses) < FIRST_STEPS and logs is not None:
            self.losses.append(float(logs["loss"]))


_LINES = 6


class EpochProgress(keras.callbacks.Callback):
    """A progress bar over epochs and steps, and a line for every few epochs.

    Args:
        console: where to draw.
        label: what is being trained.
        epochs: how many epochs there will be.
        steps: how many steps each has.
    """

    def __init__(self, console: Console, label: str, epochs: int, steps: int) -> None:
        super().__init__()
        self._console = console
        self._epochs = epochs
        self._line_every = max(1, -(-epochs // _LINES))
        self._progress = Progress(
            TextColumn("  {task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task(label, total=epochs * steps)
        self._began = 0.0
        self.seconds: list[float] = []

    def images_per_second(self, images: int) -> float | None:
        """Images per second over all epochs but the first, in which programs are compiled."""
        later = self.seconds[1:]
        return images * len(later) / sum(later) if later else None

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Show the bar."""
        self._progress.start()

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Start the epoch's clock."""
        self._began = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Move the bar."""
        self._progress.advance(self._task)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Stop the clock; print a line if it is this epoch's turn."""
        self.seconds.append(time.perf_counter() - self._began)
        last = epoch + 1 == self._epochs
        if (epoch % self._line_every == 0 or last) and logs is not None:
            self._console.print(
                f"  epoch {epoch + 1:>3}/{self._epochs}  loss {logs['loss']:.4f}  "
                f"accuracy {logs['accuracy']:.4f}  learning rate {logs['learning_rate']:.0e}  "
                f"{self.seconds[-1]:.2f} s",
                highlight=False,
            )

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """What training under one strategy gave.

    Attributes:
        strategy: how the strategy is shown.
        replicas: the number of replicas.
        model: the trained model.
        first_losses: mean training loss after each of the first steps.
        loss: training loss by epoch.
        accuracy: training accuracy by epoch.
        test_accuracy: accuracy on the test split, 0 to 1.
        images_per_second: in training, without the first epoch; ``None`` if there was no other.
    """

    strategy: str
    replicas: int
    model: keras.Model
    first_losses: list[float]
    loss: list[float]
    accuracy: list[float]
    test_accuracy: float
    images_per_second: float | None


def train(
    strategy: dl.distribute.Strategy,
    name: str,
    data: DigitsData,
    settings: DemoSettings,
    log_dir: Path,
    console: Console,
) -> TrainedRun:
    """Train the convnet under `strategy` from the seed, and evaluate it."""
    keras.utils.set_random_seed(settings.seed)
    with strategy.scope():
        model = build_model(data.image_shape)
    steps = -(-data.train_size // settings.global_batch)
    progress = EpochProgress(console, name, settings.epochs, steps)
    first_steps = FirstSteps()
    callbacks = [
        keras.callbacks.LearningRateScheduler(lambda epoch: decay(epoch, settings.epochs)),
        TensorBoard(log_dir=log_dir),
        first_steps,
        progress,
    ]
    try:
        history = model.fit(
            data.train(), epochs=settings.epochs, callbacks=callbacks, verbose=0
        ).history
    finally:
        progress.close()
    scores = model.evaluate(data.test(), verbose=0, return_dict=True)
    return TrainedRun(
        strategy=name,
        replicas=strategy.num_replicas_in_sync,
        model=model,
        first_losses=first_steps.losses,
        loss=history["loss"],
        accuracy=history["accuracy"],
        test_accuracy=scores["accuracy"],
        images_per_second=progress.images_per_second(data.train_size),
    )
