"""The parameter servers as a client sees them: whole variables, wherever their parts lie."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.errors import ParameterServerLostError
from drumline.distribute.parameter_server.layout import Layout, ShardLayout
from drumline.distribute.parameter_server.peers import finish
from drumline.distribute.parameter_server.wire import (
    ArrayForm,
    Connection,
    Message,
    PeerUnavailableError,
)


class Servers:
    """Connections to all parameter servers, in the order of their tasks.

    Args:
        connect: makes a connection to an address.
        addresses: of the servers, as ``host:port``.

    Raises:
        ParameterServerLostError: from every method, if a server cannot be reached.
    """

    def __init__(self, connect: Callable[[str], Connection], addresses: Sequence[str]) -> None:
        self.addresses = list(addresses)
        self._connections: list[Connection] = []
        try:
            for server, address in enumerate(addresses):
                with self._named(server):
                    self._connections.append(connect(address))
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def lost(self) -> list[int]:
        """The servers to which the connection has ended; all that is submitted to them fails."""
        return [number for number, each in enumerate(self._connections) if each.is_lost]

    def disconnect(self, server: int) -> None:
        """End the connection to one server."""
        self._connections[server].close()

    def connect_again(self, server: int, connect: Callable[[str], Connection]) -> None:
        """Replace a connection that has ended."""
        with self._named(server):
            self.disconnect(server)
            self._connections[server] = connect(self.addresses[server])

    def submit(
        self, server: int, op: str, header: dict[str, Any], arrays: Sequence[np.ndarray] = ()
    ) -> Future[Message]:
        """Ask one server; see `result`."""
        with self._named(server):
            return self._connections[server].submit(op, header, arrays)

    def empties(self, server: int, forms: Sequence[ArrayForm]) -> list[np.ndarray]:
        """Uninitialised arrays that one message to one server can carry without a copy."""
        return self._connections[server].empties(forms)

    def result(self, server: int, future: Future[Message]) -> Message:
        """The server's answer."""
        with self._named(server):
            return future.result()

    def ask(
        self, server: int, op: str, header: dict[str, Any], arrays: Sequence[np.ndarray] = ()
    ) -> Message:
        """Ask one server and wait for its answer."""
        return self.result(server, self.submit(server, op, header, arrays))

    def ask_all(self, op: str, header: dict[str, Any]) -> list[Message]:
        """Ask every server the same, all at once."""
        asked = [self.submit(server, op, header) for server in range(len(self))]
        return [self.result(server, future) for server, future in enumerate(asked)]

    def read(self, layout: Layout) -> np.ndarray:
        """The value of a variable, whole."""
        asked = [
            self.submit(part.server, "read", {"name": layout.part_name(part)})
            for part in layout.parts
        ]
        pieces = [
            self.result(part.server, future).arrays[0]
            for part, future in zip(layout.parts, asked, strict=True)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def write(self, layout: Layout, value: np.ndarray) -> None:
        """Set the value of a variable."""
        asked = [
            self.submit(
                part.server, "write", {"name": layout.part_name(part)}, [rows_of(value, part)]
            )
            for part in layout.parts
        ]
        for part, future in zip(layout.parts, asked, strict=True):
            self.result(part.server, future)

    def slots(self, layout: Layout) -> dict[str, np.ndarray]:
        """What the optimizer keeps beside a variable, by name, whole."""
        found: dict[str, list[np.ndarray]] = {}
        for part in layout.parts:
            answer = self.ask(part.server, "slots", {"name": layout.part_name(part)})
            for name, value in zip(answer.header["slots"], answer.arrays, strict=True):
                found.setdefault(name, []).append(value)
        return {
            name: np.concatenate(pieces) if len(pieces) > 1 and pieces[0].ndim else pieces[0]
            for name, pieces in found.items()
        }

    def write_slot(self, layout: Layout, slot: str, value: np.ndarray) -> None:
        """Set what the optimizer keeps beside a variable under the name `slot`."""
        whole = value.shape == layout.shape
        for part in layout.parts:
            header = {"name": layout.part_name(part), "slot": slot}
            self.ask(part.server, "write", header, [rows_of(value, part) if whole else value])

    def finish(self) -> None:
        """Let the servers return from `Server.join`, and end all connections; once."""
        connections, self._connections = self._connections, []
        for connection in connections:
            finish(connection)

    def close(self) -> None:
        """End all connections."""
        for connection in self._connections:
            connection.close()

    @contextlib.contextmanager
    def _named(self, server: int) -> Iterator[None]:
        try:
            yield
        except PeerUnavailableError as error:
            raise ParameterServerLostError(server, self.addresses[server], error.reason) from error


def rows_of(value: np.ndarray, part: ShardLayout) -> np.ndarray:
    """The rows of a whole value that a part holds."""
    return value[part.start : part.stop] if value.ndim else value
