"""``tf.train``'s other classes: moving averages of variables, and threads that stop together."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np

from drumline.compat.training.variable import TensorVariable
from drumline.compat.values import dtypes
from drumline.compat.values.errors import EndOfSequenceError
from drumline.distribute import VariableAggregation


class ExponentialMovingAverage:
    """Moving averages of variables, as ``tf.train.ExponentialMovingAverage``.

    `apply` moves each average: ``average -= (1 - decay) * (average - value)``.

    Args:
        decay: between 0 and 1.
        num_updates: how many updates there were: the decay is ``(1 + n) / (10 + n)`` at most.
        zero_debias: accepted: averages of variables start with their values, and not with zeros.
        name: for the averages' names.
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ):
        self._decay = decay
        self._num_updates = num_updates
        self._name = name
        self._averages: dict[int, tuple[Any, TensorVariable]] = {}

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> None:
        """Move the averages of variables; those that are new start with the variables' values.

        Args:
            var_list: floating variables.

        Raises:
            TypeError: something else is among them.
            ValueError: there is no list.
        """
        if var_list is None:
            raise ValueError("ExponentialMovingAverage.apply: give a list of variables.")
        for variable in var_list:
            if not isinstance(variable, keras.Variable):
                raise TypeError(
                    "tf.train.ExponentialMovingAverage does not support non-Variable tensors when "
                    "eager execution is enabled."
                )
            if not dtypes.as_dtype(variable.dtype).name.startswith(("float", "bfloat")):
                raise TypeError(f"The variables must be half, float, or double: {variable.name}")
            average = self.average(variable)
            if average is None:
                average = self._made(variable)
            difference = (average.value - variable.value) * (1 - self._decay_now())
            average.assign_sub(difference)

    def average(self, var: Any) -> TensorVariable | None:
        """The variable that has the average; None if `apply` was not given ``var``."""
        return self._averages.get(id(var), (None, None))[1]

    def average_name(self, var: Any) -> str:
        """The name of the average."""
        return f"{var.name}/{self._name}"

    def variables_to_restore(self, moving_avg_variables: Iterable[Any] | None = None) -> dict:
        """For names under which values were saved, the variables that they are for.

        Args:
            moving_avg_variables: those that are restored from their averages; by default all that
                have one.
        """
        chosen = list(moving_avg_variables or (each for each, _ in self._averages.values()))
        return {self.average_name(variable): variable for variable in chosen}

    def _made(self, variable: Any) -> TensorVariable:
        made = TensorVariable(
            np.asarray(variable.value),
            trainable=False,
            name=self.average_name(variable).replace("/", "_"),
            dtype=variable.dtype,
            aggregation=VariableAggregation.MEAN,
        )
        self._averages[id(variable)] = (variable, made)
        return made

    def _decay_now(self) -> Any:
        if self._num_updates is None:
            return self._decay
        count = self._num_updates
        number = count.value if isinstance(count, keras.Variable) else count
        limit = (1.0 + number) / (10.0 + number)
        return limit if limit < self._decay else self._decay


class Coordinator:
    """Lets threads stop together, and hands on what one of them failed with.

    As ``tf.train.Coordinator``.

    Args:
        clean_stop_exception_types: errors that mean that all is done; by default
            ``tf.errors.OutOfRangeError``.
    """

    def __init__(self, clean_stop_exception_types: tuple[type[Exception], ...] | None = None):
        self._clean = clean_stop_exception_types or (EndOfSequenceError,)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._joined = False

    @property
    def joined(self) -> bool:
        """Whether `join` has returned."""
        return self._joined

    def should_stop(self) -> bool:
        """Whether a stop was requested."""
        return self._stop.is_set()

    def request_stop(self, ex: Any = None) -> None:
        """Have all threads stop.

        Args:
            ex: an error, or what ``sys.exc_info()`` gives, which `join` then raises.
        """
        error = ex[1] if isinstance(ex, tuple) else ex
        with self._lock:
            late = self._joined
            if error is not None and not isinstance(error, self._clean) and self._error is None:
                self._error = error
            self._stop.set()
        if late and error is not None and not isinstance(error, self._clean):
            raise error

    def clear_stop(self) -> None:
        """Forget a request to stop, and its error: threads may be started again."""
        with self._lock:
            self._joined = False
            self._error = None
            self._stop.clear()

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """A block whose errors are requests to stop."""
        try:
            yield
        except Exception as error:
            self.request_stop(error)

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until a stop is requested; whether it was.

        Args:
            timeout: for so many seconds at most.
        """
        return self._stop.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Have `join` wait for a thread."""
        with self._lock:
            self._threads.append(thread)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait for threads, and raise what one of them failed with.

        Args:
            threads: those to wait for, beside those that were registered.
            stop_grace_period_secs: for how long after a request to stop.
            ignore_live_threads: whether those that run on then are no error.

        Raises:
            RuntimeError: threads run on after the period.
        """
        with self._lock:
            waited = list(dict.fromkeys([*self._threads, *(threads or ())]))
        while any(thread.is_alive() for thread in waited) and not self.wait_for_stop(0.01):
            pass
        until = time.monotonic() + stop_grace_period_secs
        for thread in waited:
            thread.join(max(0.0, until - time.monotonic()))
        alive = [thread.name for thread in waited if thread.is_alive()]
        with self._lock:
            self._joined = True
            self._threads = []
        self.raise_requested_exception()
        if alive and not ignore_live_threads:
            raise RuntimeError("Coordinator stopped with threads still running: " + " ".join(alive))

    def raise_requested_exception(self) -> None:
        """Raise the error that a stop was requested with, if there was one."""
        with self._lock:
            error = self._error
        if error is not None:
            raise error
