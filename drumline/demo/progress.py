"""Showing a training run as it goes, and timing it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import keras
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

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
