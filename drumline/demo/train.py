"""Training under a strategy: the script a user would write."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import keras
from rich.console import Console

import drumline as dl
from drumline.demo.digits_data import DigitsData
from drumline.demo.first_steps import FirstSteps
from drumline.demo.model import build_model, decay
from drumline.demo.progress import EpochProgress
from drumline.demo.settings import DemoSettings
from drumline.keras.callbacks import TensorBoard


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
