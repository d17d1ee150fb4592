"""What the chief can ask of a worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from drumline.distribute.input import InputContext
from drumline.distribute.parameter_server.errors import ParameterServerLostError
from drumline.distribute.parameter_server.servers import Servers
from drumline.distribute.parameter_server.wire import Connection, Handler, Message
from drumline.distribute.parameter_server.worker import datasets
from drumline.distribute.parameter_server.worker.datasets import Datasets
from drumline.distribute.parameter_server.worker.pipeline import NotReachedError, Pipeline
from drumline.distribute.parameter_server.worker.step import (
    Functions,
    ReceivedClosure,
    signature_from_json,
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
        """What can be asked, by name."""
        return {
            "begin": self._begin,
            "dataset": self._dataset,
            "iterator": self._iterator,
            "program": self._program,
            "run": self._run,
            "resume": self._resume,
            "forget": self._forget,
        }

    def close(self) -> None:
        """End the worker's thread and its connections."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()
        for servers in self._lanes.values():
            servers.close()

    def _begin(self, request: Message) -> Message:
        """A chief begins: ``{session, state: [names]}`` and the first random states."""
        name = request.header["session"]
        with self._lock:
            if self._session is None or self._session.name != name:
                former, self._session = self._session, self._new_session(name)
                if former is not None:
                    former.close()
        return Message({"worker": self._task_index}, [])

    def _new_session(self, name: str) -> CoordinatorSession:
        return CoordinatorSession(name, self._connected, self._task_index)

    def _dataset(self, request: Message) -> Message:
        """Make a dataset: ``{dataset, workers}`` and the function, or ``local`` in one process."""
        header = request.header
        context = InputContext(header["workers"], self._task_index, 1)
        make = datasets.received(header, request.arrays, context)
        self._of(header).datasets.make(header["dataset"], make)
        return Message({}, [])

    def _iterator(self, request: Message) -> Message:
        header = request.header
        self._of(header).datasets.iterate(header["iterator"], header["dataset"])
        return Message({}, [])

    def _program(self, request: Message) -> Message:
        """Take a program: ``{function, form, layouts, state}``, its bytes, the random states."""
        header = request.header
        session = self._of(header)
        program, *states = request.arrays
        session.functions.add(
            header["function"],
            signature_from_json(header["form"]),
            program.tobytes(),
            header["layouts"],
            header["rules"],
        )
        session.pipeline.set_state(dict(zip(header["state"], map(np.array, states), strict=True)))
        return Message({}, [])

    def _run(self, request: Message) -> Future[Message]:
        """Run closures: ``{closures: [{name, function, iterators, arrays}]}``."""
        session = self._of(request.header)
        arrays = iter(request.arrays)
        closures = [
            ReceivedClosure(
                name=each["name"],
                function=each["function"],
                iterators=[(number, times) for number, times in each["iterators"]],
                arguments=[np.array(next(arrays)) for _ in range(each["arrays"])],
                round=each["round"],
            )
            for each in request.header["closures"]
        ]
        return self._submit(session, closures)

    def _resume(self, request: Message) -> Future[Message]:
        """Run again what waited for a program: ``{closures: [names]}``."""
        session = self._of(request.header)
        closures = [session.functions.release(name) for name in request.header["closures"]]
        for closure in closures:
            closure.iterators = request.header["iterators"][closure.name]
        return self._submit(session, closures)

    def _forget(self, request: Message) -> Message:
        """Let go of what no closure uses: ``{dataset, iterator, function}``, each numbers."""
        header = request.header
        session = self._of(header)
        session.datasets.forget(header["dataset"], header["iterator"])
        session.functions.forget(header["function"])
        return Message({}, [])

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

    def _of(self, header: Mapping[str, Any]) -> CoordinatorSession:
        session = self._session
        if session is None or session.name != header["session"]:
            raise RuntimeError(
                f"worker:{self._task_index} has started anew, or serves another chief, and knows "
                "nothing of this one's functions and datasets."
            )
        return session

    def _connected(self, lane: str) -> Servers:
        """The servers by one lane; a broken connection is made anew, if the server is there."""
        if self._not_reached is not None:
            at, lost = self._not_reached
            if time.monotonic() < at + _REST_SECONDS:
                # The steps that wait would each try as long, one after the other.
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
        identity = servers.ask(server, "identity", {}).header["identity"]
        if self._identities.setdefault(server, identity) != identity:
            servers.disconnect(server)
            reason = "it was started again, and keeps nothing"
            raise ParameterServerLostError(server, self._addresses[server], reason)


def _joined(answers: Sequence[tuple[dict[str, Any], list[np.ndarray]]]) -> Message:
    """One message with the answers of several closures."""
    headers = [{**header, "arrays": len(arrays)} for header, arrays in answers]
    return Message({"closures": headers}, [array for _, arrays in answers for array in arrays])
