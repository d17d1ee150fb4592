"""The loop over steps: warm-up, timing, lines, checkpoints, summaries, evaluation on the way."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
from numpy.typing import NDArray

import drumline as dl
from drumline.cnn.consistency import TRACED_BEFORE_END
from drumline.cnn.loop.reporting import (
    BenchmarkLog,
    Speed,
    step_header,
    step_line,
    total_lines,
    writing_for,
)
from drumline.cnn.updates.steps import TrainingStep

_SHOWN_IMAGES = 3
"""Of a batch, in a summary."""


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """How many steps there are, and what is done between them.

    Attributes:
        num_batches: steps that are timed.
        num_warmup_batches: steps before them.
        images: of a step, on all workers.
        display_every: steps from line to line.
        loss: which is shown, ``"total_loss"`` or ``"base_loss"``.
        accuracies: whether top-1 and top-5 are shown.
        ewma: see `Speed.of`.
        trace_file: where a Chrome trace of a step goes; "" for none.
        save_steps: steps from checkpoint to checkpoint; None for none but the last.
        save_seconds: as `save_steps`, in seconds.
        summary_steps: steps from summary to summary; 0 for none.
        summary_verbosity: 1 for numbers; 2 for the distribution of gradients as well; 3 for those
            of each weight and its gradient.
        summary_images: whether a summary of verbosity 3 has images of its step's batch.
        evaluate_after: whether to evaluate after a step of this number.
        stop_at: end when an evaluation's top-1 is so much; None for never.
        totals: whether the images per second of the whole run are shown.
    """

    num_batches: int
    num_warmup_batches: int
    images: int
    display_every: int = 10
    loss: str = "total_loss"
    accuracies: bool = False
    ewma: float | None = None
    trace_file: str = ""
    save_steps: int | None = None
    save_seconds: float = 0
    summary_steps: int = 0
    summary_verbosity: int = 1
    summary_images: bool = False
    evaluate_after: Callable[[int], bool] = lambda _: False
    stop_at: float | None = None
    totals: bool = True


@dataclasses.dataclass(frozen=True)
class RunStatistics:
    """What a run found.

    Attributes:
        num_workers: processes that computed.
        num_steps: steps that were timed.
        average_wall_time: seconds of a step.
        images_per_sec: of all workers.
        loss: of the last step.
    """

    num_workers: int
    num_steps: int
    average_wall_time: float
    images_per_sec: float
    loss: float

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name."""
        return dataclasses.asdict(self)


class RunCheckpoints:
    """Checkpoints of a run: what is there is restored, and what is new is saved.

    Args:
        directory: of ``--train_dir``; None saves nothing.
        model: whose variables are saved.
        optimizer: whose slots and steps are saved; None without one.
        max_to_keep: how many checkpoints are kept.
    """

    def __init__(
        self,
        directory: str | None,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer | None,
        max_to_keep: int | None = 5,
    ) -> None:
        self.directory = directory
        self.step = dl.Variable(0, trainable=False, name="global_step", aggregation="MEAN")
        self._model = model
        parts = {"model": model, "step": self.step}
        if optimizer is not None:
            parts["optimizer"] = optimizer
        self._checkpoint = dl.train.Checkpoint(**parts)
        self._manager: dl.train.CheckpointManager | None = None
        if directory is not None:
            with writing_for("train_dir", directory):
                self._manager = dl.train.CheckpointManager(self._checkpoint, directory, max_to_keep)
        self._saved_at = time.monotonic()

    def restore(self) -> str | None:
        """Restore the latest checkpoint; return its path, or None without one."""
        found = None if self._manager is None else self._manager.latest_checkpoint
        if found is not None:
            self._checkpoint.restore(found).expect_partial()
        return found

    def begin_with(self, path: str | None) -> str | None:
        """Restore the model's weights alone from another run's checkpoint; return its path."""
        if path is not None:
            dl.train.Checkpoint(model=self._model).restore(path).expect_partial()
        return path

    def save(self, step: int) -> None:
        """Save, unless there is no directory."""
        if self._manager is None:
            return
        self.step.assign(step)
        with writing_for("train_dir", self.directory):
            self._manager.save(checkpoint_number=step)
        self._saved_at = time.monotonic()

    def due(self, step: int, plan: RunPlan) -> bool:
        """Whether a checkpoint is due after this step."""
        if plan.save_steps:
            return step > 0 and step % plan.save_steps == 0
        return bool(plan.save_seconds) and time.monotonic() - self._saved_at >= plan.save_seconds


class BenchmarkLoop:
    """Run steps on batches, and say how fast they were.

    One step is always under way while the one before it is waited for, so that looking at a loss
    does not hold the next step up; a step's time is that from the end of the one before it to its
    own.

    Args:
        step: what is run.
        batches: of the step, without an end.
        plan: see `RunPlan`.
        saver: see `RunCheckpoints`.
        num_workers: processes that compute.
        is_chief: whether this process saves and writes summaries.
        say: prints a line.
        log: of ``--benchmark_log_dir``. Of a single process it gets the step profile of the timed
            steps, too, but where `RunPlan.trace_file` asks for JAX's profiler.
        summaries: of ``--save_summaries_steps``.
        learning_rate: of the step behind so many of this run, its warm-up's too, for summaries.
        evaluate: of ``--eval_during_training_*``: from the global step to top-1.
    """

    def __init__(
        self,
        step: TrainingStep,
        batches: Iterator[Any],
        plan: RunPlan,
        saver: RunCheckpoints,
        *,
        num_workers: int = 1,
        is_chief: bool = True,
        say: Callable[[str], None] = print,
        log: BenchmarkLog | None = None,
        summaries: Any = None,
        learning_rate: Callable[[int], float] | None = None,
        evaluate: Callable[[int], float] | None = None,
    ) -> None:
        self._step = step
        self._batches = batches
        self._plan = plan
        self._saver = saver
        self._num_workers = num_workers
        self._is_chief = is_chief
        self._say = say
        self._log = log
        self._summaries = summaries
        self._learning_rate = learning_rate
        self._evaluate = evaluate
        self._times: list[float] = []
        self._images: Any = None

    def run(self) -> RunStatistics:
        """Run all steps that are left to do."""
        plan, log = self._plan, self._log
        start = int(self._saver.step.value)
        if start >= plan.num_batches:
            self._say(
                f"Nothing is left to do: the checkpoint is of step {start}, and the run has "
                f"{plan.num_batches}."
            )
            return RunStatistics(self._num_workers, 0, 0.0, 0.0, float("nan"))
        with contextlib.ExitStack() as block:
            profile = None
            if log is not None and self._num_workers == 1 and not plan.trace_file:
                profile = block.enter_context(dl.profile_steps())
            self._say("Running warm up")
            self._warm_up()
            self._step.barrier()
            self._say("Done warm up")
            if profile is not None:
                profile.end_epoch()
            self._say(step_header(plan.loss, plan.accuracies))
            found = self._timed(start)
            if profile is not None and log is not None:
                log.step_time(profile.end_epoch(), step=start + found.num_steps)
        return found

    def _warm_up(self) -> None:
        """Run the first steps as those that are timed, which find the memory of two steps.

        The step that is traced is alone on the devices.
        """
        before: dict[str, Any] | None = None
        for number in range(-self._plan.num_warmup_batches, 0):
            traced = self._plan.trace_file if number == -TRACED_BEFORE_END else ""
            if traced and before is not None:
                self._step.wait(before)
                before = None
            with _traced(traced, self._say):
                results = self._next()
                if traced:
                    self._step.wait(results)
            if before is not None:
                self._step.wait(before)
            before = None if traced else results
        if before is not None:
            self._step.wait(before)

    def _next(self, number: int | None = None) -> dict[str, Any]:
        """Run the next step, of this number; None in the warm-up."""
        with_gradients = number is not None and self._summarizes(number, verbosity=2)
        batch = next(self._batches)
        if number is not None and self._plan.summary_images and self._summarizes(number, 3):
            self._images = batch[0]
        return self._step(batch, with_gradients)

    def _summarizes(self, number: int, verbosity: int = 1) -> bool:
        """Whether a step has a summary of so much."""
        every = self._plan.summary_steps
        return every > 0 and number % every == 0 and self._plan.summary_verbosity >= verbosity

    def _timed(self, start: int) -> RunStatistics:
        plan, steps, done = self._plan, 0, False
        ahead: dict[str, Any] | None = None
        loss, waits = float("nan"), 0.0
        began = before = time.perf_counter()
        last = plan.num_batches - start
        while steps < last and not done:
            number = start + steps + 1
            results = self._next(number) if ahead is None else ahead
            pause = self._pauses_after(number)
            ahead = None if steps + 1 == last or pause else self._next(number + 1)
            self._step.wait(results)
            now = time.perf_counter()
            self._times.append(now - before)
            before = now
            steps += 1
            loss = self._shown(start + steps, steps, results, loss, steps == last)
            if pause:
                done = self._pause(start + steps, steps == last)
                before = time.perf_counter()
                waits += before - now
        seconds = max(before - began - waits, 1e-9)
        speed = plan.images * steps / seconds if steps else 0.0
        if plan.totals:
            for line in total_lines(speed):
                self._say(line)
        else:
            self._say("Done with training")
        self._step.collect()
        if self._is_chief:
            if self._log is not None:
                self._log.metric("average_examples_per_sec", speed, step=start + steps)
            self._saver.save(start + steps)
        return RunStatistics(
            self._num_workers, steps, seconds / steps if steps else 0.0, speed, float(loss)
        )

    def _shown(
        self, step: int, done: int, results: dict[str, Any], loss: float, is_last: bool
    ) -> float:
        """Show a step where its turn is; return the last loss that was looked at."""
        plan = self._plan
        shown = done == 1 or step % plan.display_every == 0
        summarized = self._summarizes(step)
        if not (shown or summarized or is_last):
            return loss
        report = self._step.report(results)
        speed = Speed.of(plan.images, self._times, plan.ewma)
        accuracies = None
        if plan.accuracies:
            accuracies = report["top_1_accuracy"], report["top_5_accuracy"]
        if shown:
            self._say(step_line(step, speed, report[plan.loss], accuracies))
            if self._log is not None:
                self._log.metric("current_examples_per_sec", speed.mean, step=step)
                for name in ("top_1_accuracy", "top_5_accuracy") if plan.accuracies else ():
                    self._log.metric(name, report[name], step=step)
        gradients: list[Any] = []
        if self._summarizes(step, verbosity=2):
            gradients = self._step.gradients(results)  # every process has a part of them
            self._step.collect()
        if summarized and self._summaries is not None:
            with writing_for("train_dir", self._saver.directory), self._summaries.as_default(step):
                for name, value in report.items():
                    dl.summary.scalar(name, value)
                dl.summary.scalar("images_per_sec", speed.mean)
                if self._learning_rate is not None:
                    rate = self._learning_rate(plan.num_warmup_batches + done - 1)
                    dl.summary.scalar("learning_rate", rate)
                if gradients:
                    self._summarize(gradients)
                if self._images is not None:
                    (first, *_) = self._step.strategy.experimental_local_results(self._images)
                    dl.summary.image("images", _brightened(first))
                    self._images = None
        return report[plan.loss]

    def _summarize(self, gradients: Sequence[Any]) -> None:
        """Record distributions, by the names of the original's ``gradient_histogram_summary``."""
        arrays = [np.asarray(each, np.float64) for each in gradients]
        magnitudes = np.abs(np.concatenate([each.ravel() for each in arrays]))
        logarithms = np.log(magnitudes[magnitudes > 0])
        dl.summary.histogram("log_gradients", logarithms.astype(np.float32))
        if self._plan.summary_verbosity < 3:
            return
        for weight, gradient in zip(self._step.model.trainable_variables, arrays, strict=True):
            dl.summary.histogram(f"{weight.path}/gradients", gradient.astype(np.float32))
            dl.summary.histogram(weight.path, weight.value)

    def _pauses_after(self, step: int) -> bool:
        """Whether the next step is not begun before this one is dealt with, weights and all."""
        return (
            self._plan.evaluate_after(step)
            or self._summarizes(step, verbosity=3)
            or (self._is_chief and self._saver.due(step, self._plan))
        )

    def _pause(self, step: int, is_last: bool) -> bool:
        """Save and evaluate between two steps; return whether the run has reached its goal."""
        self._step.collect()
        if self._is_chief and not is_last and self._saver.due(step, self._plan):
            self._saver.save(step)
        if self._evaluate is None or is_last or not self._plan.evaluate_after(step):
            return False
        self._say(f"Running evaluation at global_step {step}")
        top_1 = self._evaluate(step)
        if self._plan.stop_at and top_1 >= self._plan.stop_at:
            self._say(f"Stopping, as eval accuracy at least {self._plan.stop_at} was reached")
            return True
        self._say("Resuming training")
        return False


def _brightened(images: Any) -> NDArray[np.float32]:
    """The first images of a batch, each from its least value, which is 0, to its largest, 1."""
    shown = np.asarray(images[:_SHOWN_IMAGES], np.float32)
    least, most = (f(shown, axis=(1, 2, 3), keepdims=True) for f in (np.min, np.max))
    return (shown - least) / np.maximum(most - least, 1e-6)


@contextlib.contextmanager
def _traced(path: str, say: Callable[[str], None]) -> Iterator[None]:
    """Write a Chrome trace of what runs meanwhile, which chrome://tracing and Perfetto open."""
    if not path:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            yield
        (found,) = Path(folder).rglob("perfetto_trace.json.gz")
        say(f"Dumping trace to {path}")
        opened = open if path.endswith(".gz") else gzip.open
        with writing_for("trace_file", path), opened(found, "rb") as made:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as kept:
                shutil.copyfileobj(made, kept)
