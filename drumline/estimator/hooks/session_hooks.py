"""Functions of users that an Estimator calls between steps."""

from __future__ import annotations

import functools
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


_NO_VALUES = SessionRunValues(None)


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

    tensors: Any = None
    """What `after_run` gets in place of `before_run`'s fetches, if it is not None: nested
    variables, and, for the hooks of an `EstimatorSpec`, what model_fn has computed."""

    @property
    def reads_on_demand(self) -> bool:
        """Whether `after_run` gets a function that gives the results, which are read when it is
        called: reading a tensor each step would make the loop wait for each."""
        return False

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

    @property
    def last_step(self) -> int | None:
        """The global step at which it ends the training; None if it is not known yet."""
        return self._last_step

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


def check_listeners(listeners: Iterable[Any] | None) -> list[CheckpointSaverListener]:
    """The listeners as a list.

    Raises:
        TypeError: one is none.
    """
    found = list(listeners or ())
    for each in found:
        if not isinstance(each, CheckpointSaverListener):
            raise TypeError(
                f"saving_listeners must be a list of CheckpointSaverListener, given: {each!r}"
            )
    return found


def step_tensors(hook: SessionRunHook, values: ModelValues) -> list[Any]:
    """What a hook wants to know of a step's own values, in their order."""
    found: list[Any] = []
    values.map(
        lambda leaf: None if isinstance(leaf, keras.Variable) else found.append(leaf), hook.tensors
    )
    return found


class Hooks:
    """The hooks of one call of an Estimator's methods.

    Args:
        hooks: users' hooks.
        values: what steps compute with.
        of_steps: gives the values of a hook's `step_tensors` in the last step; None if there are
            none.
        read: gives a variable's value after the last step; by default what it is now.

    Raises:
        TypeError: one is no hook.
    """

    def __init__(
        self,
        hooks: Iterable[Any],
        values: ModelValues,
        of_steps: Callable[[Any], Any] | None = None,
        read: Callable[[Any], Any] | None = None,
    ):
        self._values = values
        self._of_steps = of_steps
        self._read = values.as_numpy if read is None else read
        self._hooks = list(hooks)
        for each in self._hooks:
            if not isinstance(each, SessionRunHook):
                raise TypeError(
                    f"All hooks must be `SessionRunHook` instances, given: {each!r}. Derive it "
                    f"from {values.module}.SessionRunHook."
                )

    def any_is(self, kind: type) -> bool:
        """Whether there is a hook of a class."""
        return any(isinstance(hook, kind) for hook in self._hooks)

    @property
    def last_step(self) -> int | None:
        """The global step at which a `StopAtStepHook` ends the loop, if one does."""
        known = [hook.last_step for hook in self._hooks if isinstance(hook, StopAtStepHook)]
        return min((step for step in known if step is not None), default=None)

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
        wanted = [_fetches(hook.before_run(context)) for hook in self._hooks]
        result = step()
        for hook, fetches in zip(self._hooks, wanted, strict=True):
            values = _NO_VALUES
            if hook.tensors is not None:
                read = functools.partial(self._of_step, hook)
                values = SessionRunValues(read if hook.reads_on_demand else read())
            elif isinstance(fetches, keras.Variable):
                values = SessionRunValues(self._fetched(fetches))
            elif fetches is not None:
                values = SessionRunValues(self._values.map(self._fetched, fetches))
            hook.after_run(context, values)
        return result, context.stop_requested

    def end(self) -> None:
        """After the last step."""
        for hook in self._hooks:
            hook.end(None)

    def _of_step(self, hook: SessionRunHook) -> Any:
        """A hook's tensors and variables as numpy's values."""
        if not step_tensors(hook, self._values):
            return self._values.map(self._fetched, hook.tensors)
        found = None if self._of_steps is None else self._of_steps(hook)
        if found is None:
            raise ValueError(
                f"{type(hook).__name__} watches what model_fn computes, and is none of the hooks "
                "of its EstimatorSpec: return it there, as training_hooks."
            )
        left = iter(found)
        return self._values.map(
            lambda leaf: (
                self._read(leaf)
                if isinstance(leaf, keras.Variable)
                else self._values.as_numpy(next(left))
            )[()],
            hook.tensors,
        )

    def _fetched(self, leaf: Any) -> Any:
        if leaf is None:
            return None
        if not isinstance(leaf, keras.Variable):
            raise TypeError(
                f"SessionRunArgs: hooks fetch variables, not {type(leaf).__name__}: a step's "
                "tensors are gone after it. Keep the value in a variable that model_fn assigns."
            )
        return self._read(leaf)[()]


def _fetches(asked: SessionRunArgs | None) -> Any:
    if asked is None:
        return None
    if asked.feed_dict is not None or asked.options is not None:
        raise NotImplementedError("SessionRunArgs(feed_dict=, options=): there are no sessions")
    return asked.fetches
