"""Functions of users that an Estimator calls between steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import keras
import numpy as np

from drumline.estimator.graph import get_global_step
from drumline.estimator.values import ModelValues


class SessionRunArgs(NamedTuple):
    """What a hook wants to know after a step, as ``tf.estimator.SessionRunArgs``.

    Attributes:
        fetches: nested variables, `get_global_step`'s among them.
        feed_dict: must be None.
        options: must be None.
    """

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """What a hook gets after a step, as ``tf.estimator.SessionRunValues``.

    Attributes:
        results: numpy's values, in the structure of the fetches.
        options: None.
        run_metadata: None.
    """

    results: Any
    options: Any = None
    run_metadata: Any = None


class SessionRunContext:
    """What a hook can ask for, as ``tf.estimator.SessionRunContext``."""

    def __init__(self) -> None:
        self._stop = False

    @property
    def session(self) -> None:
        """None: there are no sessions."""
        return None

    @property
    def original_args(self) -> SessionRunArgs:
        """What is fetched without hooks: nothing."""
        return SessionRunArgs(None)

    @property
    def stop_requested(self) -> bool:
        """Whether a stop was requested."""
        return self._stop

    def request_stop(self) -> None:
        """Have this step be the last one."""
        self._stop = True


class SessionRunHook:
    """Functions that are called between steps, as ``tf.estimator.SessionRunHook``: a base class.

    Example:
        >>> import drumline.compat.tf as tf
        >>> class Stop(tf.estimator.SessionRunHook):
        ...     def after_run(self, run_context, run_values):
        ...         run_context.request_stop()
    """

    def begin(self) -> None:
        """Before the variables have values."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """When variables have their values; both arguments are None."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Before each step; what to fetch."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """After each step."""

    def end(self, session: Any) -> None:
        """After the last step, if none failed; ``session`` is None."""


class CheckpointSaverListener:
    """Functions that are called when checkpoints are saved: a base class.

    As ``tf.estimator.CheckpointSaverListener``.
    """

    def begin(self) -> None:
        """Before training."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Before a checkpoint is saved."""

    def after_save(self, session: Any, global_step_value: int) -> Any:
        """After it was saved; True ends the training."""

    def end(self, session: Any, global_step_value: int) -> None:
        """After training."""


class StopAtStepHook(SessionRunHook):
    """Ends training after so many steps, as ``tf.estimator.StopAtStepHook``.

    Args:
        num_steps: how many more.
        last_step: the last value of the global step.

    Raises:
        ValueError: neither, or both, are given.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None):
        if (num_steps is None) == (last_step is None):
            raise ValueError("Exactly one of num_steps or last_step must be specified.")
        self._num_steps = num_steps
        self._last_step = last_step
        self._step: Any = None

    def begin(self) -> None:
        self._step = get_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = int(np.asarray(self._step.value)) + self._num_steps

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        assert self._last_step is not None
        if run_values.results >= self._last_step:
            run_context.request_stop()


class Hooks:
    """The hooks of one call of an Estimator's methods.

    Args:
        hooks: users' hooks.
        values: what steps compute with.

    Raises:
        TypeError: one is no hook.
    """

    def __init__(self, hooks: Iterable[Any], values: ModelValues):
        self._values = values
        self._hooks = list(hooks)
        for each in self._hooks:
            if not isinstance(each, SessionRunHook):
                raise TypeError(
                    f"All hooks must be `SessionRunHook` instances, given: {each!r}. Derive it "
                    f"from {values.module}.SessionRunHook."
                )
        self._asked: list[tuple[SessionRunHook, SessionRunContext, Any]] = []

    def begin(self) -> None:
        """Before the variables have values."""
        for hook in self._hooks:
            hook.begin()

    def started(self) -> None:
        """The variables have values."""
        for hook in self._hooks:
            hook.after_create_session(None, None)

    def run(self, step: Callable[[], Any]) -> tuple[Any, bool]:
        """Run a step with hooks around it; what it returns, and whether a hook ends the loop."""
        if not self._hooks:
            return step(), False
        context = SessionRunContext()
        wanted = [(hook, _fetches(hook.before_run(context))) for hook in self._hooks]
        result = step()
        for hook, fetches in wanted:
            hook.after_run(context, SessionRunValues(self._values.map(self._fetched, fetches)))
        return result, context.stop_requested

    def end(self) -> None:
        """After the last step."""
        for hook in self._hooks:
            hook.end(None)

    def _fetched(self, leaf: Any) -> Any:
        if leaf is None:
            return None
        if not isinstance(leaf, keras.Variable):
            raise TypeError(
                f"SessionRunArgs: hooks fetch variables, not {type(leaf).__name__}: a step's "
                "tensors are gone after it. Keep the value in a variable that model_fn assigns."
            )
        return self._values.as_numpy(leaf)[()]


def _fetches(asked: SessionRunArgs | None) -> Any:
    if asked is None:
        return None
    if asked.feed_dict is not None or asked.options is not None:
        raise NotImplementedError("SessionRunArgs(feed_dict=, options=): there are no sessions")
    return asked.fetches
