"""Ending the connections of a listening port from below."""

from __future__ import annotations

import contextlib
import os
import socket


def drop_connections(port: int) -> None:
    """End all TCP connections that this process has accepted at `port`.

    Flight has no way to end a stream whose client is stopped; when its connection ends, it does.
    """
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # it is no socket, not connected, or closed meanwhile
            _drop(int(name), port)


def _drop(descriptor: int, port: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return
        if connection.type == socket.SOCK_STREAM and connection.getsockname()[1] == port:
            connection.getpeername()  # the listening socket has none
            connection.shutdown(socket.SHUT_RDWR)
