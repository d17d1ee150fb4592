"""What the chief can ask of a worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from drumline.distribute.input.options import InputContext
from drumline.distribute.parameter_server.errors import (
    ParameterServerLostError,
    RequestError,
    UnknownSessionError,
)
from drumline.distribute.parameter_server.servers import Servers
from drumline.distribute.parameter_server.wire import Connection, Handler, Message
from drumline.distribute.parameter_server.wire.messages import (
    BeginWorkerSession,
    ClosureResult,
    ClosureResults,
    CreateDataset,
    CreateIterator,
    Done,
    ForgetResources,
    LoadProgram,
    ReadIdentity,
    ReadWorkerTimes,
    ResumeClosures,
    RunClosures,
    WorkerSessionBegun,
    WorkerTimes,
)
from drumline.distribute.parameter_server.wire.schema import handlers_of, reply_of
from drumline.distribute.parameter_server.worker.datasets import Datasets, received
from drumline.distribute.parameter_server.worker.pipeline import NotReachedError, Pipeline
from drumline.distribute.parameter_server.worker.step import (
    Functions,
    ReceivedClosure,
)

# The chief has reached the servers before it sends anything that needs them.
_SERVERS_SECONDS = 15.0
_AGAIN_SECONDS = 2.0
_REST_SECONDS = 5.0


class CoordinatorSession:
    """What one chief has made here. A chief that starts again begins a new one."""

    def __init__(self, name: str, servers: Callable[[str], Servers], worker: int) -> None:
        self.name = name
        self.functions = Functions()
        self.datasets = Datasets()
        self.pipeline = Pipeline(servers, self.functions, self.datasets, worker)

    def close(self) -> None:
        """End its thread, when what it has begun is done, and its datasets."""
        self.pipeline.close()
        self.datasets.close()


class Worker:
    """One worker's task.

    Args:
        task_index: its number.
        server_addresses: of the parameter servers.
        connector: gives, for a time limit, what connects to an address.
    """

    def __init__(
        self,
        task_index: int,
        server_addresses: Sequence[str],
        connector: Callable[[float], Callable[[str], Connection]],
    ) -> None:
        self._task_index = task_index
        self._addresses = list(server_addresses)
        self._connector = connector
        self._lanes: dict[str, Servers] = {}
        self._identities: dict[int, str] = {}
        self._not_reached: tuple[float, NotReachedError] | None = None
        self._session: CoordinatorSession | None = None
        self._lock = threading.Lock()

    def handlers(self) -> Mapping[str, Handler]:
        """What can be asked, by operation."""
        return handlers_of(
            {
                BeginWorkerSession: self._begin,
                CreateDataset: self._dataset,
                CreateIterator: self._iterator,
                LoadProgram: self._program,
                RunClosures: self._run,
                ResumeClosures: self._resume,
                ForgetResources: self._forget,
                ReadWorkerTimes: self._times,
            }
        )

    def close(self) -> None:
        """End the worker's thread and its connections."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()
        for servers in self._lanes.values():
            servers.close()

    def _begin(self, request: BeginWorkerSession) -> WorkerSessionBegun:
        with self._lock:
            if self._session is None or self._session.name != request.session:
                former, self._session = self._session, self._new_session(request.session)
                if former is not None:
                    former.close()
        return WorkerSessionBegun(worker=self._task_index)

    def _new_session(self, name: str) -> CoordinatorSession:
        return CoordinatorSession(name, self._connected, self._task_index)

    def _dataset(self, request: CreateDataset) -> Done:
        context = InputContext(request.workers, self._task_index, 1)
        make = received(request, context)
        self._of(request.session).datasets.make(request.dataset, make)
        return Done()

    def _iterator(self, request: CreateIterator) -> Done:
        self._of(request.session).datasets.iterate(request.iterator, request.dataset)
        return Done()

    def _program(self, request: LoadProgram) -> Done:
        session = self._of(request.session)
        if len(request.states) != len(request.state):
            raise RequestError(
                f"The request {request.operation!r} brings {len(request.states)} states of random "
                f"generators, and names {len(request.state)}."
            )
        states = zip(request.state, map(np.array, request.states), strict=True)
        # Before the program: closures that wait for it run as soon as it is there.
        session.pipeline.set_state(dict(states))
        session.functions.add(
            request.function,
            request.signature,
            request.program.tobytes(),
            request.layouts,
            request.updates,
        )
        return Done()

    def _run(self, request: RunClosures) -> Future[Message]:
        session = self._of(request.session)
        if sum(each.arrays for each in request.closures) != len(request.arguments):
            raise RequestError(
                f"The request {request.operation!r} brings {len(request.arguments)} arrays; its "
                f"closures have {sum(each.arrays for each in request.closures)}."
            )
        arrays = iter(request.arguments)
        closures = [
            ReceivedClosure(
                name=each.name,
                function=each.function,
                iterators=each.iterators,
                arguments=[np.array(next(arrays)) for _ in range(each.arrays)],
                round=each.round,
            )
            for each in request.closures
        ]
        return self._submit(session, closures)

    def _resume(self, request: ResumeClosures) -> Future[Message]:
        session = self._of(request.session)
        closures = [session.functions.release(name) for name in request.closures]
        for closure in closures:
            closure.iterators = request.iterators[closure.name]
        return self._submit(session, closures)

    def _forget(self, request: ForgetResources) -> Done:
        session = self._of(request.session)
        session.datasets.forget(request.datasets, request.iterators)
        session.functions.forget(request.functions)
        return Done()

    def _times(self, request: ReadWorkerTimes) -> WorkerTimes:
        times = self._of(request.session).pipeline.times
        return WorkerTimes(
            steps=times.steps,
            drawing=times.drawing,
            computing=times.computing,
            pulling=times.pulling,
            pushing=times.pushing,
        )

    def _submit(
        self, session: CoordinatorSession, closures: list[ReceivedClosure]
    ) -> Future[Message]:
        answer: Future[Message] = Future()
        left = threading.Semaphore(len(closures) - 1)

        def one(_: Any) -> None:
            if not left.acquire(blocking=False):
                answer.set_result(_joined([closure.answer.result() for closure in closures]))

        for closure in closures:
            closure.answer = Future()
        for closure in closures:
            closure.answer.add_done_callback(one)
        for closure in closures:
            session.pipeline.submit(closure)
        return answer

    def _of(self, name: str) -> CoordinatorSession:
        session = self._session
        if session is None or session.name != name:
            raise UnknownSessionError(
                f"worker:{self._task_index} was started again, or serves another chief, and has "
                "none of this one's functions and datasets."
            )
        return session

    def _connected(self, lane: str) -> Servers:
        """The servers by one lane; a broken connection is made again, if the server is there."""
        if self._not_reached is not None:
            at, lost = self._not_reached
            if time.monotonic() < at + _REST_SECONDS:
                # The steps that wait would each try as long, in turn.
                raise NotReachedError(lost.task_index, lost.address, lost.reason)
            self._not_reached = None
        try:
            if lane not in self._lanes:
                self._lanes[lane] = self._connected_first()
            servers = self._lanes[lane]
            for server in servers.lost:
                servers.connect_again(server, self._connector(_AGAIN_SECONDS))
                self._require_same(servers, server)
        except ParameterServerLostError as error:
            lost = NotReachedError(error.task_index, error.address, error.reason)
            self._not_reached = (time.monotonic(), lost)
            raise lost from error
        return servers

    def _connected_first(self) -> Servers:
        servers = Servers(self._connector(_SERVERS_SECONDS), self._addresses)
        for server in range(len(servers)):
            self._require_same(servers, server)
        return servers

    def _require_same(self, servers: Servers, server: int) -> None:
        """Make sure that this is the server of before, and not a new one at its address."""
        identity = servers.ask(server, ReadIdentity()).identity
        if self._identities.setdefault(server, identity) != identity:
            servers.disconnect(server)
            reason = "it was started again, and keeps nothing"
            raise ParameterServerLostError(server, self._addresses[server], reason)


def _joined(answers: Sequence[tuple[ClosureResult, list[np.ndarray]]]) -> Message:
    """One reply with the results of several closures."""
    for result, arrays in answers:
        result.arrays = len(arrays)
    values = tuple([array for _, arrays in answers for array in arrays])
    return reply_of(ClosureResults(closures=tuple([each for each, _ in answers]), values=values))
