"""Messages between a process and its worker."""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

import cloudpickle

_LENGTH = struct.Struct("<Q")


class Channel:
    """Sends and receives Python objects over a connected socket."""

    def __init__(self, connection: socket.socket):
        self._connection = connection

    def send(self, message: Any) -> None:
        """Sends an object.

        Raises:
            OSError: the other side is gone.
        """
        body = cloudpickle.dumps(message)
        self._connection.sendall(_LENGTH.pack(len(body)) + body)

    def receive(self) -> Any:
        """The next object.

        Raises:
            EOFError: the other side is gone.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return pickle.loads(self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self._connection.recv(min(count - len(parts), 1 << 20))
            except ConnectionResetError:
                part = b""
            if not part:
                raise EOFError("the other process is gone")
            parts += part
        return bytes(parts)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()
