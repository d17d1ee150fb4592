"""Synchronous training: the gradients of several workers are summed before an update."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from drumline.distribute.parameter_server.server import requests
from drumline.distribute.parameter_server.server.applied import AppliedPushes
from drumline.distribute.parameter_server.server.exchange import Exchange
from drumline.distribute.parameter_server.server.push import apply_summed
from drumline.distribute.parameter_server.server.requests import (
    RequestError,
    RoundAbandonedError,
    RoundError,
)
from drumline.distribute.parameter_server.wire.codec import Message


@dataclass
class _Round:
    of: int
    mean: bool
    waiting: dict[str, list[tuple[Exchange, Future[Message]]]] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether all of its closures have pushed."""
        return len(self.waiting) == self.of

    def apply(self, applied: AppliedPushes) -> float:
        """Apply what all have pushed, and tell how many seconds it took for each."""
        started = time.perf_counter()
        pushes = [
            (name, push)
            for name in sorted(self.waiting)
            for push in self.waiting[name][0][0].pushes
        ]
        apply_summed(pushes, applied, self.of if self.mean else None)
        return (time.perf_counter() - started) / self.of

    def reply(self, seconds: float) -> None:
        """Reply to all who wait."""
        for exchanges in self.waiting.values():
            for position, (exchange, future) in enumerate(exchanges):
                exchange.note([position == 0] * len(exchange.pushes), seconds)
                _answer(exchange, future, position == 0)

    def fail(self, error: Exception) -> int:
        """Reply with an error to all; how many they are."""
        futures = [future for each in self.waiting.values() for _, future in each]
        for future in futures:
            future.set_exception(error)
        return len(futures)


class Rounds:
    """Exchanges that wait for those of the other workers.

    A round is over when as many closures as it is of have pushed. Then the gradients of each part
    are summed in the order of the closures' names, whenever they came, and applied once. Values are
    added, or assigned, in that order too.

    Args:
        applied: the pushes that were applied before.
    """

    def __init__(self, applied: AppliedPushes) -> None:
        self._applied = applied
        self._lock = threading.Lock()
        self._rounds: dict[int, _Round] = {}
        self._last = -1

    def join(self, exchange: Exchange, sync: dict[str, Any]) -> Future[Message]:
        """Take part in a round; the reply comes when all have.

        Args:
            exchange: it has the name of a closure.
            sync: ``round``, a number that never falls; ``of``, how many closures take part;
                ``mean``, whether the sum is divided by that.

        Raises:
            RequestError: if one of these is missing.
            RoundError: if the round is over, or of another size.
        """
        number, of = requests.field(sync, "round", int), requests.field(sync, "of", int)
        mean = bool(sync.get("mean", False))
        if exchange.closure is None or of < 1:
            raise RequestError(
                f"A synchronous push is of round {number} of {of} closures and of the closure "
                f"{exchange.closure!r}; it needs a closure's name, and a round of at least one."
            )
        future: Future[Message] = Future()
        with self._lock:
            if exchange.was_applied or (self._is_over(number) and not exchange.pushes):
                _answer(exchange, future, False)
                return future
            current = self._joined(number, of, mean, exchange.closure)
            was_complete = current.is_complete
            current.waiting.setdefault(exchange.closure, []).append((exchange, future))
        if current.is_complete and not was_complete:
            self._finish(number, current)
        return future

    def _finish(self, number: int, current: _Round) -> None:
        error: Exception | None = None
        seconds = 0.0
        try:
            seconds = current.apply(self._applied)
        except Exception as raised:
            error = raised
        with self._lock:
            self._rounds.pop(number, None)
            if error is None:
                self._last = max(self._last, number)
        # Nobody else joins it now.
        if error is None:
            current.reply(seconds)
        else:
            current.fail(error)

    def abandon(self, number: int, is_over: bool = False) -> int:
        """End a round without an update, as some of its closures will not come.

        Args:
            number: the round's.
            is_over: whether what is still on its way to the round is refused, too.

        Returns:
            How many exchanges waited; they fail with `RoundAbandonedError`.
        """
        with self._lock:
            found = self._rounds.get(number)
            if found is not None and found.is_complete:
                return 0
            if is_over:
                self._last = max(self._last, number)
            if found is None:
                return 0
            del self._rounds[number]
        return found.fail(
            RoundAbandonedError(
                f"Round {number} was abandoned when {len(found.waiting)} of its {found.of} "
                "closures had pushed. Nothing of it was applied; push again, in a round of those "
                "that are there."
            )
        )

    def reset(self) -> None:
        """Abandon all rounds, and let their numbers start again."""
        for number in list(self._rounds):
            self.abandon(number)
        self._last = -1

    def _is_over(self, number: int) -> bool:
        return number <= self._last and number not in self._rounds

    def _joined(self, number: int, of: int, mean: bool, closure: str) -> _Round:
        known = self._rounds.get(number)
        is_full = known is not None and known.is_complete and closure not in known.waiting
        if self._is_over(number) or is_full:
            raise RoundError(
                f"Round {number} is over without the closure {closure!r}. Push in a later round."
            )
        current = self._rounds.setdefault(number, _Round(of, mean))
        if (current.of, current.mean) != (of, mean):
            raise RoundError(
                f"Round {number} is of {current.of} closures with mean={current.mean}; this push "
                f"is for one of {of} with mean={mean}. All must agree."
            )
        return current


def _answer(exchange: Exchange, future: Future[Message], applied: bool) -> None:
    try:
        future.set_result(exchange.reply([applied] * len(exchange.pushes)))
    except Exception as error:
        future.set_exception(error)
