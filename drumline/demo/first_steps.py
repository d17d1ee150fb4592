"""The losses of the first steps, before rounding has grown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

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
