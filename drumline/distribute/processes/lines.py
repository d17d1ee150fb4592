"""Connections that stay open between process 0 and each other process.

The kernel closes a dead process's connections at once and keeps asking whether a silent machine
is there, however busy both processes are. So they tell of a death before JAX's coordination
service does, which aborts the survivors without a name when process 0 is the one that is gone.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import threading
from collections.abc import Callable, Mapping

_GLANCE_SECONDS = 1.0


def silence_seconds(heartbeat_timeout_seconds: int) -> int:
    """How long process 0 may be silent, less than it takes JAX to end this process for it."""
    return max(1, heartbeat_timeout_seconds * 3 // 5)


class Lines:
    """This process's open connections, by the index of the process at the other end."""

    def __init__(self, connections: Mapping[int, socket.socket], heartbeat_timeout: int) -> None:
        self._connections = dict(connections)
        self._stopped = threading.Event()
        for connection in self._connections.values():
            connection.setblocking(False)
            _ask_often(connection, silence_seconds(heartbeat_timeout))

    def watch(self, ended: Callable[[int, bool], None], glance: Callable[[], None]) -> None:
        """Call `ended` for each connection that ends, and `glance` every second, until `stop`.

        `ended` is told the process and whether it was silent for too long (else it hung up).
        """
        with selectors.DefaultSelector() as selector:
            for index, connection in self._connections.items():
                selector.register(connection, selectors.EVENT_READ, index)
            while not self._stopped.is_set():
                for key, _ in selector.select(_GLANCE_SECONDS):
                    selector.unregister(key.fileobj)
                    silent = _was_silent(self._connections[key.data])
                    if not self._stopped.is_set():
                        ended(key.data, silent)
                if not self._stopped.is_set():
                    glance()

    def stop(self) -> None:
        """End `watch`."""
        self._stopped.set()

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.close()


def _was_silent(connection: socket.socket) -> bool:
    try:
        connection.recv(1)
    except OSError as error:
        return error.errno in (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
    return False


def _ask_often(connection: socket.socket, silence: int) -> None:
    """Let the kernel end the connection when the other machine is silent for that long."""
    every = max(1, silence // 4)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", every),
        ("TCP_KEEPINTVL", every),
        ("TCP_KEEPCNT", max(1, silence // every - 1)),
        ("TCP_USER_TIMEOUT", silence * 1000),
    ):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
