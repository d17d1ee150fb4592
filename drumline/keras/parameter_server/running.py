"""Going through the steps of an epoch: scheduled ahead, reported as they end."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import keras
import numpy as np

from drumline.distribute.parameter_server.coordinator import ClusterCoordinator, RemoteValue
from drumline.keras.parameter_server.sources import Source
from drumline.keras.parameter_server.steps import Steps

_LOOK_SECONDS = 0.002

Began = Callable[[int], None]
Ended = Callable[[int, list[Any]], bool]


def run_epoch(
    coordinator: ClusterCoordinator, source: Source, steps: Steps, began: Began, ended: Ended
) -> None:
    """Schedule the steps of an epoch and wait for them.

    Steps are scheduled ahead, so `began` runs before its steps do. `ended` runs in the order of
    the executions, when their steps have ended; a slow worker delays it, and no other worker.

    Args:
        coordinator: of the workers.
        source: of the batches.
        steps: what to run.
        began: told the first step of each execution.
        ended: told the last step of each execution, and the results of its steps; returns whether
            to schedule no more.
    """
    run = _Epoch(coordinator, ended)
    function = source.function(steps)
    most = source.outstanding_per_worker * coordinator.strategy.num_workers
    with _cancelled_on_error(coordinator):
        for first, last, arguments in source.epoch():
            began(first)
            run.schedule(function, last, arguments)
            run.report(wait_while_more_than=most)
        run.report(wait_while_more_than=0)
        coordinator.join()


class _Stopped(Exception):
    """A callback wants no more steps."""


class _Epoch:
    """The executions of an epoch that were not reported yet."""

    def __init__(self, coordinator: ClusterCoordinator, ended: Ended) -> None:
        self._coordinator = coordinator
        self._ended = ended
        self._waiting: deque[tuple[int, list[RemoteValue]]] = deque()
        self._scheduled = 0

    def schedule(
        self, function: Callable[..., Any], last: int, arguments: Sequence[tuple[Any, ...]]
    ) -> None:
        """Schedule the steps of an execution."""
        values = [self._coordinator.schedule(function, args=args) for args in arguments]
        self._waiting.append((last, values))
        self._scheduled += len(values)

    def report(self, wait_while_more_than: int) -> None:
        """Report what has ended, until at most so many steps have not.

        Raises:
            _Stopped: if no more are wanted.
        """
        self._report_ended()
        while self._scheduled > wait_while_more_than:
            self._scheduled = sum(
                not value.ready for _, values in self._waiting for value in values
            )
            if self._scheduled <= wait_while_more_than:
                self._report_ended()
                return
            time.sleep(_LOOK_SECONDS)
            self._coordinator.done()
            self._report_ended()

    def _report_ended(self) -> None:
        while self._waiting and all(value.ready for value in self._waiting[0][1]):
            last, values = self._waiting.popleft()
            if self._ended(last, [value.fetch() for value in values]):
                raise _Stopped


@contextlib.contextmanager
def _cancelled_on_error(coordinator: ClusterCoordinator) -> Iterator[None]:
    """If the block ends early, steps that wait are cancelled, and those that run are waited for."""
    try:
        yield
    except BaseException as error:
        coordinator.queue.fail(error)
        with contextlib.suppress(_Stopped):
            coordinator.join()  # raises the error
            raise


def callback_list(
    model: keras.Model,
    source: Source,
    callbacks: Any,
    verbose: Any,
    epochs: int = 1,
    add_history: bool = False,
) -> Any:
    """Keras's ``CallbackList`` of a user's callbacks; one that is such a list stays as it is."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return callbacks
    return keras.callbacks.CallbackList(
        callbacks,
        add_history=add_history,
        add_progbar=verbose != 0,
        verbose=verbose,
        epochs=epochs,
        steps=source.num_batches,
        model=model,
    )


def loss_logs(results: list[Any]) -> dict[str, float]:
    """What callbacks are told of an execution: the loss of its last batch."""
    return {"loss": float(np.asarray(jax.tree.leaves(results[-1])[0]))}
