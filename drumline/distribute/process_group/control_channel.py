"""The connection of a process to process 0: the rendezvous, and what its end means.

At the rendezvous messages are objects of JSON, a line each. Both sides begin with a greeting, which
holds their nonce and says whether they have the cluster's token. With it every later line is signed
by the key of `drumline._authentication`, under the name `PROTOCOL`, so that nothing a stranger says
is parsed but for his greeting, and a line can be neither forged, nor repeated, nor moved to another
connection. Who has another token is refused by a line without a proof. Nothing is encrypted.

After that nothing is said. The kernel closes a dead process's connections at once and keeps asking
whether a silent machine is there, however busy both processes are.
"""

from __future__ import annotations

import contextlib
import errno
import json
import selectors
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from drumline._authentication import HOW_TO_SET, NONCE_BYTES, ConnectionKey, new_nonce
from drumline._rendezvous import ChannelError, LineChannel

PROTOCOL = "drumline process group 1"

_LONGEST = 1 << 20
"""Bytes of a line: all tasks, addresses and processes of some thousand hosts."""


class RefusedError(Exception):
    """The two processes do not have the same token. Its text says what this side found."""


class RendezvousChannel(LineChannel[dict[str, Any]]):
    """Messages to and from a process that is to be of the same group.

    Args:
        connection: a connected socket; the channel closes it.
        token: the cluster's, or None if this process has none.
        listens: whether this is process 0.

    Attributes:
        greeted: whether the other has greeted, so that more can be said.
        introduced: whether the other is known to be of the group; set by who listens.

    Raises:
        OSError: if the other is gone already.
    """

    def __init__(self, connection: socket.socket, token: str | None, listens: bool) -> None:
        super().__init__(connection, _LONGEST)
        self.greeted = False
        self.introduced = False
        self._token = token
        self._listens = listens
        self._nonce = new_nonce()
        self._key: ConnectionKey | None = None
        greeting = {"protocol": PROTOCOL, "nonce": self._nonce.hex(), "token": token is not None}
        self.send(greeting)

    def encode(self, message: dict[str, Any]) -> bytes:
        line = json.dumps(message).encode()
        return line if self._key is None else self._key.sign_line(line)

    def decode(self, line: bytes) -> dict[str, Any] | None:
        """See `LineChannel.decode`.

        Raises:
            ChannelError: if it is no message.
            RefusedError: in who does not listen, if the other has not the same token.
        """
        if self._key is not None:
            opened = self._key.open_line(line)
            if opened is None:
                raise self._not_proven(line)
            line = opened
        message = _message(line)
        if self.greeted:
            return message
        self._meet(message)
        return None

    def _meet(self, greeting: dict[str, Any]) -> None:
        nonce, has_token = greeting.get("nonce"), greeting.get("token")
        if greeting.get("protocol") != PROTOCOL or not isinstance(has_token, bool):
            raise ChannelError("it is no process of a drumline job, or of another release")
        try:
            theirs = bytes.fromhex(nonce if isinstance(nonce, str) else "")
        except ValueError:
            theirs = b""
        if len(theirs) != NONCE_BYTES:
            raise ChannelError("it is no process of a drumline job, or of another release")
        if has_token != (self._token is not None):
            raise self._refusal("it has a token, and this process has none", "it has no token")
        if self._token is not None:
            nonces = (self._nonce, theirs) if self._listens else (theirs, self._nonce)
            self._key = ConnectionKey(
                self._token, PROTOCOL.encode(), *nonces, listens=self._listens
            )
        self.greeted = True

    def _refusal(self, with_token: str, without: str) -> Exception:
        """Why the other is not believed: he alone has a token, or this process does."""
        why = with_token if self._token is None else without
        if self._listens:
            return ChannelError(why)
        return RefusedError(f"{why}. {HOW_TO_SET}")

    def _not_proven(self, line: bytes) -> Exception:
        if self._listens:
            self._key = None  # a proof of this side's could not be checked
            self.send({"refused": "the token is not that of process 0"})
            return ChannelError("it does not know the cluster's token")
        with contextlib.suppress(ChannelError):
            if "refused" in _message(line):
                return RefusedError(f"it has another token. {HOW_TO_SET}")
        return ChannelError("it does not know the cluster's token")


def _message(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ChannelError("it sent what is no message")
    return message


_GLANCE_SECONDS = 1.0


def silence_seconds(heartbeat_timeout_seconds: int) -> int:
    """How long process 0 may be silent, less than it takes JAX to end this process for it."""
    return max(1, heartbeat_timeout_seconds * 3 // 5)


class ControlChannel:
    """This process's open connections, by the index of the process at the other end."""

    def __init__(self, connections: Mapping[int, socket.socket], heartbeat_timeout: int) -> None:
        self._connections = dict(connections)
        self._stopped = threading.Event()
        for connection in self._connections.values():
            connection.setblocking(False)
            _ask_often(connection, silence_seconds(heartbeat_timeout))

    def watch(self, ended: Callable[[int, bool], None], glance: Callable[[], None]) -> None:
        """Call `ended` for each connection that ends, and `glance` every second, until `stop`.

        `ended` is given the process and whether it was silent for too long (else it hung up).
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
