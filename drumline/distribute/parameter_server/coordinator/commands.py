"""A connection to one worker, and the commands that every worker must have carried out.

Datasets and iterators are made on all workers, also on those that come later or come back:
`ReplayedCommands` has them in the order in which they were made, and `replay` sends a worker those
that it lacks. `WorkerSession` knows what its worker has carried out, so nothing is sent twice on a
connection; a new connection begins with nothing.

Commands are sent by the worker's dispatcher, by the thread that creates a dataset, and by the one
that traces; a lock of the session keeps each of them from being sent twice.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Collection
from typing import Any

from drumline.distribute.parameter_server.servers import call
from drumline.distribute.parameter_server.wire import Connection
from drumline.distribute.parameter_server.wire.messages import (
    BeginWorkerSession,
    ForgetResources,
    ServeChief,
)
from drumline.distribute.parameter_server.wire.schema import TaskRequest, encode_request


@dataclasses.dataclass(frozen=True)
class Command:
    """Something that every worker is to make.

    Attributes:
        key: ``("dataset", number)``, ``("iterator", number)``, or ``("program", number,
            signature)``.
        request: what a worker is sent.
    """

    key: Any
    request: TaskRequest[Any]


MAKE_SECONDS = 3600.0
"""A dataset may be long in the making, a step in the ending; a dead worker is noticed at once."""


class WorkerSession:
    """One connection to a worker.

    Args:
        connection: to it.
        session: the name of what the chief has made.

    Attributes:
        connection: as given.
        known: the keys of the commands that it has carried out.
    """

    def __init__(self, connection: Connection, session: str) -> None:
        self.connection = connection
        self.known: set[Any] = set()
        self._session = session
        self._sending = threading.Lock()

    def begin(self) -> None:
        """Let it serve this chief; what it has begun for a former one ends first."""
        call(self.connection, ServeChief(), MAKE_SECONDS)
        call(self.connection, BeginWorkerSession(session=self._session), MAKE_SECONDS)

    def send(self, command: Command) -> None:
        """Have it make something, and wait until it has; nothing if it has made it already."""
        with self._sending:
            if command.key not in self.known:
                call(self.connection, command.request, MAKE_SECONDS)
                self.known.add(command.key)

    def forget(self, keys: Collection[Any]) -> None:
        """Have it drop what it has made, by the commands' keys; it is not waited for.

        ``("function", number)`` names all programs of a function.
        """
        numbers: dict[str, list[int]] = {"dataset": [], "iterator": [], "function": []}
        for kind, number, *_ in keys:
            numbers[kind].append(number)
        if any(numbers.values()):
            self.known.difference_update(keys)
            for key in [key for key in self.known if key[0] == "program"]:
                if key[1] in numbers["function"]:
                    self.known.discard(key)
            forget = ForgetResources(
                session=self._session,
                datasets=tuple(numbers["dataset"]),
                iterators=tuple(numbers["iterator"]),
                functions=tuple(numbers["function"]),
            )
            self.connection.submit(*encode_request(forget))


MakeCommand = Callable[[Connection], Command]


class ReplayedCommands:
    """Datasets and iterators, in the order in which they were made."""

    def __init__(self) -> None:
        self._commands: dict[Any, MakeCommand] = {}
        self._lock = threading.Lock()

    def add(self, key: Any, make: MakeCommand) -> None:
        """Have workers make something that come from now on."""
        with self._lock:
            self._commands[key] = make

    def remove(self, *keys: Any) -> None:
        """These need not be made any more."""
        with self._lock:
            for key in keys:
                self._commands.pop(key, None)

    def replay(self, worker: WorkerSession, ready: Callable[[], None]) -> None:
        """Have a worker make all that it lacks.

        Args:
            worker: which may lack some.
            ready: called once it lacks nothing, before anything else is added.
        """
        while True:
            with self._lock:
                lacking = [make for key, make in self._commands.items() if key not in worker.known]
                gone = worker.known - self._commands.keys()
                if not lacking:
                    ready()
                    break
            for make in lacking:
                worker.send(make(worker.connection))
        worker.forget(gone)
