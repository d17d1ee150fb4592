"""What workers ask for at every step: pushes, then rows and values.

`PushPullHandler` checks a request, applies its pushes and reads what it asks for; rows of tables
are read with all their locks held, so a worker sees all of a push or nothing of it. In
asynchronous training it runs in the thread of the worker's connection and answers at once.

`SyncBarrier` makes those of a synchronous round wait: when as many closures have pushed as the
round is of, the last one's thread applies the sums and answers all. A round is open, complete, or
over; an abandoned one has changed nothing. `Stats` counts what was done.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

import numpy as np

from drumline._core import TableRows
from drumline.distribute.parameter_server.errors import (
    RequestError,
    RoundAbandonedError,
    RoundError,
    ShardMismatchError,
)
from drumline.distribute.parameter_server.server.dense_shard import DenseShard
from drumline.distribute.parameter_server.server.embedding_shard import EmbeddingShard
from drumline.distribute.parameter_server.server.embedding_shard import gather as gather_tables
from drumline.distribute.parameter_server.server.push import (
    CheckedPush,
    PushLog,
    RequestArrays,
    apply_once,
    apply_summed,
    checked_pushes,
)
from drumline.distribute.parameter_server.server.shard import ServerShard, locked
from drumline.distribute.parameter_server.wire.codec import Message
from drumline.distribute.parameter_server.wire.messages import (
    GatherRows,
    PushPull,
    PushPullReply,
    SyncRound,
)
from drumline.distribute.parameter_server.wire.schema import reply_of

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.server.parameter_server import ServerShards


class Stats:
    """Counts since the server started. Times are in seconds, waiting for locks included."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._seconds: dict[str, float] = {"push": 0.0, "read": 0.0}

    def pushed(
        self, pushes: Sequence[CheckedPush], applied: Sequence[bool], seconds: float
    ) -> None:
        """Note pushes, and which of them were applied."""
        with self._lock:
            for push, now in zip(pushes, applied, strict=True):
                self._counts["pushes" if now else "repeated_pushes"] += 1
                self._counts["bytes_in"] += push.value.nbytes
                if now and push.rows is not None:
                    self._counts["rows_updated"] += len(push.rows)
            self._seconds["push"] += seconds

    def read(self, rows: int, arrays: Sequence[np.ndarray], seconds: float) -> None:
        """Note an exchange's reply."""
        with self._lock:
            self._counts["exchanges"] += 1
            self._counts["rows_gathered"] += rows
            self._counts["bytes_out"] += sum(array.nbytes for array in arrays)
            self._seconds["read"] += seconds

    def counts(self) -> dict[str, int]:
        """All counts, by name."""
        names = ("exchanges", "pushes", "repeated_pushes", "rows_gathered", "rows_updated")
        with self._lock:
            return {name: self._counts[name] for name in (*names, "bytes_in", "bytes_out")}

    def seconds(self) -> dict[str, float]:
        """The times, by name."""
        with self._lock:
            return dict(self._seconds)


@dataclasses.dataclass(frozen=True)
class _CheckedGather:
    """Rows that are wanted."""

    shard: EmbeddingShard
    rows: TableRows


@dataclasses.dataclass(frozen=True)
class _CheckedPull:
    """A value that is wanted, unless it is still of the version that the worker has."""

    shard: ServerShard
    version: int | None


class PushPullHandler:
    """One request, whose every name, shape and id was checked before anything is changed.

    Args:
        request: from a worker.
        shards: the server's.
        push_log: the pushes that were applied before.
        stats: counts what is done.

    Raises:
        Any of `errors` that is a server's, if the request cannot be served.
    """

    def __init__(
        self, request: PushPull, shards: ServerShards, push_log: PushLog, stats: Stats
    ) -> None:
        arrays = RequestArrays(request.arrays)
        self.closure = request.closure
        self._lane = request.lane
        self._push_log = push_log
        self._stats = stats
        self.pushes = checked_pushes(request.push, arrays, shards)
        self._gathers = [_gather(entry, arrays, shards) for entry in request.gather]
        self._pulls = [_CheckedPull(shards.get(each.name), each.version) for each in request.pull]
        arrays.end()

    @property
    def was_applied(self) -> bool:
        """Whether all of its pushes, of which there are some, were applied before."""
        keys = [(push.shard.name, push.ordinal) for push in self.pushes]
        return bool(keys) and all(self._push_log.which(str(self.closure), keys))

    def apply(self) -> list[bool]:
        """Apply the pushes, once; say for each whether it was now."""
        started = time.perf_counter()
        applied = apply_once(self.pushes, self.closure, self._push_log)
        self.note(applied, time.perf_counter() - started)
        return applied

    def note(self, applied: Sequence[bool], seconds: float) -> None:
        """Count the pushes, and how long they took."""
        self._stats.pushed(self.pushes, applied, seconds)

    def reply(self, applied: Sequence[bool]) -> PushPullReply:
        """The rows and values that were asked for, as they are now."""
        started = time.perf_counter()
        arrays = self._gathered()
        versions, changed = [], []
        for pull in self._pulls:
            with pull.shard.lock:
                versions.append(pull.shard.version)
                changed.append(pull.shard.version != pull.version)
                if changed[-1]:
                    arrays.append(self._pulled(pull.shard))
        self._stats.read(self._gathers_rows, arrays, time.perf_counter() - started)
        return PushPullReply(
            applied=tuple(applied),
            versions=tuple(versions),
            changed=tuple(changed),
            values=tuple(arrays),
        )

    @property
    def _gathers_rows(self) -> int:
        return sum(len(gather.rows) for gather in self._gathers)

    def _pulled(self, shard: ServerShard) -> np.ndarray:
        if isinstance(shard, DenseShard) and self._lane is not None:
            return shard.pull(self._lane.shared)
        return shard.read(0, shard.rows)

    def _gathered(self) -> list[np.ndarray]:
        lane = self._lane
        forms = [((len(g.rows), *g.shard.shape[1:]), g.shard.dtype) for g in self._gathers]
        outs = [np.empty(*form) for form in forms] if lane is None else lane.empties(forms)
        with locked(gather.shard for gather in self._gathers):
            gather_tables(
                [(g.shard, g.rows, out) for g, out in zip(self._gathers, outs, strict=True)]
            )
        return outs


def _gather(entry: GatherRows, arrays: RequestArrays, shards: ServerShards) -> _CheckedGather:
    shard = shards.get(entry.name)
    ids = arrays.take_ids(entry.ids, f"the ids of the rows of {entry.name!r}")
    if not isinstance(shard, EmbeddingShard):
        raise ShardMismatchError(
            f"Rows were asked for of the shard {entry.name!r}, which is no table. Pull its value."
        )
    return _CheckedGather(shard, shard.checked(ids))


@dataclasses.dataclass
class _Round:
    of: int
    mean: bool
    waiting: dict[str, list[tuple[PushPullHandler, Future[Message]]]] = dataclasses.field(
        default_factory=dict
    )

    @property
    def is_complete(self) -> bool:
        """Whether all of its closures have pushed."""
        return len(self.waiting) == self.of

    def apply(self, push_log: PushLog) -> float:
        """Apply what all have pushed, and tell how many seconds it took for each."""
        started = time.perf_counter()
        pushes = [
            (name, push)
            for name in sorted(self.waiting)
            for push in self.waiting[name][0][0].pushes
        ]
        apply_summed(pushes, push_log, self.of if self.mean else None)
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


class SyncBarrier:
    """Exchanges that wait for those of the other workers.

    A round is over when as many closures as it is of have pushed. Then the gradients of each shard
    are summed in the order of the closures' names, whenever they came, and applied once. Values are
    added, or assigned, in that order too.

    Args:
        push_log: the pushes that were applied before.
    """

    def __init__(self, push_log: PushLog) -> None:
        self._push_log = push_log
        self._lock = threading.Lock()
        self._rounds: dict[int, _Round] = {}
        self._last = -1

    def join(self, exchange: PushPullHandler, sync: SyncRound) -> Future[Message]:
        """Take part in a round; the reply comes when all have.

        Args:
            exchange: it has the name of a closure.
            sync: the round.

        Raises:
            RequestError: if the closure has no name, or the round is of none.
            RoundError: if the round is over, or of another size.
        """
        number, of, mean = sync.round, sync.of, sync.mean
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
            seconds = current.apply(self._push_log)
        except Exception as raised:
            error = raised
        with self._lock:
            self._rounds.pop(number, None)
            if error is None:
                self._last = max(self._last, number)
        # No closure can join it now.
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


def _answer(exchange: PushPullHandler, future: Future[Message], applied: bool) -> None:
    try:
        future.set_result(reply_of(exchange.reply([applied] * len(exchange.pushes))))
    except Exception as error:
        future.set_exception(error)
