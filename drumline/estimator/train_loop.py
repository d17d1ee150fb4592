"""The loop of `Estimator.train`: steps, checkpoints, summaries, hooks."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable
from typing import Any

from drumline import summary, train
from drumline.estimator.config import RunConfig
from drumline.estimator.hooks import Hooks, check_listeners
from drumline.estimator.model_run import ModelRun
from drumline.estimator.training_hooks import (
    CheckpointSaverHook,
    NanLossDuringTrainingError,
    StepCounterHook,
)
from drumline.training.checkpoint import file_format

_log = logging.getLogger("drumline")
_AGREE_EVERY = 100
"""After how many steps several processes agree whether it is time for a checkpoint."""


def saved_values(path: str) -> dict[str, Any]:
    """The values of the variables in a checkpoint, by name."""
    found = file_format.read(path).arrays
    return {
        name.removeprefix("variables/").removesuffix("/variables/0"): value
        for name, value in found.items()
    }


def saved_step(path: str) -> int:
    """The global step of a checkpoint."""
    return int(saved_values(path)["global_step"])


class TrainLoop:
    """Trains until the data, the steps or a hook end it, and saves checkpoints meanwhile.

    Args:
        run: the model with its batches.
        config: when to save and to log.
        hooks: users' hooks.
        listeners: what is called when checkpoints are saved.

    Raises:
        TypeError: a listener is none.
    """

    def __init__(self, run: ModelRun, config: RunConfig, hooks: Hooks, listeners: Iterable[Any]):
        self._run = run
        self._config = config
        self._hooks = hooks
        self._listeners = check_listeners(listeners)
        self._saves = not hooks.any_is(CheckpointSaverHook)
        if self._listeners and not self._saves:
            raise ValueError(
                "saving_listeners are called by RunConfig's checkpoints, in whose place is a "
                "CheckpointSaverHook: pass them to it, as listeners."
            )
        assert config.model_dir is not None
        self._manager = train.CheckpointManager(
            run.checkpoint, config.model_dir, config.keep_checkpoint_max or None, "model.ckpt"
        )
        self._writer = None
        if config.is_chief and config.save_summary_steps:
            self._writer = summary.create_file_writer(config.model_dir)
            if config.log_step_count_steps is not None:
                hooks.add(StepCounterHook(config.log_step_count_steps, summary_writer=self._writer))
        self._saved = -1
        self._saved_at = time.monotonic()

    def run(self, latest: str | None, steps: int | None, max_steps: int | None) -> None:
        """Train from a checkpoint on.

        Args:
            latest: the checkpoint; None to begin.
            steps: how many steps more.
            max_steps: the global step at which it ends.
        """
        self._hooks.begin()
        for listener in self._listeners:
            listener.begin()
        self._run.restore(latest)
        self._hooks.started()
        step = self._global_step()
        last = max_steps if steps is None else step + steps
        stop = False
        if latest is None and self._saves:
            stop = self._save(step)
        else:
            self._saved = step
        try:
            loss, step = self._steps(step, last, stop)
            self._finish(step)
        finally:
            if self._writer is not None:
                self._writer.close()
        _log.info("Loss for final step: %s.", loss)

    def _finish(self, step: int) -> None:
        if self._saved != step and self._saves:
            self._save(step)
        for listener in self._listeners:
            listener.end(None, step)
        self._hooks.end()

    def _steps(self, step: int, last: int | None, stop: bool) -> tuple[float | None, int]:
        began, loss, value = step, None, None
        for batch in self._run.batches():
            if stop or (last is not None and step >= last):
                break
            loss, stop = self._hooks.run(lambda batch=batch: self._run.step(batch))  # type: ignore[misc]
            step = self._global_step()
            value = float(loss)
            if math.isnan(value):
                raise NanLossDuringTrainingError
            every = self._config.log_step_count_steps
            if every and (step - began) % every == 1 % every:
                _log.info("loss = %g, step = %d", value, step)
            if self._writer is not None and step % self._config.save_summary_steps == 0:
                with self._writer.as_default():
                    summary.scalar("loss", value, step=step)
            if self._is_due(step):
                stop = self._save(step) or stop
        return value, step

    def _is_due(self, step: int) -> bool:
        """Whether to save a checkpoint now: the same in all processes."""
        if not self._saves:
            return False
        if self._config.save_checkpoints_steps is not None:
            return step - self._saved >= int(self._config.save_checkpoints_steps)
        if self._config.save_checkpoints_secs is None:
            return False
        strategy = self._config.train_distribute
        waited = time.monotonic() - self._saved_at >= self._config.save_checkpoints_secs
        if strategy is None or not strategy.spans_processes:
            return waited
        if step % _AGREE_EVERY:
            return False
        votes = strategy.experimental_distribute_values_from_function(lambda _: float(waited))
        return float(strategy.reduce("SUM", votes, axis=None)) > 0

    def _save(self, step: int) -> bool:
        """Save a checkpoint; whether a listener ends the training."""
        for listener in self._listeners:
            listener.before_save(None, step)
        self._manager.save(checkpoint_number=step)
        self._saved, self._saved_at = step, time.monotonic()
        _log.info("Saving checkpoints for %d into %s.", step, self._manager.directory)
        wishes = [bool(listener.after_save(None, step)) for listener in self._listeners]
        return True in wishes

    def _global_step(self) -> int:
        return self._run.global_step()
