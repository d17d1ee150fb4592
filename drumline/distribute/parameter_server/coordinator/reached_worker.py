"""A worker that the chief has reached, and what it was told."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.transport import Connection

Order = tuple[Any, str, dict[str, Any], Sequence[np.ndarray]]
"""Something that a worker is to make: a name for it, the request, its header and arrays."""

MAKE_SECONDS = 3600.0
"""A dataset may be long in the making, a step in the ending; a dead worker is noticed at once."""


class ReachedWorker:
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

    def tell(self, order: Order) -> None:
        """Have it make something, and wait until it has; nothing if it was told before."""
        key, op, header, arrays = order
        with self._telling:
            if key not in self.known:
                header = {**header, "session": self._session}
                self.connection.call(op, header, arrays, timeout_seconds=MAKE_SECONDS)
                self.known.add(key)
