"""Going through the steps of an epoch: scheduled ahead, reported as they end."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from drumline.distribute.parameter_server.coordinator import ClusterCoordinator, RemoteValue
from drumline.keras.parameter_server.sources import Source
from drumline.keras.parameter_server.steps import Steps

_LOOK_SECONDS = 0.001

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
    function = source.function(steps)
    most = source.outstanding_per_worker * coordinator.strategy.num_workers
    waiting: deque[tuple[int, list[RemoteValue]]] = deque()

    def report() -> bool:
        stop = False
        while waiting and all(value.ready for value in waiting[0][1]):
            last, values = waiting.popleft()
            stop |= ended(last, [value.fetch() for value in values])
        return stop

    def outstanding() -> int:
        return sum(not value.ready for _, values in waiting for value in values)

    def schedule() -> None:
        scheduled = 0
        for first, last, arguments in source.epoch():
            began(first)
            values = [coordinator.schedule(function, args=args) for args in arguments]
            waiting.append((last, values))
            scheduled += len(values)
            if report():
                return
            if scheduled >= most:
                scheduled = outstanding()
                while scheduled >= most:
                    time.sleep(_LOOK_SECONDS)
                    coordinator.done()
                    scheduled = outstanding()

    with _cancelled_on_error(coordinator):
        schedule()
        coordinator.join()
        report()


@contextlib.contextmanager
def _cancelled_on_error(coordinator: ClusterCoordinator) -> Iterator[None]:
    """If the block fails, steps that wait are cancelled, and those that run are waited for."""
    try:
        yield
    except BaseException as error:
        coordinator.queue.fail(error)
        coordinator.join()  # raises it
        raise


def loss_logs(results: list[Any]) -> dict[str, float]:
    """What callbacks are told of an execution: the loss of its last batch."""
    return {"loss": float(np.asarray(jax.tree.leaves(results[-1])[0]))}
