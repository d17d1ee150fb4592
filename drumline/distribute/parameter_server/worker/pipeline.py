"""The worker's thread: one step computes while the next one's rows travel."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from drumline._memory import BufferPool
from drumline.distribute.parameter_server.compiler import worker_state
from drumline.distribute.parameter_server.errors import OutOfRangeError, ParameterServerLostError
from drumline.distribute.parameter_server.servers import Servers
from drumline.distribute.parameter_server.wire import Message, PeerUnavailableError
from drumline.distribute.parameter_server.wire.messages import (
    ClosureFailure,
    ClosureResult,
    PushPull,
    SyncRound,
)
from drumline.distribute.parameter_server.worker.datasets import Datasets
from drumline.distribute.parameter_server.worker.step import (
    DenseValues,
    Functions,
    NeedsSignature,
    PushPullRequest,
    ReceivedClosure,
    RunningStep,
)

_LANE = "steps"
_ROUNDS = "rounds"
"""Answers to pushes of a round come late, and must not hold up what other steps ask for."""

_ENDS = "This worker ends, or serves another chief now."

_BUFFERS = 128
"""Of one size, for the rows of as many tables and steps."""

_MOST_BROKEN = 8
"""How often a closure is run again when a connection broke that could be made again."""

AHEAD = 2
"""How many steps have asked for their rows before the first of them computes."""


class NotReachedError(ParameterServerLostError):
    """A connection broke, and cannot be made again."""


@dataclasses.dataclass
class StepTimes:
    """What the steps of a worker took, in seconds; see `WorkerTimes`."""

    steps: int = 0
    drawing: float = 0.0
    computing: float = 0.0
    pulling: float = 0.0
    pushing: float = 0.0


class InFlightStep:
    """A step that has asked for what it needs."""

    def __init__(
        self, step: RunningStep, replies: list[tuple[int, PushPullRequest, Future[Message]]]
    ) -> None:
        self.step = step
        self.replies = replies


class Pipeline:
    """Runs closures sequentially, in the order in which they come.

    The message that pushes a step's gradients also asks for the rows of the step after the next.

    Args:
        servers: the connections to the parameter servers, of a lane of the given name.
        functions: what closures run.
        datasets: from which they draw.
        worker: the number of this worker, by which its random draws differ from the others'.

    Attributes:
        times: what the steps so far took.
    """

    def __init__(
        self,
        servers: Callable[[str], Servers],
        functions: Functions,
        datasets: Datasets,
        worker: int,
    ) -> None:
        self._worker = worker
        self._connect = servers
        self._functions = functions
        self._datasets = datasets
        self._values = DenseValues()
        self._pool = BufferPool(_BUFFERS)
        self._state: dict[str, Any] = {}
        self._closures: queue.SimpleQueue[ReceivedClosure | None] = queue.SimpleQueue()
        self._asked: deque[InFlightStep] = deque()
        self._closing = False
        self.times = StepTimes()
        self._thread = threading.Thread(target=self._run, name="drumline worker", daemon=True)
        self._thread.start()

    def submit(self, closure: ReceivedClosure) -> None:
        """Run a closure when those before it have run."""
        self._closures.put(closure)

    def set_state(self, state: dict[str, Any]) -> None:
        """Give the random generators that have none yet their first state."""
        for key, value in state.items():
            if key not in self._state:
                self._state[key] = worker_state(value, self._worker)

    def close(self) -> None:
        """End the thread when what it has begun is done; what it has not fails."""
        self._closing = True
        self._closures.put(None)
        self._thread.join()
        with contextlib.suppress(queue.Empty):
            while True:  # what a connection that broke meanwhile has left
                if closure := self._closures.get(block=False):
                    fail(closure, RuntimeError(_ENDS))

    def _run(self) -> None:
        while True:
            while len(self._asked) < AHEAD:
                step = self._next(wait=not self._asked)
                if step is None:
                    break
                self._ask(step)
            if not self._asked:
                return
            self._compute(self._asked.popleft())

    def _next(self, wait: bool) -> RunningStep | None:
        """The next closure with its batch drawn; None if there is none, or at the end."""
        while True:
            try:
                closure = self._closures.get(block=wait)
            except queue.Empty:
                return None
            if closure is None:
                self._closures.put(None)
                return None
            if self._closing:
                fail(closure, RuntimeError(_ENDS))
                continue
            try:
                return self._drawn(closure)
            except NeedsSignature as needs:
                self._functions.hold(closure)
                closure.answer.set_result((ClosureResult(needs=needs.signature), []))
            except Exception as error:  # sent to the chief, which raises it
                fail(closure, error)

    def _drawn(self, closure: ReceivedClosure) -> RunningStep:
        began = time.perf_counter()
        leaves = closure.draw(self._datasets.draw)
        self.times.drawing += time.perf_counter() - began
        step = RunningStep(closure, self._functions.get(closure.function, leaves), leaves)
        if step.ids_are_known_early:
            step.look_up(self._values, self._state, self._pool)
        return step

    def _exchanges(self, lane: str = _LANE) -> dict[int, PushPullRequest]:
        servers = self._connect(lane)
        return {
            server: PushPullRequest(functools.partial(servers.empties, server))
            for server in range(len(servers))
        }

    def _ask(self, step: RunningStep) -> None:
        try:
            exchanges = self._exchanges()
            self._add(step, exchanges)
            self._asked.append(InFlightStep(step, self._send(exchanges, None)))
        except Exception as error:  # sent to the chief, which raises it
            self._failed(step.closure, error)

    def _add(self, step: RunningStep, exchanges: dict[int, PushPullRequest]) -> None:
        step.ask_values(exchanges, self._values)
        if step.ids_are_known_early:
            step.ask_rows(exchanges)

    def _look_up_late(self, step: RunningStep) -> None:
        step.look_up(self._values, self._state, self._pool)
        exchanges = self._exchanges()
        step.ask_rows(exchanges)
        self._receive(self._send(exchanges, None))

    def _send(
        self, exchanges: dict[int, PushPullRequest], pushed: ReceivedClosure | None
    ) -> list[tuple[int, PushPullRequest, Future[Message]]]:
        name = None if pushed is None else pushed.name
        servers = self._connect(_LANE)
        began = time.perf_counter()
        try:
            return [
                (server, each, servers.submit(server, each.message(name)))
                for server, each in exchanges.items()
                if each
            ]
        finally:
            self.times.pushing += time.perf_counter() - began

    def _receive(self, replies: list[tuple[int, PushPullRequest, Future[Message]]]) -> None:
        began = time.perf_counter()
        for server, exchange, future in replies:
            exchange.take(self._connect(_LANE).result(server, PushPull(), future))
        self.times.pulling += time.perf_counter() - began

    def _compute(self, asked: InFlightStep) -> None:
        closure = asked.step.closure
        following: RunningStep | None = None
        try:
            self._receive(asked.replies)
            if not asked.step.ids_are_known_early:
                self._look_up_late(asked.step)
            began = time.perf_counter()
            outputs = asked.step.run(self._values, self._state)
            started = time.perf_counter()
            following = self._next(wait=False)
            exchanges = self._exchanges(_LANE if closure.round is None else _ROUNDS)
            left = time.perf_counter()
            results = asked.step.push(outputs, exchanges, self._state)
            self.times.computing += started - began + time.perf_counter() - left
            self.times.steps += 1
        except Exception as error:  # sent to the chief, which raises it
            self._failed(closure, error)
            if following is not None:
                self._ask(following)
            return
        if closure.round is not None:
            self._push_in_round(closure, results, exchanges)
            if following is not None:
                self._ask(following)
            return
        try:
            if following is not None:
                self._add(following, exchanges)
            replies = self._send(exchanges, closure)
        except Exception as error:  # sent to the chief, which raises it
            self._failed(closure, error)
            if following is not None:
                self._failed(following.closure, error)
            return
        if following is not None:
            self._asked.append(InFlightStep(following, replies))
        Completion(closure, results, [future for _, _, future in replies], self._failed)

    def _push_in_round(
        self,
        closure: ReceivedClosure,
        results: list[np.ndarray],
        exchanges: dict[int, PushPullRequest],
    ) -> None:
        """Push to every server: each waits for all closures of the round before it answers."""
        assert closure.round is not None
        number, size = closure.round
        sync = SyncRound(round=number, of=size, mean=True)
        try:
            servers = self._connect(_ROUNDS)
            replies = [
                servers.submit(server, each.message(closure.name, sync))
                for server, each in exchanges.items()
            ]
        except Exception as error:  # sent to the chief, which raises it
            self._failed(closure, error)
            return
        Completion(closure, results, replies, self._failed)

    def _failed(self, closure: ReceivedClosure, error: Exception) -> None:
        """A closure failed. If its connection to a server broke, it is run again, on a new one.

        It has its batch still, so no part of a variable gets another one's; the servers know what
        they have applied of it.
        """
        may_be_there = is_lost(error) and not isinstance(error, NotReachedError)
        if may_be_there and closure.broken < _MOST_BROKEN and not self._closing:
            closure.broken += 1
            self._closures.put(closure)
        else:
            fail(closure, error)


class Completion:
    """Answers for a closure when all servers have taken its pushes.

    Args:
        closure: the run.
        results: what it returns.
        replies: of the servers, to come.
        failed: called with the first error among them.
    """

    def __init__(
        self,
        closure: ReceivedClosure,
        results: list[np.ndarray],
        replies: list[Future[Message]],
        failed: Callable[[ReceivedClosure, Exception], None],
    ) -> None:
        self._failed = failed
        self._has_failed = False
        self._closure = closure
        self._results = results
        self._left = len(replies)
        self._lock = threading.Lock()
        if not replies:
            closure.answer.set_result((ClosureResult(), results))
        for future in replies:
            future.add_done_callback(self._one)

    def _one(self, future: Future[Message]) -> None:
        error = future.exception()
        with self._lock:
            self._left -= 1
            last = self._left == 0
            had_failed, self._has_failed = self._has_failed, self._has_failed or error is not None
        if had_failed:
            return
        if isinstance(error, Exception):
            self._failed(self._closure, error)
        elif last:
            self._closure.answer.set_result((ClosureResult(), self._results))


def is_lost(error: Exception) -> bool:
    """Whether the connection to a server has ended."""
    return isinstance(error, (ParameterServerLostError, PeerUnavailableError))


def fail(closure: ReceivedClosure, error: Exception) -> None:
    """Send the chief that a closure failed."""
    if closure.answer.done():
        return
    kind = "error"
    if isinstance(error, OutOfRangeError):
        kind = "end"
    elif is_lost(error):
        kind = "server lost"
    failure = ClosureFailure(
        kind=kind,
        type=type(error).__name__,
        message=str(error),
        traceback="".join(traceback.format_exception(error)),
        address=getattr(error, "address", None),
        reason=getattr(error, "reason", None),
    )
    closure.answer.set_result((ClosureResult(failed=failure), []))
