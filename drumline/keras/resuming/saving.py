"""The callbacks that ask for backups, and when they are due."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from drumline._local_path import has_scheme, local_path
from drumline.distribute.process_group.host_collectives import broadcast
from drumline.distribute.process_group.preemption import TerminationConfig
from drumline.keras.resuming.training_checkpoint import TrainingCheckpoint

if TYPE_CHECKING:
    from drumline.keras.resuming.fit_run import FitRun


class Checkpointing(keras.callbacks.Callback):
    """Saves all that `fit` needs to continue, from time to time; the next `fit` resumes there.

    A checkpoint holds the model, its optimizer, its random generators and metrics, the position in
    the input and the states of callbacks. The `fit` that finds one continues in the middle of the
    epoch, as if it had never stopped: the same losses and the same history, bit for bit on CPUs. It
    must be given the same model, input and callbacks. One that had ended returns at once, with its
    history.

    A user's callback, and a ``keras.utils.PyDataset``, is saved too if it has ``get_state()``,
    which returns a structure of dicts, lists, numbers, strings and arrays, and
    ``set_state(state)``.

    Not in Keras, whose ``BackupAndRestore`` does the same under drumline and keeps one checkpoint
    until the training ends.

    Args:
        directory: a local path, or one that is mounted; used by one training alone. With several
            processes the first one reads and writes it.
        every_steps: save after so many batches.
        every_seconds: save when so many seconds have passed since the last save.
        every_epochs: save after so many epochs; after each, if nothing else is given.
        max_to_keep: how many checkpoints are kept, the older deleted; None keeps all.
        save_before_preemption: whether `fit` saves and ends the program with status 75, by which
            `drumline launch` starts it again, when this process or another one of the job gets
            SIGTERM, as before a machine is taken away. Not on parameter servers.
        termination_config: other signs of that, and other ways to end.

    Raises:
        ValueError: if a number is not positive, or `directory` is a URL.

    Example:
        >>> import tempfile
        >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> backup = dl.keras.callbacks.Checkpointing(tempfile.mkdtemp(), every_steps=2)
        >>> x = np.ones((8, 1), "float32")
        >>> history = model.fit(x, x, epochs=2, verbose=0, callbacks=[backup])
        >>> again = model.fit(x, x, epochs=3, verbose=0, callbacks=[backup])
        >>> again.epoch
        [0, 1, 2]
    """

    async_safe = True

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        every_steps: int | None = None,
        every_seconds: float | None = None,
        every_epochs: int | None = None,
        max_to_keep: int | None = 2,
        save_before_preemption: bool = True,
        termination_config: TerminationConfig | None = None,
    ) -> None:
        super().__init__()
        self.save_before_preemption = save_before_preemption
        self.termination_config = termination_config
        numbers = {
            "every_steps": every_steps,
            "every_seconds": every_seconds,
            "every_epochs": every_epochs,
            "max_to_keep": max_to_keep,
        }
        for name, value in numbers.items():
            if value is not None and not value > 0:
                raise ValueError(f"Checkpointing: {name} must be positive or None, got {value!r}.")
        if every_steps is None and every_seconds is None and every_epochs is None:
            every_epochs = 1
        # Absolute, as a program may change its working directory while it trains.
        self.directory = os.path.abspath(local_path(directory, "Checkpointing", "a checkpoint"))
        self.every_steps = every_steps
        self.every_seconds = every_seconds
        self.every_epochs = every_epochs
        self.max_to_keep = max_to_keep


class Saver:
    """Saves for one callback.

    Args:
        callback: a `Checkpointing`, or Keras's ``BackupAndRestore``.
        checkpoint: where to.

    Attributes:
        checkpoint: where to.
        saved_at: epoch and step of the last save; None before.
    """

    def __init__(self, callback: Any, checkpoint: TrainingCheckpoint) -> None:
        self.checkpoint = checkpoint
        self.saved_at: tuple[int, int] | None = None
        self._callback = callback
        self._steps = getattr(callback, "every_steps", None)
        self._epochs = getattr(callback, "every_epochs", None)
        self._seconds = getattr(callback, "every_seconds", None)
        self._total_steps = 0
        self._epoch = 0
        self._clock = _Clock(self._seconds) if self._seconds is not None else None

    @property
    def termination(self) -> TerminationConfig | None:
        """How the end of the machine is noticed; None if nothing is saved before it."""
        if not getattr(self._callback, "save_before_preemption", True):
            return None
        return getattr(self._callback, "termination_config", None) or TerminationConfig()

    @property
    def saves_at_end(self) -> bool:
        """Whether a training that has ended is saved, too."""
        return isinstance(self._callback, Checkpointing)

    def begin(self, run: FitRun) -> None:
        """Count from here."""
        self._total_steps, self._epoch = run.total_steps, run.epoch
        if self._clock is not None:
            self._clock.start()

    def saved(self, run: FitRun, moment: tuple[int, int]) -> None:
        """Count from here, where all is saved."""
        self.saved_at = moment
        self.begin(run)

    def is_due(self, run: FitRun, at_epoch_end: bool) -> bool:
        """Whether it is time to save, behind a step or an epoch."""
        if vars(self._callback).pop(_ASKED, False):
            return True
        if at_epoch_end and self._epochs is not None:
            if run.epoch - self._epoch >= self._epochs:
                return True
        if not at_epoch_end and self._steps is not None:
            if run.total_steps - self._total_steps >= self._steps:
                return True
        return self._clock is not None and self._clock.is_over(run)

    def steps_left(self, run: FitRun) -> int | None:
        """In how many steps it will be time to save; None if steps do not decide that."""
        if isinstance(self._callback, keras.callbacks.BackupAndRestore):
            each = self._callback.save_freq
            if each is False or not isinstance(each, int):
                return None
            return max(1, each - int(self._callback._batches_seen_since_last_saving))
        if self._steps is None:
            return None
        return max(1, self._steps - (run.total_steps - self._total_steps))

    def restore(self) -> dict[str, Any] | None:
        """Restore the latest checkpoint, and return its progress; None if there is none."""
        return self.checkpoint.restore(getattr(self._callback, "_weights_path", None))

    def load_keras_own(self) -> None:
        """Load what ``BackupAndRestore`` has saved in a program without drumline, if anything."""
        if isinstance(self._callback, keras.callbacks.BackupAndRestore):
            vars(self._callback)[_LOADS] = True
            self._callback.on_train_begin()


class _Clock:
    """Whether seconds have passed, in all processes alike.

    The first process knows; the others ask it after so many steps as take a small part of the time.

    Args:
        seconds: the time.
    """

    _PART = 0.1
    _LONGEST = 5.0

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began = time.monotonic()
        self._asked = self._began
        self._wait = self._calls = 0

    def start(self) -> None:
        """Begin to count."""
        self._began = time.monotonic()

    def is_over(self, run: FitRun) -> bool:
        """Whether the time has passed, by what is known in this step."""
        now = time.monotonic()
        if run.spanning is None:
            return now - self._began >= self._seconds
        self._calls += 1
        if self._calls <= self._wait:
            return False
        took = max(now - self._asked, 1e-6)
        steps = self._calls * min(self._seconds * self._PART, self._LONGEST) / took
        own = np.array([now - self._began >= self._seconds, min(steps, 10_000)], np.int64)
        over, self._wait = map(int, broadcast(run.spanning, own))
        self._asked, self._calls = now, 0
        return bool(over)


RUN = "_drumline_fit_run"
"""Where a model has its `FitRun`."""

_ASKED = "_drumline_asked"
_LOADS = "_drumline_loads_keras_own"

_PATHS = {
    "backup_dir",
    "_weights_path",
    "_training_metadata_path",
    "_prev_weights_path",
    "_prev_training_metadata_path",
}
"""Where a ``BackupAndRestore`` has its files."""


def saver_of(callback: Any, model: keras.Model) -> Saver | None:
    """What saves for a callback; None if it asks for no backups, or makes them itself."""
    is_backup = isinstance(callback, keras.callbacks.BackupAndRestore)
    if isinstance(callback, Checkpointing) or (is_backup and not _is_remote(callback)):
        return Saver(callback, _checkpoint_of(callback, model))
    return None


def _checkpoint_of(callback: Any, model: keras.Model) -> TrainingCheckpoint:
    if isinstance(callback, Checkpointing):
        return TrainingCheckpoint(model, callback.directory, callback.max_to_keep, "ckpt")
    # Also without double_checkpoint: a damaged file must not end an unattended job.
    kept = 2
    directory = local_path(callback.backup_dir, "BackupAndRestore", "a backup")
    return TrainingCheckpoint(model, directory, kept, "latest")


def _is_remote(callback: Any) -> bool:
    return has_scheme(callback.backup_dir)


# Wrappers of methods of BackupAndRestore; see `drumline.keras.hooks`.


def take_more_arguments(init: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``__init__``: it takes ``save_before_preemption``, as TensorFlow's does.

    With backups at epochs' ends alone, callbacks may run beside the steps.
    """

    def init_backups(
        self: Any, *args: Any, save_before_preemption: bool = True, **kwargs: Any
    ) -> None:
        init(self, *args, **kwargs)
        self.save_before_preemption = save_before_preemption
        if _is_remote(self):
            return
        # Absolute, as a program may change its working directory while it trains.
        for name in _PATHS.intersection(vars(self)):
            setattr(self, name, os.path.abspath(os.fsdecode(getattr(self, name))))
        if self.save_freq in ("epoch", False):
            self.async_safe = True

    return init_backups


def never_if_false(should_save: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``_should_save_on_batch``: ``save_freq=False`` saves behind no batch."""

    def should_save_on_batch(self: Any, batch: int) -> bool:
        return self.save_freq is not False and bool(should_save(self, batch))

    return should_save_on_batch


def ask_for_backup(save: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``_save_model``: `fit` saves everything behind all callbacks."""

    def save_model(self: Any) -> None:
        if _is_remote(self):
            save(self)
        elif RUN in vars(self.model):
            vars(self)[_ASKED] = True
        else:
            _checkpoint_of(self, self.model).save(
                {"epoch": self._current_epoch, "step": self._last_batch_seen, "input": None}
            )

    return save_model


def restore_alone(on_train_begin: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``on_train_begin``: `fit` has restored everything; in a custom loop, the model."""

    def begin(self: Any, logs: Any = None) -> None:
        if _is_remote(self) or vars(self).pop(_LOADS, False):
            on_train_begin(self, logs)
        elif RUN not in vars(self.model):
            found = _checkpoint_of(self, self.model).restore(self._weights_path)
            if found is None:
                on_train_begin(self, logs)
            else:
                self.model._initial_epoch = found["epoch"]

    return begin
