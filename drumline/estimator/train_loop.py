"""The loop of `Estimator.train`: steps, checkpoints, summaries, hooks."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from drumline import summary, train
from drumline.estimator.config import RunConfig
from drumline.estimator.hooks.losses import Losses
from drumline.estimator.hooks.session_hooks import Hooks, check_listeners
from drumline.estimator.hooks.training_hooks import (
    CheckpointSaverHook,
    StepCounterHook,
)
from drumline.estimator.model_run import ModelRun
from drumline.training.checkpoint import file_format
from drumline.training.checkpoint.external_transfer import ExternalStoreReader

_log = logging.getLogger("drumline")
_END = object()
_AGREE_EVERY = 100
"""After how many steps several processes agree whether it is time for a checkpoint."""


def saved_values(path: str) -> dict[str, Any]:
    """The values of the variables in a checkpoint, by name; also those in servers' files."""
    contents = file_format.read(path)
    found = dict(contents.arrays)
    if contents.kept is not None:
        servers = ExternalStoreReader(path, contents.kept)
        found.update({place: servers.read(place) for place in contents.kept.entries})
    return {
        place.removeprefix("variables/").removesuffix("/variables/0"): value
        for place, value in found.items()
    }


def saved_step(path: str) -> int:
    """The global step of a checkpoint; of a scaffold's saver, what its name ends with."""
    step = saved_values(path).get("global_step")
    return int(path.rpartition("-")[2] if step is None else step)


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
        # Called by itself, and not among the hooks: it needs nothing but the step.
        self._counter: StepCounterHook | None = None
        if config.is_chief and config.save_summary_steps:
            self._writer = summary.create_file_writer(config.model_dir)
            if config.log_step_count_steps is not None:
                self._counter = StepCounterHook(
                    config.log_step_count_steps, summary_writer=self._writer
                )
        self._began = 0
        self._summaries: dict[int, dict[str, Any]] = {}
        self._losses = Losses(self._note, same_everywhere=run.graph.spans_processes)
        run.graph.look_at_losses = self._losses.look  # type: ignore[method-assign]
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
        if self._counter is not None:
            self._counter.begin()
        for listener in self._listeners:
            listener.begin()
        self._run.restore(latest)
        self._hooks.started()
        step = self._run.global_step()
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
        if self._counter is not None:
            self._counter.end(None)

    def _steps(self, step: int, last: int | None, stop: bool) -> tuple[float | None, int]:
        self._began = step
        batches = self._run.batches()
        while not stop and (last is None or step < last):
            if self._run.runs_ahead:
                self._run.pause_at(self._pause(last))
            batch = next(batches, _END)
            if batch is _END:
                break
            step, stop = self._one(batch)
            if self._is_due(step):
                step, stops = self._rest()
                stop = self._save(step) or stop or stops
            elif last is not None and step >= last:
                step = self._rest()[0]
        step = self._rest()[0]
        return self._losses.last, step

    def _one(self, batch: Any) -> tuple[int, bool]:
        """Make a step; the global step, and whether a hook ends the loop."""

        run = self._run

        def made() -> None:
            loss = run.step(batch)
            step = run.global_step()
            if run.graph.summaries and self._writes_summaries(step):
                self._summaries[step] = run.summaries()
            self._losses.add(loss, step)

        _, stop = self._hooks.run(made)
        step = run.global_step()
        if self._counter is not None:
            self._counter.count(step)
        return step, stop

    def _note(self, loss: float, step: int) -> None:
        """Log and write the loss of a step, and its summaries."""
        every = self._config.log_step_count_steps
        if every and (step - self._began) % every == 1 % every:
            _log.info("loss = %g, step = %d", loss, step)
        if self._writes_summaries(step):
            assert self._writer is not None
            with self._writer.as_default():
                summary.scalar("loss", loss, step=step)
                for tag, each in self._summaries.pop(step, {}).items():
                    found = self._run.graph.values.as_numpy(each)
                    self._run.graph.summaries[tag](tag, found, step=step)

    def _writes_summaries(self, step: int) -> bool:
        return self._writer is not None and step % self._config.save_summary_steps == 0

    def _rest(self) -> tuple[int, bool]:
        """End the steps that have begun; the global step, and whether a hook ends the loop."""
        stops = False
        for batch in self._run.rest():
            stops = self._one(batch)[1] or stops
        self._losses.look()
        return self._run.count_steps(), stops

    def _pause(self, last: int | None) -> int | None:
        """Beyond which global step none may begin yet: the next checkpoint's, or the last one."""
        every = self._config.save_checkpoints_steps if self._saves else None
        due = None if every is None else self._saved + int(every)
        known = [step for step in (last, due, self._hooks.last_step) if step is not None]
        return min(known, default=None)

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
