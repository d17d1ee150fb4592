"""``tf.estimator.train_and_evaluate``: what a task of a cluster does, or a process alone."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from drumline.estimator.estimator import Estimator
from drumline.estimator.export.exporters import Exporter
from drumline.estimator.hooks.session_hooks import CheckpointSaverListener
from drumline.estimator.servers.tasks import serves
from drumline.training.checkpoint.file_format import file_of

_log = logging.getLogger("drumline")
_POLL_SECONDS = 1.0
_WARN_SECONDS = 60.0
"""How often an evaluator says that it waits for the first checkpoint."""


class TrainSpec:
    """How to train, as ``tf.estimator.TrainSpec``.

    Args:
        input_fn: see `Estimator.train`.
        max_steps: the global step at which training ends; by default when the data ends.
        hooks: `SessionRunHook`s.
        saving_listeners: `CheckpointSaverListener`s.

    Raises:
        TypeError: ``input_fn`` is no function.
        ValueError: ``max_steps`` is not positive.
    """

    def __init__(
        self,
        input_fn: Callable[..., Any],
        max_steps: int | None = None,
        hooks: Iterable[Any] | None = None,
        saving_listeners: Iterable[Any] | None = None,
    ):
        _require_function(input_fn)
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        self.input_fn = input_fn
        self.max_steps = max_steps
        self.hooks = tuple(hooks or ())
        self.saving_listeners = tuple(saving_listeners or ())


class EvalSpec:
    """How to evaluate, as ``tf.estimator.EvalSpec``.

    Args:
        input_fn: see `Estimator.train`.
        steps: for how many batches; None until the data ends.
        name: of the folder of summaries.
        hooks: `SessionRunHook`s.
        exporters: `Exporter`s, or one, which are given each evaluation.
        start_delay_secs: how long an evaluator's task waits at first.
        throttle_secs: how long it is from one evaluation to the next at least.

    Raises:
        TypeError: ``input_fn`` is no function, or an exporter is none.
        ValueError: a number is out of range, or two exporters have one name.
    """

    def __init__(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Iterable[Any] | None = None,
        exporters: Any = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ):
        _require_function(input_fn)
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        if start_delay_secs < 0 or throttle_secs < 0:
            raise ValueError("EvalSpec: start_delay_secs and throttle_secs must be >= 0")
        self.input_fn = input_fn
        self.steps = steps
        self.name = name
        self.hooks = tuple(hooks or ())
        self.exporters = _exporters(exporters)
        self.start_delay_secs = start_delay_secs
        self.throttle_secs = throttle_secs


def _exporters(given: Any) -> tuple[Exporter, ...]:
    found = (given,) if isinstance(given, Exporter) else tuple(given or ())
    for each in found:
        if not isinstance(each, Exporter):
            raise TypeError(f"`exporters` must be an Exporter, or a list of them, not {each!r}")
        if not each.name:
            raise ValueError(f"An exporter has no name: {each!r}")
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise ValueError(f"`exporters` must have unique names. Given: {names}")
    return found


def _evaluate_and_export(
    estimator: Estimator, spec: EvalSpec, path: str, max_steps: int | None
) -> tuple[dict[str, Any], list[Any], bool]:
    """Evaluate a checkpoint and export it; the metrics, exports, and whether it is the last."""
    metrics = estimator.evaluate(
        spec.input_fn, steps=spec.steps, hooks=spec.hooks, checkpoint_path=path, name=spec.name
    )
    final = max_steps is None or int(metrics["global_step"]) >= max_steps
    exports = []
    for exporter in spec.exporters:
        folder = os.path.join(estimator.model_dir, "export", exporter.name)
        exports.append(exporter.export(estimator, folder, path, metrics, final))
    return metrics, exports, max_steps is not None and final


class _CheckpointEvaluation(CheckpointSaverListener):
    """Evaluates checkpoints when they are saved, but not the first, and not too often."""

    def __init__(self, estimator: Estimator, spec: EvalSpec, max_steps: int | None):
        self._estimator = estimator
        self._spec = spec
        self._max_steps = max_steps
        self._evaluated_at = time.monotonic()
        self._evaluated: int | None = None
        self._first = True
        self.metrics: dict[str, Any] | None = None
        self.exports: list[Any] = []

    def after_save(self, session: Any, global_step_value: int) -> bool:
        if self._first:
            self._first = False
            return False
        if time.monotonic() - self._evaluated_at < self._spec.throttle_secs:
            return False
        return self._evaluate(global_step_value)

    def end(self, session: Any, global_step_value: int) -> None:
        if self._evaluated != global_step_value:
            self._evaluate(global_step_value)

    def _evaluate(self, step: int) -> bool:
        latest = self._estimator.latest_checkpoint()
        assert latest is not None
        self.metrics, self.exports, stop = _evaluate_and_export(
            self._estimator, self._spec, latest, self._max_steps
        )
        self._evaluated, self._evaluated_at = step, time.monotonic()
        return stop


def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any] | None, list[Any]] | None:
    """Train and evaluate in turn; in a cluster of ``TF_CONFIG``, what this task is for.

    Without a cluster checkpoints are evaluated after they are saved, the last one always. In one,
    chief and workers train, parameter servers serve, and the evaluator evaluates each new
    checkpoint until that of ``max_steps``; without it until it is killed, as TensorFlow's.

    Args:
        estimator: an `Estimator`.
        train_spec: how to train.
        eval_spec: how to evaluate.

    Returns:
        What the last evaluation gave, and what its exporters did; None in a cluster.

    Raises:
        TypeError: something is not of these classes.
        ValueError: the task is none that runs an Estimator.
    """
    for value, kind in ((estimator, Estimator), (train_spec, TrainSpec), (eval_spec, EvalSpec)):
        if not isinstance(value, kind):
            raise TypeError(f"train_and_evaluate takes an object of {kind.__name__}, not {value!r}")
    config = estimator.config
    if not config.in_cluster:
        return _alone(estimator, train_spec, eval_spec)
    if config.task_type in ("chief", "master", "worker") or serves(config):
        estimator.train(
            train_spec.input_fn,
            hooks=train_spec.hooks,
            max_steps=train_spec.max_steps,
            saving_listeners=train_spec.saving_listeners,
        )
        return None
    if config.task_type == "evaluator":
        _evaluate_until(estimator, train_spec.max_steps, eval_spec)
        return None
    raise ValueError(
        f"train_and_evaluate: TF_CONFIG's task is {config.task_type!r}, which is for training on "
        "parameter servers, and RunConfig(train_distribute=) is another strategy: leave it out, or "
        "give a ParameterServerStrategy."
    )


def _alone(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any] | None, list[Any]]:
    evaluation = _CheckpointEvaluation(estimator, eval_spec, train_spec.max_steps)
    estimator.train(
        train_spec.input_fn,
        hooks=train_spec.hooks,
        max_steps=train_spec.max_steps,
        saving_listeners=[*train_spec.saving_listeners, evaluation],
    )
    return evaluation.metrics, evaluation.exports


def _evaluate_until(estimator: Estimator, max_steps: int | None, spec: EvalSpec) -> None:
    """Evaluate each new checkpoint until that of ``max_steps``."""
    time.sleep(spec.start_delay_secs)
    evaluated = None
    warned_at = -math.inf
    while True:
        began = time.monotonic()
        latest = estimator.latest_checkpoint()
        if latest is not None and latest != evaluated:
            evaluated = latest
            try:
                _, _, stop = _evaluate_and_export(estimator, spec, latest, max_steps)
            except Exception:
                if file_of(latest).is_file():
                    raise
                _log.warning(
                    "The checkpoint %r was deleted before it was evaluated: the chief saves "
                    "faster than this evaluates. Raise keep_checkpoint_max, or save less often.",
                    latest,
                )
                continue
            if stop:
                return
            time.sleep(max(0.0, spec.throttle_secs - (time.monotonic() - began)))
        else:
            if latest is None and began - warned_at >= _WARN_SECONDS:
                warned_at = began
                _log.warning(
                    "The evaluator waits: there is no checkpoint in model_dir %r yet. If the "
                    "chief has saved some, give both the same model_dir, on a file system that "
                    "they share.",
                    estimator.model_dir,
                )
            time.sleep(min(_POLL_SECONDS, spec.throttle_secs or _POLL_SECONDS))


def _require_function(input_fn: Any) -> None:
    if not callable(input_fn):
        raise TypeError(f"input_fn must be callable, given: {input_fn!r}")
