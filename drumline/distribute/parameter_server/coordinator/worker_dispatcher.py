"""One worker as the chief sees it: reached, given closures, lost, and reached again.

Each `WorkerDispatcher` has a thread. It connects, replays the commands, and then takes closures
from the queue whenever the worker has fewer waiting than `AdaptiveWindow` wants: enough for about
10 ms, so that short steps travel by the hundred and a slow worker leaves the rest to others.
Replies come in the connection's reader thread, which ends closures and never waits.

A worker is lost when its connection ends: its closures go back to the queue, and the thread tries
to reach it again, with one warning (`UnreachableWarning`) if that takes long. A closure is ended
once: whoever removes it from those that run, under the lock, ends it.

Where the coordinator continues at the end of datasets, a worker whose own has ended gives its
closures back and takes no more, until it is to iterate again.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np

from drumline._lost_process import LostProcess
from drumline.distribute.parameter_server.coordinator.commands import MakeCommand, WorkerSession
from drumline.distribute.parameter_server.coordinator.function import ScheduledFunction
from drumline.distribute.parameter_server.coordinator.scheduling import ScheduledClosure
from drumline.distribute.parameter_server.errors import (
    ClosureError,
    OutOfRangeError,
    ParameterServerLostError,
    UnknownSessionError,
)
from drumline.distribute.parameter_server.servers import call, finish
from drumline.distribute.parameter_server.wire import (
    CallTimeoutError,
    Connection,
    Message,
    PeerUnavailableError,
    RemoteError,
)
from drumline.distribute.parameter_server.wire.messages import (
    ClosureFailure,
    ClosureResults,
    ReadWorkerTimes,
    ResumeClosures,
    RunClosures,
    Signature,
    WorkerTimes,
)
from drumline.distribute.parameter_server.wire.schema import decode, encode_request

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.coordinator.cluster_coordinator import (
        ClusterCoordinator,
    )


class UnreachableWarning:
    """How long a worker was not reached; a warning names it, once.

    Args:
        worker: its name.
        address: where it listens.
        seconds: after which to warn.
    """

    def __init__(self, worker: str, address: str, seconds: float) -> None:
        self._worker = worker
        self._address = address
        self._seconds = seconds
        self._since: float | None = None
        self._told = False

    def note(self, reason: str) -> None:
        """It was not reached just now."""
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since >= self._seconds and not self._told:
            self._told = True
            lost = LostProcess(self._worker, reason, self._address)
            _log.warning(
                lost.report(
                    f"It was not reached for {now - self._since:.0f} s",
                    "It is tried again and again; meanwhile the others run all closures, if there "
                    "are any",
                )
            )

    def over(self) -> None:
        """It was reached."""
        self._since, self._told = None, False


FEWEST = 3
PIPELINED = 5
"""One whose gradients are on their way, one that computes, one that has its rows, one that asks for
them in the message with those gradients, and one between the chief and the worker."""

MOST = 512
_ON_HAND_SECONDS = 0.01
_PIPELINED_SECONDS = 0.1
_WEIGHT = 0.2


class AdaptiveWindow:
    """Keeps a worker busy for about 10 ms: few closures of long steps, many of short ones.

    Steps that are not long get as many as it takes to ask for rows without a message for that
    alone, if they are done within 100 ms. A worker that is slow is given few, so that the others
    run the rest.
    """

    def __init__(self) -> None:
        self._seconds = _ON_HAND_SECONDS
        self._last = time.monotonic()

    @property
    def on_hand(self) -> int:
        """How many closures the worker is to have."""
        seconds = max(self._seconds, 1e-7)
        pipelined = min(PIPELINED, int(_PIPELINED_SECONDS / seconds))
        return max(FEWEST, pipelined, min(MOST, int(_ON_HAND_SECONDS / seconds)))

    @property
    def at_once(self) -> int:
        """How many closures to give in one message.

        It is answered as a whole: several smaller ones keep the worker busy, very small ones cost.
        """
        return max(1, self.on_hand // 3)

    def started(self) -> None:
        """The worker gets closures after it had none."""
        self._last = time.monotonic()

    def finished(self, closures: int) -> None:
        """The worker has run so many more."""
        now = time.monotonic()
        each = (now - self._last) / closures
        self._last = now
        self._seconds += _WEIGHT * (each - self._seconds)


_log = logging.getLogger("drumline")

_IDLE_SECONDS = 0.5
_RETRY_SECONDS = 1.0


class WorkerDispatcher:
    """Gives closures to one worker, from a thread of its own.

    When the worker is lost its closures go back to the queue, for other workers. The thread then
    tries to reach it again, and has it make its datasets again.

    Args:
        coordinator: whose closures to run.
        index: the worker's number.
        connect: connects to it, waiting at most the given number of seconds.
    """

    def __init__(
        self, coordinator: ClusterCoordinator, index: int, connect: Callable[[float], Connection]
    ) -> None:
        self.index = index
        self._address = coordinator.strategy.worker_addresses[index]
        self.completed = 0
        self.lost = 0
        self._coordinator = coordinator
        self._connect = connect
        self._reached: WorkerSession | None = None
        self._running: dict[str, ScheduledClosure] = {}
        self._room = threading.Condition()
        self._pace = AdaptiveWindow()
        self.at_end = False
        self._absence = UnreachableWarning(
            f"worker:{index}", self._address, coordinator.strategy.timeout_seconds
        )
        self._lost: BaseException | None = None
        self._thread = threading.Thread(
            target=self._serve, name=f"drumline worker:{index}", daemon=True
        )
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread, after the queue was stopped."""
        self._thread.join()

    def begin_again(self) -> None:
        """Take closures again: they draw from an iterator that has just begun."""
        with self._room:
            was_at_end, self.at_end = self.at_end, False
            self._room.notify_all()
        if was_at_end and self._reached is not None:
            self._coordinator.queue.present(self.index, True)

    def make(self, make: MakeCommand) -> None:
        """Have the worker make something. If it is not there, it will when it comes."""
        reached = self._reached
        if reached is None or self._lost is not None:
            return
        try:
            reached.send(make(reached.connection))
        except PeerUnavailableError as error:
            self._lose_if(reached, error)

    def times(self, seconds: float) -> WorkerTimes | None:
        """What the worker has done; None if it is not there.

        Args:
            seconds: how long it is waited for.
        """
        reached = self._reached
        if reached is None or self._lost is not None:
            return None
        try:
            request = ReadWorkerTimes(session=self._coordinator.session)
            return call(reached.connection, request, seconds)
        except (
            PeerUnavailableError,
            RemoteError,
            CallTimeoutError,
        ):  # which closures find out as well
            return None

    def forget(self, keys: Collection[Any]) -> None:
        """Have the worker drop what it has made, by the commands' keys."""
        reached = self._reached
        if reached is not None and self._lost is None:
            try:
                reached.forget(keys)
            except PeerUnavailableError as error:
                self._lose_if(reached, error)

    def _serve(self) -> None:
        queue = self._coordinator.queue
        while not queue.stopped:
            reached = self._reached
            if reached is None:
                self._find()
                continue
            room = self._wait_for_room()
            if self._lost is not None:
                self._forget()
                continue
            taken = queue.take(room, _IDLE_SECONDS, self.index)
            if taken:
                self._give(reached, taken)
            del taken  # while this thread waits it keeps nothing of the user's alive
        if self._reached is not None:
            finish(self._reached.connection)

    def _find(self) -> None:
        """Reach the worker, and have it carry out all commands so far."""
        connection = None
        try:
            connection = self._connect(_RETRY_SECONDS)
            reached = WorkerSession(connection, self._coordinator.session)
            reached.begin()
            self._coordinator.commands.replay(reached, functools.partial(self._found, reached))
            return
        except PeerUnavailableError as error:
            self._absence.note(error.reason)
        except Exception as error:  # raised by the chief's next schedule or join
            self._coordinator.refuse(self, error)
            time.sleep(_RETRY_SECONDS)
        if connection is not None:
            connection.close()

    def _found(self, reached: WorkerSession) -> None:
        if self.lost:
            _log.warning("worker:%d is back, and runs closures again.", self.index)
        self._absence.over()
        self.at_end = False  # its datasets begin again
        self._lost = None
        self._reached = reached
        self._coordinator.queue.present(self.index, True)

    def _forget(self) -> None:
        """Give up the connection to a worker that is lost."""
        reached, self._reached = self._reached, None
        with self._room:
            closures, self._running = list(self._running.values()), {}
        self.lost += 1
        lost = self._lost
        seen = lost.reason if isinstance(lost, PeerUnavailableError) else f"it failed: {lost}"
        _log.warning(
            LostProcess(f"worker:{self.index}", seen, self._address).report(
                f"Its {len(closures)} closure(s) run on other workers",
                "It is tried again until it is back",
            )
        )
        self._coordinator.queue.present(self.index, False)
        self._coordinator.queue.give_back(closures)
        if reached is not None:
            reached.connection.close()

    def _lose(self, error: BaseException) -> None:
        with self._room:
            self._lost = error
            self._room.notify_all()

    def _wait_for_room(self) -> int:
        with self._room:
            while self._lost is None and not self._has_room():
                self._room.wait(_IDLE_SECONDS)
                if self._coordinator.queue.stopped:
                    break
            return self._pace.at_once

    def _has_room(self) -> bool:
        on_hand = len(self._running) + self._pace.at_once
        return not self.at_end and on_hand <= self._pace.on_hand

    def _give(self, reached: WorkerSession, closures: list[ScheduledClosure]) -> None:
        with self._room:
            if not self._running:
                self._pace.started()
            self._running.update({closure.name: closure for closure in closures})
        run = RunClosures(
            session=self._coordinator.session,
            closures=tuple([closure.call() for closure in closures]),
            arguments=tuple([array for closure in closures for array in closure.arrays]),
        )
        self._submit(reached, run, closures)

    def _resume(self, reached: WorkerSession, closures: list[ScheduledClosure]) -> None:
        resume = ResumeClosures(
            session=self._coordinator.session,
            closures=tuple(closure.name for closure in closures),
            iterators={closure.name: closure.draws() for closure in closures},
        )
        self._submit(reached, resume, closures)

    def _submit(
        self,
        reached: WorkerSession,
        request: RunClosures | ResumeClosures,
        closures: list[ScheduledClosure],
    ) -> None:
        try:
            future = reached.connection.submit(*encode_request(request))
        except PeerUnavailableError as error:
            self._lose_if(reached, error)
            return
        except Exception as error:  # as of an array that cannot be sent
            self._all_ended(closures, error)
            return
        future.add_done_callback(lambda done: self._answered(reached, done, closures))

    def _lose_if(self, reached: WorkerSession, error: BaseException) -> None:
        """The worker is lost, unless it was found again by another connection meanwhile."""
        if reached is self._reached:
            self._lose(error)

    def _answered(
        self, reached: WorkerSession, future: Future[Message], closures: list[ScheduledClosure]
    ) -> None:
        error = future.exception()
        if isinstance(error, PeerUnavailableError):
            self._lose_if(reached, error)
            return
        if error is not None:
            self._refused(reached, error, closures)
            return
        try:
            self._take(reached, decode(ClosureResults, future.result()), closures)
        except Exception as failure:  # which nothing else would end
            self._all_ended(closures, failure)

    def _take(
        self, reached: WorkerSession, results: ClosureResults, closures: list[ScheduledClosure]
    ) -> None:
        arrays = iter(results.values)
        waiting: dict[tuple[ScheduledFunction, Signature], list[ScheduledClosure]] = {}
        for closure, result in zip(closures, results.closures, strict=True):
            own = [np.array(next(arrays)) for _ in range(result.arrays)]
            if result.needs is not None:
                waiting.setdefault((closure.function, result.needs), []).append(closure)
            elif result.failed is not None and result.failed.kind == "end":
                self._data_ended(closure, self._error_of(result.failed))
            elif result.failed is not None:
                self._ended(closure, self._error_of(result.failed))
            else:
                self._ended(closure, None, own)
        for (function, signature), held in waiting.items():
            self._coordinator.in_background(self._provide, reached, function, signature, held)

    def _refused(
        self, reached: WorkerSession, error: BaseException, closures: list[ScheduledClosure]
    ) -> None:
        """The worker could not even begin, as one that was started again within a moment."""
        if isinstance(error, RemoteError) and error.type_name == UnknownSessionError.__name__:
            self._lose_if(reached, error)
            return
        self._all_ended(closures, error)

    def _provide(
        self,
        reached: WorkerSession,
        function: ScheduledFunction,
        signature: Signature,
        closures: list[ScheduledClosure],
    ) -> None:
        """Send what the worker lacks to run a function on arguments of this signature."""
        if reached is not self._reached:
            return  # others run them
        try:
            for command in function.program(signature):
                reached.send(command)
        except PeerUnavailableError as error:
            self._lose_if(reached, error)
            return
        except Exception as error:  # raised by the chief's next schedule or join
            self._all_ended(closures, error)
            return
        self._resume(reached, closures)

    def _data_ended(self, closure: ScheduledClosure, error: Exception) -> None:
        """The worker has no element for a closure: others may have."""
        if not self._coordinator.continues_at_end:
            self._ended(closure, error)
            return
        with self._room:
            if self._running.pop(closure.name, None) is None:
                return
            self.at_end = True
        self._coordinator.queue.present(self.index, False)
        if self._coordinator.all_at_end():
            closure.result.set_error(error)
            self._coordinator.failed(closure, error)
        else:
            self._coordinator.queue.give_back([closure], lost=False)

    def _all_ended(self, closures: list[ScheduledClosure], error: BaseException) -> None:
        for closure in closures:
            self._ended(closure, error)

    def _ended(
        self,
        closure: ScheduledClosure,
        error: BaseException | None,
        arrays: Sequence[np.ndarray] = (),
    ) -> None:
        with self._room:
            if self._running.pop(closure.name, None) is None:
                return
            self._pace.finished(1)
            if self._has_room():
                self._room.notify_all()
        if error is None:
            try:
                result = closure.function.result(arrays)
            except Exception as failure:  # in how the user's own structure is put together
                error = failure
        if error is not None:
            closure.result.set_error(error)
            self._coordinator.failed(closure, error)
            return
        self.completed += 1
        closure.result.set_value(result)
        self._coordinator.ended(closure)

    def _error_of(self, failure: ClosureFailure) -> Exception:
        if failure.kind == "end":
            return OutOfRangeError(failure.message)
        if failure.kind == "server lost":
            address = failure.address or ""
            server = self._coordinator.strategy.servers.addresses.index(address)
            return ParameterServerLostError(server, address, failure.reason or "")
        return ClosureError(
            f"A scheduled function failed on worker:{self.index}: {failure.type}: "
            f"{failure.message}\n{failure.traceback}"
        )
