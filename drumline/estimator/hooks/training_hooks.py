"""Hooks that TensorFlow's Estimators have: what is saved, logged, counted and watched."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import keras
import numpy as np

from drumline import summary, train
from drumline.estimator.graph import ModelGraph, default_graph, get_global_step
from drumline.estimator.hooks.session_hooks import (
    CheckpointSaverListener,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    check_listeners,
)
from drumline.estimator.spec import checked_saver

_log = logging.getLogger("drumline")


class NanLossDuringTrainingError(RuntimeError):
    """The loss is NaN, as ``tf.estimator.NanLossDuringTrainingError``."""

    def __str__(self) -> str:
        return "NaN loss during training: lower the learning rate, or look for NaNs in the input."


class SecondOrStepTimer:
    """When so many seconds or steps have passed, as ``tf.estimator.SecondOrStepTimer``.

    Args:
        every_secs: after how many seconds.
        every_steps: after how many steps.

    Raises:
        ValueError: both are given, or neither is.

    Example:
        >>> timer = dl.estimator.SecondOrStepTimer(every_steps=2)
        >>> timer.should_trigger_for_step(1)
        True
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None):
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._every_secs = every_secs
        self._every_steps = every_steps
        self._step: int | None = None
        self._time = 0.0

    def reset(self) -> None:
        """Forget when it triggered last."""
        self._step = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is time; the first step always is, and the same step is once."""
        if self._step is None:
            return True
        if self._step == step:
            return False
        if self._every_secs is not None:
            return time.monotonic() - self._time >= self._every_secs
        assert self._every_steps is not None
        return step >= self._step + self._every_steps

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Note that it triggered.

        Returns:
            The seconds and steps since the last time; None at the first.
        """
        now, before = time.monotonic(), self._step
        passed = (None, None) if before is None else (now - self._time, step - before)
        self._step, self._time = step, now
        return passed

    def last_triggered_step(self) -> int | None:
        """The step at which it triggered last; None if it has not."""
        return self._step


class CheckpointSaverHook(SessionRunHook):
    """Saves checkpoints, as ``tf.estimator.CheckpointSaverHook``, in place of `RunConfig`'s.

    Args:
        checkpoint_dir: where.
        save_secs: after how many seconds.
        save_steps: after how many steps.
        saver: a ``tf.train.Checkpoint``, or ``dl.train.Checkpoint``; by default the Estimator's
            variables are saved.
        checkpoint_basename: what names of files begin with.
        scaffold: a `Scaffold` whose saver is taken.
        listeners: `CheckpointSaverListener`s.
        save_graph_def: without effect: there is no graph.

    Raises:
        ValueError: both ``save_secs`` and ``save_steps`` are given, or neither is; or both a saver
            and a scaffold.
        TypeError: the saver is something else.
        NotImplementedError: in several processes, with ``save_secs``.
    """

    def __init__(
        self,
        checkpoint_dir: Any,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Iterable[Any] | None = None,
        save_graph_def: bool = True,
    ):
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver: Any = checked_saver(
            saver if scaffold is None else scaffold.saver, "CheckpointSaverHook"
        )
        self._directory = os.fspath(checkpoint_dir)
        self._name = checkpoint_basename
        self._seconds = save_secs
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._listeners = check_listeners(listeners)
        self._manager: Any = None
        self._graph: Any = None

    def begin(self) -> None:
        graph = _graph(self)
        if self._seconds is not None and graph.spans_processes:
            raise NotImplementedError(
                "CheckpointSaverHook(save_secs=): several processes do not save at the same step "
                "by their clocks: give save_steps, or RunConfig(save_checkpoints_secs=)."
            )
        self._graph = graph
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        graph = self._graph
        self._manager = train.CheckpointManager(
            self._saver or graph.checkpoint, self._directory, graph.keep_checkpoints, self._name
        )
        self._timer.reset()
        self._save(self._step())

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        step = self._step()
        if self._timer.should_trigger_for_step(step) and self._save(step):
            run_context.request_stop()

    def end(self, session: Any) -> None:
        step = self._step()
        if self._timer.last_triggered_step() != step:
            self._save(step)
        for listener in self._listeners:
            listener.end(None, step)

    def _step(self) -> int:
        return int(self._graph.values.as_numpy(self._graph.global_step))

    def _save(self, step: int) -> bool:
        self._graph.settle()
        self._graph.look_at_losses()
        step = self._step()
        for listener in self._listeners:
            listener.before_save(None, step)
        self._manager.save(checkpoint_number=step)
        self._timer.update_last_triggered_step(step)
        return True in [bool(listener.after_save(None, step)) for listener in self._listeners]


class StepCounterHook(SessionRunHook):
    """Writes how many steps a second are made, as ``tf.estimator.StepCounterHook``.

    The tag is ``global_step/sec``. An Estimator has one by itself, for
    ``RunConfig(log_step_count_steps=)``.

    Args:
        every_n_steps: after how many steps; None with ``every_n_secs``.
        every_n_secs: after how many seconds.
        output_dir: of the event files; None to log alone.
        summary_writer: in place of a new one in ``output_dir``.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
    ):
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_n_secs, every_n_steps)
        self._writer = summary_writer
        self._directory = None if output_dir is None else os.fspath(output_dir)
        self._global_step: Any = None

    def begin(self) -> None:
        self._timer.reset()
        self._global_step = get_global_step()
        if self._writer is None and self._directory is not None:
            self._writer = summary.create_file_writer(self._directory)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self.count(int(run_values.results))

    def count(self, step: int) -> None:
        """Note that a step was made, and write the rate if it is time."""
        if not self._timer.should_trigger_for_step(step):
            return
        seconds, steps = self._timer.update_last_triggered_step(step)
        if seconds is None or steps is None:
            return
        rate = steps / max(seconds, 1e-9)
        _log.info("global_step/sec: %g", rate)
        if self._writer is not None:
            with self._writer.as_default():
                summary.scalar("global_step/sec", rate, step=step)

    def end(self, session: Any) -> None:
        if self._writer is not None:
            self._writer.flush()


class LoggingTensorHook(SessionRunHook):
    """Logs values, as ``tf.estimator.LoggingTensorHook``.

    Args:
        tensors: by name, or a list: variables, and, for hooks of an `EstimatorSpec`, what its
            model_fn has computed: of the first replica.
        every_n_iter: after how many steps.
        every_n_secs: after how many seconds.
        at_end: whether to log at the end too, then what the last step computed.
        formatter: makes the text of a dictionary of numpy's values.

    Raises:
        ValueError: not exactly one of ``every_n_iter`` and ``every_n_secs`` is given, nor
            ``at_end``.
        NotImplementedError: a value is given by the name of an operation: there is no graph.
    """

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
    ):
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError(
                "either at_end and/or exactly one of every_n_iter and every_n_secs must be "
                "provided."
            )
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        found = tensors if isinstance(tensors, Mapping) else {_called(it): it for it in tensors}
        for name, value in found.items():
            if isinstance(value, str):
                raise NotImplementedError(
                    f"LoggingTensorHook: there is no graph in which {value!r} names a tensor: "
                    f"give the tensor itself, as {{{name!r}: tensor}}, in training_hooks of the "
                    "EstimatorSpec that model_fn returns."
                )
        self.tensors = dict(found)
        self._timer = None if only_at_end else SecondOrStepTimer(every_n_secs, every_n_iter)
        self._at_end = at_end
        self._formatter = formatter
        self._count = 0
        self._last: Any = None

    @property
    def reads_on_demand(self) -> bool:
        """Whether values are read when they are logged, as where no subclass wants each step's."""
        return type(self).after_run is LoggingTensorHook.after_run

    def begin(self) -> None:
        self._count = 0
        if self._timer is not None:
            self._timer.reset()

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._last = run_values.results
        if self._timer is not None and self._timer.should_trigger_for_step(self._count):
            self._show()
        self._count += 1

    def end(self, session: Any) -> None:
        if self._at_end and self._last is not None:
            self._show()

    def _show(self) -> None:
        seconds = None
        if self._timer is not None:
            seconds, _ = self._timer.update_last_triggered_step(self._count)
        found = self._last() if callable(self._last) else self._last
        if self._formatter is not None:
            _log.info(self._formatter(found))
            return
        text = ", ".join(f"{name} = {value}" for name, value in found.items())
        _log.info("%s%s", text, "" if seconds is None else f" ({seconds:.3f} sec)")


def _called(value: Any) -> str:
    return value if isinstance(value, str) else str(getattr(value, "name", value))


class NanTensorHook(SessionRunHook):
    """Ends training where a loss is NaN, as ``tf.estimator.NanTensorHook``.

    It waits for the value of each step. An Estimator watches its own loss by itself, and does not:
    some steps later.

    Args:
        loss_tensor: a variable; or, for hooks of an `EstimatorSpec`, what model_fn has computed.
        fail_on_nan_loss: whether to raise; else training ends.

    Raises:
        NanLossDuringTrainingError: in the loop.
    """

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True):
        self.tensors = loss_tensor
        self._fail = fail_on_nan_loss

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if not math.isnan(float(run_values.results)):
            return
        if self._fail:
            _log.error("Model diverged with loss = NaN.")
            raise NanLossDuringTrainingError
        _log.warning("Model diverged with loss = NaN.")
        run_context.request_stop()


class FinalOpsHook(SessionRunHook):
    """Reads variables when training ends, as ``tf.estimator.FinalOpsHook``.

    Args:
        final_ops: nested variables, or a function that is called, and gives values.
        final_ops_feed_dict: must be None.
    """

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None):
        if final_ops_feed_dict is not None:
            raise NotImplementedError("FinalOpsHook(final_ops_feed_dict=): there are no feeds")
        self._final = final_ops
        self._found: Any = None

    @property
    def final_ops_values(self) -> Any:
        """Numpy's values; None before the end."""
        return self._found

    def end(self, session: Any) -> None:
        graph = _graph(self)
        final = self._final() if callable(self._final) else self._final
        self._found = graph.values.map(lambda leaf: graph.values.as_numpy(leaf)[()], final)


class ProfilerHook(SessionRunHook):
    """Profiles a step now and then, as ``tf.estimator.ProfilerHook``, with JAX's profiler.

    Args:
        save_steps: after how many steps.
        save_secs: after how many seconds.
        output_dir: where TensorBoard finds the profiles.
        show_dataflow: without effect: profiles show what they have.
        show_memory: without effect.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: Any = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ):
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._directory = os.fspath(output_dir) or "."
        self._global_step: Any = None
        self._next: int | None = None
        self._running = False

    def begin(self) -> None:
        self._next = None
        self._global_step = get_global_step()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        # As TensorFlow's the first step is passed over: it compiles.
        if self._next is not None and self._timer.should_trigger_for_step(self._next):
            jax.profiler.start_trace(self._directory)
            self._running = True
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        step = int(run_values.results)
        if self._next is None:
            self._timer.update_last_triggered_step(step)
        elif self._running:
            self._stop()
            self._timer.update_last_triggered_step(step)
        self._next = step + 1

    def end(self, session: Any) -> None:
        if self._running:
            self._stop()

    def _stop(self) -> None:
        self._running = False
        jax.profiler.stop_trace()


def _graph(hook: SessionRunHook) -> ModelGraph:
    found = default_graph()
    if found is None:
        raise RuntimeError(f"{type(hook).__name__}: no Estimator runs here; give it to one as hook")
    return found


class InMemoryEvaluatorHook(SessionRunHook):
    """Evaluates while training, as ``tf.estimator.experimental.InMemoryEvaluatorHook``.

    Before the first step, after every so many, and at the end, with the variables as they are.

    Args:
        estimator: the Estimator that is trained.
        input_fn: see `Estimator.evaluate`, as ``steps``, ``hooks`` and ``name``.
        every_n_iter: after how many steps.

    Raises:
        ValueError: ``every_n_iter`` is not positive, or several processes train.
    """

    def __init__(
        self,
        estimator: Any,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Iterable[Any] | None = None,
        name: str | None = None,
        every_n_iter: int = 100,
    ):
        if every_n_iter is None or every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if estimator.config.num_ps_replicas > 0 or estimator.config.num_worker_replicas > 1:
            raise ValueError("InMemoryEvaluator supports only single machine (aka Local) setting.")
        self._estimator = estimator
        self._options = {"steps": steps, "hooks": tuple(hooks or ()), "name": name}
        self._input_fn = input_fn
        self._timer = SecondOrStepTimer(every_steps=every_n_iter)
        self._count = 0
        self._graph: Any = None

    def begin(self) -> None:
        self._timer.reset()
        self._count = 0
        self._graph = _graph(self)

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._evaluate()

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._count += 1
        if self._timer.should_trigger_for_step(self._count):
            self._evaluate()

    def end(self, session: Any) -> None:
        self._evaluate()

    def _evaluate(self) -> None:
        values = {
            name: np.asarray(self._graph.values.as_numpy(each))
            for name, each in self._graph.variables.items()
            if isinstance(each, keras.Variable)
        }
        self._estimator.evaluate_with(values, self._input_fn, **self._options)
        self._timer.update_last_triggered_step(self._count)


__all__ = [
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "FinalOpsHook",
    "InMemoryEvaluatorHook",
    "LoggingTensorHook",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "ProfilerHook",
    "SecondOrStepTimer",
    "StepCounterHook",
]
