"""Hooks that end training by what evaluations have written, and the numbers in event files."""

from __future__ import annotations

import glob
import logging
import operator
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any

from drumline._event_messages import scalars_of_event
from drumline.estimator.graph import get_global_step
from drumline.estimator.hooks.session_hooks import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from drumline.estimator.hooks.training_hooks import SecondOrStepTimer

_log = logging.getLogger("drumline")


def make_early_stopping_hook(
    estimator: Any,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """A hook that ends training when a function says so.

    As ``tf.estimator.experimental.make_early_stopping_hook``. In several processes training ends
    when the function of one of them says so.

    Args:
        estimator: the `Estimator` that is trained.
        should_stop_fn: a function of no arguments that gives a bool.
        run_every_secs: after how many seconds it is called; None with ``run_every_steps``.
        run_every_steps: after how many steps.

    Raises:
        TypeError: the arguments are no Estimator and no function.
        ValueError: both intervals are given, or, in several processes, one in seconds.
    """
    from drumline.estimator.estimator import Estimator

    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}"
        )
    if not callable(should_stop_fn):
        raise TypeError("`should_stop_fn` must be callable.")
    if run_every_secs is not None and run_every_steps is not None:
        raise ValueError("Only one of `run_every_secs` and `run_every_steps` must be set.")
    strategy = estimator.config.train_distribute
    together = strategy if strategy is not None and strategy.spans_processes else None
    if together is not None and run_every_secs:
        raise ValueError(
            "run_every_secs should not be set when using MultiWorkerMirroredStrategy: pass "
            "run_every_secs=None and run_every_steps."
        )
    return _StopHook(should_stop_fn, SecondOrStepTimer(run_every_secs, run_every_steps), together)


class _StopHook(SessionRunHook):
    def __init__(self, should_stop: Callable[[], bool], timer: SecondOrStepTimer, strategy: Any):
        self._should_stop = should_stop
        self._timer = timer
        self._strategy = strategy
        self._step: Any = None

    def begin(self) -> None:
        self._timer.reset()
        self._step = get_global_step()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        step = int(run_values.results)
        if not self._timer.should_trigger_for_step(step):
            return
        self._timer.update_last_triggered_step(step)
        if self._agreed(bool(self._should_stop())):
            _log.info("Requesting early stopping at global step %d", step)
            run_context.request_stop()

    def _agreed(self, wish: bool) -> bool:
        if self._strategy is None:
            return wish
        votes = self._strategy.experimental_distribute_values_from_function(lambda _: float(wish))
        return float(self._strategy.reduce("SUM", votes, axis=None)) > 0


def _hook(
    estimator: Any,
    stop: Callable[[dict[int, float]], bool],
    metric: str,
    eval_dir: Any,
    min_steps: int,
    run_every_secs: float | None,
    run_every_steps: int | None,
) -> SessionRunHook:
    def should_stop() -> bool:
        folder = estimator.eval_dir() if eval_dir is None else os.fspath(eval_dir)
        found = read_eval_metrics(folder)
        return stop({step: each[metric] for step, each in found.items() if step >= min_steps})

    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def _crossed(better: Callable[[float, float], bool], bound: float) -> Callable[..., bool]:
    return lambda values: any(better(value, bound) for value in values.values())


def _stalled(better: Callable[[float, float], bool], most: int) -> Callable[..., bool]:
    def stalled(values: dict[int, float]) -> bool:
        best: tuple[int, float] | None = None
        for step, value in values.items():
            if best is None or better(value, best[1]):
                best = step, value
            if step - best[0] >= most:
                return True
        return False

    return stalled


def stop_if_higher_hook(
    estimator: Any,
    metric_name: str,
    threshold: float,
    eval_dir: Any = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """A hook that ends training when a metric of an evaluation is above a threshold.

    As ``tf.estimator.experimental.stop_if_higher_hook``, as those below.

    Args:
        estimator: the `Estimator` that is trained.
        metric_name: of what `Estimator.evaluate` gives.
        threshold: what it is compared with.
        eval_dir: where evaluations are written; by default `Estimator.eval_dir`.
        min_steps: evaluations of earlier steps do not count.
        run_every_secs: see `make_early_stopping_hook`, as ``run_every_steps``.
    """
    stop = _crossed(operator.gt, threshold)
    return _hook(estimator, stop, metric_name, eval_dir, min_steps, run_every_secs, run_every_steps)


def stop_if_lower_hook(
    estimator: Any,
    metric_name: str,
    threshold: float,
    eval_dir: Any = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """As `stop_if_higher_hook`, when the metric is below the threshold."""
    stop = _crossed(operator.lt, threshold)
    return _hook(estimator, stop, metric_name, eval_dir, min_steps, run_every_secs, run_every_steps)


def stop_if_no_increase_hook(
    estimator: Any,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: Any = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """As `stop_if_higher_hook`, when the metric has not increased for so many steps."""
    stop = _stalled(operator.gt, max_steps_without_increase)
    return _hook(estimator, stop, metric_name, eval_dir, min_steps, run_every_secs, run_every_steps)


def stop_if_no_decrease_hook(
    estimator: Any,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: Any = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """As `stop_if_higher_hook`, when the metric has not decreased for so many steps."""
    stop = _stalled(operator.lt, max_steps_without_decrease)
    return _hook(estimator, stop, metric_name, eval_dir, min_steps, run_every_secs, run_every_steps)


def read_eval_metrics(eval_dir: Any) -> dict[int, dict[str, float]]:
    """The numbers that evaluations have written, by step and name.

    Args:
        eval_dir: a directory of event files; of one that is not there, nothing.
    """
    return read_event_files(os.path.join(glob.escape(os.fspath(eval_dir)), "*.tfevents.*"))


def read_event_files(pattern: str) -> dict[int, dict[str, float]]:
    """The numbers in the event files that fit a pattern, by step and name."""
    found: dict[int, dict[str, float]] = {}
    for path in sorted(glob.glob(pattern)):
        for event in _records(path):
            _, step, numbers = scalars_of_event(event)
            found.setdefault(step, {}).update(numbers)
    return {step: found[step] for step in sorted(found) if found[step]}


def _records(path: str) -> Iterator[bytes]:
    """The records of an event file, up to one that is not whole: it is written still."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at + 12 <= len(data):
        size = struct.unpack_from("<Q", data, at)[0]
        if at + 16 + size > len(data):
            return
        yield data[at + 12 : at + 12 + size]
        at += 16 + size
