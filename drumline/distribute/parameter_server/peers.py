"""How this process reaches the other tasks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from drumline.distribute.parameter_server.wire import (
    CallTimeoutError,
    Connection,
    PeerUnavailableError,
    cluster_token,
)

_log = logging.getLogger("drumline")

_RETRY_SECONDS = 0.2
_FINISH_SECONDS = 5.0


def connector(timeout_seconds: float) -> Callable[[str], Connection]:
    """A function that connects to an address, and tries until the task there is up."""

    def connect(address: str) -> Connection:
        return connect_within(address, timeout_seconds)

    return connect


def connect_within(address: str, timeout_seconds: float) -> Connection:
    """Connect to a task that may not have started yet.

    Raises:
        PeerUnavailableError: if it is not there in time.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            return Connection(address, token=cluster_token(), timeout_seconds=timeout_seconds)
        except PeerUnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)


def finish(connection: Connection) -> None:
    """Let the task at the other end return from `Server.join`, and end the connection."""
    try:
        connection.call("finish", {}, timeout_seconds=_FINISH_SECONDS)
    except (PeerUnavailableError, CallTimeoutError) as error:
        _log.info("%s was not told that the job has finished: %s", connection.address, error)
    connection.close()
