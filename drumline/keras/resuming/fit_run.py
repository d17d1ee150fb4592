"""One call of `fit`: when its state is saved, and how it is put back.

The state is saved behind all callbacks, at the end of a step or an epoch. A `fit` that continues
restores it before its callbacks begin, gives callbacks their states when they have begun, and, in
the middle of an epoch, all of it once more when the epoch has begun: Keras resets metrics there,
and callbacks act as if the epoch were a new one. Then the epoch iterator takes up its position,
and the step before it counts as done.
"""

from __future__ import annotations

import inspect
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import keras

from drumline import _recorder
from drumline.distribute import Strategy
from drumline.distribute.process_group.preemption import Preemption, TerminationConfig
from drumline.keras import internals
from drumline.keras.resuming.callback_states import (
    keep_logs,
    set_states_of,
    states_of,
    time_callbacks,
)
from drumline.keras.resuming.input_position import RESUMED, InputPosition, position_in
from drumline.keras.resuming.saving import RUN, Saver, saver_of
from drumline.keras.resuming.training_checkpoint import texts_of_all
from drumline.keras.resuming.user_state import as_text, from_text
from drumline.keras.state import is_on_servers, strategy_of

_log = logging.getLogger("drumline")


class WorkersInput(Protocol):
    """What the workers of parameter servers read, each by itself."""

    def state(self) -> list[int]:
        """How much each has used, when no step runs."""

    def resume(self, used: list[int]) -> None:
        """Let each continue behind what it had used."""


def run_of(model: keras.Model | None) -> FitRun | None:
    """The `fit` of the model that is under way; None if there is none."""
    found: FitRun | None = None if model is None else vars(model).get(RUN)
    return found


class FitRun:
    """One call of `fit`.

    Args:
        model: the model.
        validation_freq: as `fit` takes it.

    Attributes:
        epoch: the epoch under way, or the next one at its border.
        step: how many steps of the epoch are done.
        total_steps: how many steps were done since the training began.
        input: what the epochs are read from; None until it is known.
        drawn: what the workers of parameter servers read by themselves; None if they do not.
        profile: the `StepProfile` that is made of it; None if none is.
        at_end: called when `fit` ends, also where it raises.
        scheduled: how many steps of the epoch workers were given. Where they are not ahead of what
            callbacks know of, it stays 0.
    """

    def __init__(self, model: keras.Model, validation_freq: Any = 1) -> None:
        self.model = model
        self.epoch = 0
        self.step = 0
        self.total_steps = 0
        self.input: InputPosition | None = None
        self.drawn: WorkersInput | None = None
        self.scheduled = 0
        self.profile: Any = None
        self.at_end: list[Callable[[], None]] = []
        self._awaited: list[Saver] = []
        self._validation: InputPosition | None = None
        self._validation_freq = validation_freq
        self._validation_state: dict[str, Any] | None = None
        self._callbacks: Any = None
        self._savers: list[Saver] = []
        self._in_epoch = False
        self._first_epoch: int | None = None
        self._logs: Any = {}
        self._epoch_logs: dict[str, Any] = {}
        self._resumption: dict[str, Any] | None = None
        self._values: list[tuple[Any, Any]] = []
        self._preemption: Preemption | None = None
        self._termination: tuple[Saver, TerminationConfig] | None = None
        self._stops_at: float | None = None
        strategy = strategy_of(model)
        self._spanning = strategy if strategy is not None and strategy.spans_processes else None

    @property
    def spanning(self) -> Strategy | None:
        """The model's strategy, if it spans processes."""
        return self._spanning

    @property
    def waits_for_steps(self) -> bool:
        """Whether all steps that workers were given are to end before they are given more."""
        ahead = self.scheduled - self.step
        return bool(self._awaited) or any(
            (left := saver.steps_left(self)) is not None and left <= ahead for saver in self._savers
        )

    @property
    def saves(self) -> bool:
        """Whether a callback asks for backups."""
        return bool(self._savers)

    def takes(self, epochs: Any) -> None:
        """Learn of an epoch iterator that `fit` has made."""
        if position_in(epochs) is not None:
            return
        if self.input is None:
            self.input = InputPosition(epochs)
        elif epochs is vars(self.model).get("_eval_epoch_iterator"):
            self.takes_validation(epochs)

    def takes_validation(self, epochs: Any) -> None:
        """Learn of the epoch iterator of the validation."""
        self._validation = InputPosition(epochs, validates=True)
        self._validation.is_kept = self.saves
        if self.saves:
            self._validation.warn()
        if self._validation_state is not None:
            self._validation.resume(self._validation_state, 0)
        elif self._first_epoch:
            before = range(self._first_epoch)
            evaluates = self.model._should_eval
            self._validation.of_epoch(sum(evaluates(e, self._validation_freq) for e in before))

    def close(self) -> None:
        """Watch for no preemption any more, and end what ends with the `fit`."""
        if self._preemption is not None:
            self._preemption.close()
        for end in self.at_end:
            end()

    # What happens in turn.

    def training_begins(self, callbacks: Any) -> Callable[[], None]:
        """Restore before the callbacks begin.

        Returns:
            What is to be done when they have begun.
        """
        self._callbacks = callbacks
        found = [saver_of(callback, self.model) for callback in callbacks.callbacks]
        self._savers = [saver for saver in found if saver is not None]
        if not self._savers:
            return lambda: None
        if self.input is not None:
            self.input.is_kept = True
            self.input.warn()
        self._watch_for_preemption()
        for saver in self._savers:
            resumption = saver.restore()
            if resumption is not None:
                self._resumption = resumption
                break
        if self._resumption is None:
            for saver in self._savers:
                saver.load_keras_own()
            return self._begin_savers
        self._note_values(saver)
        changed = keep_logs(callbacks.callbacks, self._resumption["callbacks"])
        return lambda: self._resumed(saver, changed)

    def epoch_begins(self, epoch: int) -> Callable[[], None]:
        """Note the epoch before the callbacks do.

        Returns:
            What is to be done when they have.
        """
        self.epoch, self._in_epoch, self.scheduled = epoch, True, 0
        resumption, self._resumption = self._resumption, None
        if self._first_epoch is None:
            self._first_epoch = epoch
            if resumption is None and self.input is not None:
                self.input.of_epoch(epoch)
        if resumption is None or not resumption["step"]:
            self.step = 0
            return lambda: None
        return lambda: self._resumed_in_epoch(resumption)

    def step_ended(self, last: int, logs: Any) -> None:
        """Save after a step, behind the callbacks, if it is time."""
        if not self._savers:
            return
        self.total_steps += last + 1 - self.step
        self.step = last + 1
        self._logs = logs
        self._save_if_due()

    def epoch_ended(self, epoch: int, logs: Any) -> None:
        """Save after an epoch, behind the callbacks, if it is time."""
        self.epoch, self.step, self._in_epoch = epoch + 1, 0, False
        self._epoch_logs = dict(logs or {})
        self._save_if_due()

    def training_ends(self, logs: Any) -> Any:
        """Save before the callbacks end, and return the logs of the last epoch."""
        for saver in self._savers:
            if saver.saves_at_end and saver.saved_at != self._moment:
                self._save(saver)
        return logs or self._epoch_logs

    @property
    def at_done_step(self) -> bool:
        """Whether the step under way was done before; callbacks know of it."""
        return self.input is not None and self.input.at_done_step

    # Saving.

    @property
    def _moment(self) -> tuple[int, int]:
        return self.epoch, self.step

    def _save_if_due(self) -> None:
        due = [saver for saver in self._savers if saver.is_due(self, not self._in_epoch)]
        self._awaited += [saver for saver in due if saver not in self._awaited]
        if self._in_epoch and self.step < self.scheduled:
            return  # Variables know of later steps than callbacks do: `waits_for_steps`.
        awaited, self._awaited = self._awaited, []
        for saver in awaited:
            self._save(saver)
        self._save_before_preemption()

    def _watch_for_preemption(self) -> None:
        """Watch for the end of the machine, for the first callback that wants that.

        Servers and workers of a `ParameterServerStrategy` have their own ends.
        """
        for saver in self._savers:
            config = saver.termination
            if config is not None and not is_on_servers(self.model):
                self._termination = saver, config
                # One process of a group may train a model of its own, of which no other knows.
                alone = self._spanning is None
                self._preemption = Preemption(config.termination_watcher_fn, alone=alone)
                return

    def _save_before_preemption(self) -> None:
        if self._preemption is None or self._termination is None:
            return
        saver, config = self._termination
        if self._stops_at is None:
            if not self._preemption.stops_here():
                return
            _log.warning("%s: everything is saved, to be started again.", self._preemption.reason)
            self._stops_at = time.monotonic() + (config.grace_period or 0)
            self._save_for_preemption(saver, config)
        elif self._preemption.is_time(self._stops_at):
            self._save_for_preemption(saver, config)
        else:
            return
        if not config.grace_period or self._preemption.is_time(self._stops_at):
            preemption, self._preemption = self._preemption, None
            preemption.end(config.exit_fn)

    def _save_for_preemption(self, saver: Saver, config: TerminationConfig) -> None:
        if config.save_fn is not None:
            config.save_fn()
        elif saver.saved_at != self._moment:
            self._save(saver)

    @_recorder.counted_as(_recorder.CHECKPOINTING)
    def _save(self, saver: Saver) -> None:
        if getattr(self._callbacks, "_futures", None):
            self._callbacks._flush_futures()  # callbacks that run beside the steps
        self.model.jax_state_sync()
        saver.checkpoint.save(self._progress())
        saver.saved(self, self._moment)

    def _progress(self) -> dict[str, Any]:
        validation = self._validation_state
        if self._validation is not None:
            validation = self._validation.state(in_epoch=False)
        return {
            "epoch": self.epoch,
            "step": self.step,
            "total_steps": self.total_steps,
            "stops": bool(self.model.stop_training),
            "logs": internals.python_utils.pythonify_logs(self._logs),
            "epoch_logs": internals.python_utils.pythonify_logs(self._epoch_logs),
            "callbacks": states_of(self._callbacks.callbacks),
            "validation": validation,
            "input": self._input_states(),
            **({} if self.drawn is None else {"drawn": self.drawn.state()}),
        }

    def _input_states(self) -> dict[str, Any] | None:
        if self.input is None:
            return None
        state = as_text(self.input.state(self._in_epoch), "the input")
        alone = self._spanning is None
        states = [state] if self._spanning is None else texts_of_all(self._spanning, state)
        return {"alike": alone or self.input.is_alike, "states": states}

    # Resuming.

    def _begin_savers(self) -> None:
        for saver in self._savers:
            saver.begin(self)

    def _note_values(self, saver: Saver) -> None:
        """Hold what was restored, which callbacks may change when they begin."""
        self._values = [(v, v._value) for v in saver.checkpoint.variables]
        if is_on_servers(self.model):
            # The servers' own are read one by one; Keras resets these when an epoch begins.
            noted = {id(variable) for variable, _ in self._values}
            metrics = [v for v in self.model.metrics_variables if id(v) not in noted]
            self._values += [(v, v._value) for v in metrics]

    def _put_values_back(self) -> None:
        for variable, value in self._values:
            if variable._value is not value:
                variable._direct_assign(value)

    def _resumed(self, saver: Saver, changed: list[Any]) -> None:
        """Callbacks have begun."""
        assert self._resumption is not None
        resumption = self._resumption
        for logger in changed:
            logger.append = False
        self._put_values_back()
        set_states_of(self._callbacks.callbacks, resumption["callbacks"])
        self.epoch, self.step = resumption["epoch"], resumption["step"]
        self.total_steps = resumption["total_steps"]
        self._logs, self._epoch_logs = resumption["logs"], resumption["epoch_logs"]
        self._validation_state = resumption["validation"]
        if self.input is not None and resumption["input"] is not None:
            self.input.resume(self._own_input_state(resumption["input"]), self.step)
        if self.drawn is not None and "drawn" in resumption:
            self.drawn.resume(resumption["drawn"])
        ends = resumption["stops"] and not self.step
        self.model._initial_epoch = sys.maxsize if ends else self.epoch
        if not self.step:
            self._values = []
        self._begin_savers()
        saver.saved(self, self._moment)

    def _resumed_in_epoch(self, resumption: dict[str, Any]) -> None:
        """Callbacks have begun an epoch of which a part is done."""
        self._put_values_back()
        self._values = []
        set_states_of(self._callbacks.callbacks, resumption["callbacks"])
        self.model.stop_training = resumption["stops"]
        if not is_on_servers(self.model):
            _take_as_done(self.model, resumption["logs"])

    def _own_input_state(self, saved: dict[str, Any]) -> dict[str, Any]:
        states = saved["states"]
        number, processes = 0, 1
        if self._spanning is not None:
            number, processes = self._spanning.process_index, self._spanning.num_processes
        if saved["alike"]:
            number = number if number < len(states) else 0
        elif len(states) != processes:
            raise ValueError(
                f"The backup was saved by {len(states)} processes, each of which read batches of "
                f"its own, and there are {processes}: start as many. Under AutoShardPolicy.DATA "
                "their number may change."
            )
        found: dict[str, Any] = from_text(states[number])
        return found


def _take_as_done(model: keras.Model, logs: Any) -> None:
    """Let the model's next step be one that is done, with these logs."""
    take_step = model.train_function

    def done_step(state: Any, iterator: Any) -> Any:
        if iterator is not RESUMED:
            return take_step(state, iterator)
        model.train_function = take_step
        return logs, state

    model.train_function = done_step


# Wrappers of Keras's methods; see `drumline.keras.hooks`.


def with_run(fit: Callable[..., Any], keras_own: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fit``, with the arguments of Keras's own: the model has a `FitRun` meanwhile."""
    parameters = list(inspect.signature(keras_own).parameters)
    freq = parameters.index("validation_freq")

    def fit_with_run(self: keras.Model, *args: Any, **kwargs: Any) -> Any:
        given = [self, *args]
        often = given[freq] if len(given) > freq else kwargs.get("validation_freq", 1)
        outer, before = run_of(self), self._initial_epoch
        run = vars(self)[RUN] = FitRun(self, often)
        if outer is not None:
            self._initial_epoch = None  # where the outer one continues
        try:
            return fit(self, *args, **kwargs)
        finally:
            run.close()
            self._initial_epoch = before
            if outer is None:
                del vars(self)[RUN]
            else:
                vars(self)[RUN] = outer

    return fit_with_run


def tell_run_of_input(model: keras.Model, epochs: Any) -> None:
    """Let the `fit` of a model that is under way, if any, know of an epoch iterator, if any."""
    run = run_of(model)
    if run is not None and epochs is not None:
        run.takes(epochs)


def tell_input(build: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``_symbolic_build``, which gets every epoch iterator before it is used."""

    def build_and_tell(self: keras.Model, iterator: Any = None, data_batch: Any = None) -> Any:
        tell_run_of_input(self, iterator)
        return build(self, iterator=iterator, data_batch=data_batch)

    return build_and_tell


def count_from_position(enumerate_steps: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``_enumerate_iterator``: the steps of an epoch that is resumed begin in it."""

    def steps(self: Any) -> Any:
        position = position_in(self)
        if position is None:
            return enumerate_steps(self)
        return position.steps(lambda: enumerate_steps(self))

    return steps


def tell_training(on_train_begin: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``CallbackList.on_train_begin``."""

    def begin(self: Any, logs: Any = None) -> None:
        run = vars(self)[RUN] = run_of(self.model)
        then = None if run is None else run.training_begins(self)
        if any(hasattr(callback, "after_others") for callback in self.callbacks):
            self.callbacks.sort(key=lambda callback: getattr(callback, "after_others", 0))
        on_train_begin(self, logs)
        if run is not None and _recorder.active is not None and _recorder.active.is_here():
            run.at_end.append(time_callbacks(self.callbacks))
        if then is not None:
            then()

    return begin


def tell_training_end(on_train_end: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``CallbackList.on_train_end``."""

    def end(self: Any, logs: Any = None) -> None:
        run = vars(self).pop(RUN, None)
        on_train_end(self, logs if run is None else run.training_ends(logs))

    return end


def tell_epoch(on_epoch_begin: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``CallbackList.on_epoch_begin``."""

    def begin(self: Any, epoch: int, logs: Any = None) -> None:
        run = vars(self).get(RUN)
        then = None if run is None else run.epoch_begins(epoch)
        on_epoch_begin(self, epoch, logs)
        if then is not None:
            then()

    return begin


def tell_epoch_end(on_epoch_end: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``CallbackList.on_epoch_end``."""

    def end(self: Any, epoch: int, logs: Any = None) -> None:
        on_epoch_end(self, epoch, logs)
        run = vars(self).get(RUN)
        if run is not None:
            run.epoch_ended(epoch, logs)

    return end


def skip_done_step(on_train_batch_begin: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``CallbackList.on_train_batch_begin``."""

    def begin(self: Any, batch: int, logs: Any = None) -> None:
        run = vars(self).get(RUN)
        if run is None or not run.at_done_step:
            on_train_batch_begin(self, batch, logs)

    return begin


def tell_step(on_train_batch_end: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``CallbackList.on_train_batch_end``."""

    def end(self: Any, batch: int, logs: Any = None) -> None:
        run = vars(self).get(RUN)
        if run is not None and run.at_done_step:
            return
        on_train_batch_end(self, batch, logs)
        if run is not None:
            run.step_ended(batch, logs)

    return end
