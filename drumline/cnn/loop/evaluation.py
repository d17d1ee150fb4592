"""Top-1 and top-5 of a model on batches that it was not trained on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import keras

import drumline as dl
from drumline.cnn.loop.reporting import BenchmarkLog, accuracy_line, total_lines
from drumline.cnn.updates.steps import LossOptions, TrainingStep


class Evaluation:
    """Evaluate a model as often as asked.

    Args:
        strategy: of the model.
        model: from images to logits.
        batches: makes the batches of an evaluation.
        num_batches: of one evaluation.
        batch_size: rows of a batch, of all workers.
        say: prints a line.
        display_every: batches from line to line.
        totals: whether the images per second are shown.
        summaries: a writer of summaries, or None.
        log: of ``--benchmark_log_dir``.
    """

    def __init__(
        self,
        strategy: dl.distribute.Strategy,
        model: keras.Model,
        batches: Callable[[], Iterator[Any]],
        num_batches: int,
        batch_size: int,
        *,
        say: Callable[[str], None] = print,
        display_every: int = 10,
        totals: bool = True,
        summaries: Any = None,
        log: BenchmarkLog | None = None,
    ) -> None:
        self._step = TrainingStep(strategy, model, None, LossOptions(batch_size=batch_size))
        self._batches = batches
        self._num_batches = num_batches
        self._batch_size = batch_size
        self._say = say
        self._display_every = display_every
        self._totals = totals
        self._summaries = summaries
        self._log = log
        self._top_1 = 0.0

    def run(self, global_step: int) -> float:
        """Evaluate, show what was found, and return top-1.

        Args:
            global_step: of the weights, for summaries.
        """
        sums = {"top_1_accuracy": 0.0, "top_5_accuracy": 0.0}
        batches = self._batches()
        began = before = time.perf_counter()
        for number in range(1, self._num_batches + 1):
            report = self._step.report(self._step(next(batches)))
            for name in sums:
                sums[name] += report[name]
            if number % self._display_every == 0:
                now = time.perf_counter()
                speed = self._batch_size * self._display_every / (now - before)
                self._say(f"{number}\t{speed:.1f} examples/sec")
                before = now
        seconds = time.perf_counter() - began
        top_1, top_5 = (total / self._num_batches for total in sums.values())
        examples = self._num_batches * self._batch_size
        self._say(accuracy_line(top_1, top_5, examples))
        speed = examples / seconds
        if self._totals:
            for line in total_lines(speed):
                self._say(line)
        if self._summaries is not None:
            with self._summaries.as_default(global_step):
                dl.summary.scalar("eval/Accuracy@1", top_1)
                dl.summary.scalar("eval/Accuracy@5", top_5)
        if self._log is not None:
            self._log.metric("eval_top_1_accuracy", top_1, step=global_step)
            self._log.metric("eval_top_5_accuracy", top_5, step=global_step)
            self._log.metric("eval_average_examples_per_sec", speed, step=global_step)
        self._top_1 = top_1
        return top_1

    def reached(self, goal: float | None) -> bool:
        """Whether the last evaluation's top-1 was so much."""
        return goal is not None and 0 < goal <= self._top_1
