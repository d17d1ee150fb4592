"""A worker that the chief has reached, and what it was told.

What all workers have to make, also those that come later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.wire import Connection

Command = tuple[Any, str, dict[str, Any], Sequence[np.ndarray]]
"""Something that a worker is to make: a name for it, the request, its header and arrays."""

MAKE_SECONDS = 3600.0
"""A dataset may be long in the making, a step in the ending; a dead worker is noticed at once."""


class WorkerSession:
    """One connection to a worker.

    Args:
        connection: to it.
        session: the name of what the chief has made.

    Attributes:
        connection: as given.
        known: the names of what it was told to make.
    """

    def __init__(self, connection: Connection, session: str) -> None:
        self.connection = connection
        self.known: set[Any] = set()
        self._session = session
        self._telling = threading.Lock()

    def begin(self) -> None:
        """Let it serve this chief; what it has begun for a former one ends first."""
        self.connection.call("serve chief", {}, timeout_seconds=MAKE_SECONDS)
        header = {"session": self._session}
        self.connection.call("begin", header, timeout_seconds=MAKE_SECONDS)

    def tell(self, order: Command) -> None:
        """Have it make something, and wait until it has; nothing if it was told before."""
        key, op, header, arrays = order
        with self._telling:
            if key not in self.known:
                header = {**header, "session": self._session}
                self.connection.call(op, header, arrays, timeout_seconds=MAKE_SECONDS)
                self.known.add(key)

    def forget(self, keys: Collection[Any]) -> None:
        """Have it let go of what it was told to make, by their names; it is not waited for.

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
            self.connection.submit("forget", {**numbers, "session": self._session})


MakeCommand = Callable[[Connection], Command]


class ReplayedCommands:
    """Datasets and iterators, in the order in which they were made."""

    def __init__(self) -> None:
        self._orders: dict[Any, MakeCommand] = {}
        self._lock = threading.Lock()

    def add(self, key: Any, order: MakeCommand) -> None:
        """Have workers make something that come from now on."""
        with self._lock:
            self._orders[key] = order

    def remove(self, *keys: Any) -> None:
        """These need not be made any more."""
        with self._lock:
            for key in keys:
                self._orders.pop(key, None)

    def bring_up(self, worker: WorkerSession, ready: Callable[[], None]) -> None:
        """Have a worker make all that it lacks.

        Args:
            worker: to be told.
            ready: called once it lacks nothing, before anything else is added.
        """
        while True:
            with self._lock:
                lacking = [make for key, make in self._orders.items() if key not in worker.known]
                gone = worker.known - self._orders.keys()
                if not lacking:
                    ready()
                    break
            for make in lacking:
                worker.tell(make(worker.connection))
        worker.forget(gone)
