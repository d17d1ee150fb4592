"""The parameter servers as a client sees them: whole variables, wherever their parts lie.

Where a variable lies: which server keeps which of its rows.

On which servers the parts of new variables go: to one after the other.

How this process reaches the other tasks.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.errors import ParameterServerLostError
from drumline.distribute.parameter_server.partitioners import Partitioner
from drumline.distribute.parameter_server.wire import (
    ArrayForm,
    CallTimeoutError,
    Connection,
    Message,
    PeerUnavailableError,
    cluster_token,
)


@dataclass(frozen=True)
class ShardLayout:
    """The piece of a variable that one parameter server keeps.

    Attributes:
        server: the number of the server's task.
        index: the number of the part in its variable.
        start: its first row of axis 0.
        stop: the row after its last. A scalar has the one part ``(0, 1)``.
    """

    server: int
    index: int
    start: int
    stop: int


@dataclass(frozen=True)
class VariableLayout:
    """A variable's place on the parameter servers.

    Attributes:
        key: what the cluster calls it; no two variables of a strategy share one.
        path: what its user calls it.
        shape: of the whole variable.
        dtype: as Keras names it.
        parts: in the order of their rows, without gaps.
    """

    key: str
    path: str
    shape: tuple[int, ...]
    dtype: str
    parts: tuple[ShardLayout, ...]

    def part_shape(self, part: ShardLayout) -> tuple[int, ...]:
        """The shape of what `part` holds."""
        return (part.stop - part.start, *self.shape[1:]) if self.shape else ()

    def part_name(self, part: ShardLayout) -> str:
        """What the servers call `part`."""
        return f"{self.key}/{part.index}"

    def to_json(self) -> dict[str, Any]:
        """As objects that JSON has."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> VariableLayout:
        """What `to_json` described."""
        parts = tuple(ShardLayout(**part) for part in value["parts"])
        return cls(value["key"], value["path"], tuple(value["shape"]), value["dtype"], parts)


class RoundRobin:
    """Gives each part to the next server, as TensorFlow's parameter-server strategy does.

    Args:
        num_servers: how many parameter servers there are.
        partitioner: into how many parts variables are cut; None leaves each whole.
        prefix: what the variables' keys begin with.
    """

    def __init__(self, num_servers: int, partitioner: Partitioner | None, prefix: str = "") -> None:
        self._prefix = prefix
        self._num_servers = num_servers
        self._partitioner = partitioner
        self._variables = itertools.count()
        self._next = 0
        self._lock = threading.Lock()

    def place(self, path: str, shape: Sequence[int], dtype: str) -> VariableLayout:
        """The layout of a new variable.

        Raises:
            ValueError: if the partitioner cuts along another axis than the first.
        """
        shape = tuple(shape)
        cuts = _even_cuts(shape[0] if shape else 1, self._shards(path, shape, dtype))
        with self._lock:
            key = f"{self._prefix}{next(self._variables)}:{path}"
            parts = tuple(
                ShardLayout((self._next + index) % self._num_servers, index, start, stop)
                for index, (start, stop) in enumerate(cuts)
            )
            self._next = (self._next + len(parts)) % self._num_servers
        return VariableLayout(key, path, shape, dtype, parts)

    def _shards(self, path: str, shape: tuple[int, ...], dtype: str) -> int:
        if self._partitioner is None or not shape or shape[0] == 0:
            return 1
        counts = list(self._partitioner(shape, dtype, axis=0))
        if len(counts) != len(shape) or any(count != 1 for count in counts[1:]):
            raise ValueError(
                f"The partitioner cuts variable {path!r} of shape {shape} into {counts} parts "
                "along its axes. Parameter servers cut along axis 0 alone: return "
                f"[n{', 1' * (len(shape) - 1)}]."
            )
        if not 1 <= counts[0] <= shape[0]:
            raise ValueError(
                f"The partitioner cuts the {shape[0]} rows of variable {path!r} into {counts[0]} "
                "parts; there must be 1 to as many parts as rows."
            )
        return int(counts[0])


def _even_cuts(rows: int, parts: int) -> list[tuple[int, int]]:
    """The first parts get one row more where rows do not divide, as in TensorFlow."""
    small, larger = divmod(rows, parts)
    cuts, start = [], 0
    for index in range(parts):
        stop = start + small + (index < larger)
        cuts.append((start, stop))
        start = stop
    return cuts


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

    def read(self, layout: VariableLayout) -> np.ndarray:
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

    def write(self, layout: VariableLayout, value: np.ndarray) -> None:
        """Set the value of a variable."""
        asked = [
            self.submit(
                part.server, "write", {"name": layout.part_name(part)}, [rows_of(value, part)]
            )
            for part in layout.parts
        ]
        for part, future in zip(layout.parts, asked, strict=True):
            self.result(part.server, future)

    def slots(self, layout: VariableLayout) -> dict[str, np.ndarray]:
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

    def write_slot(self, layout: VariableLayout, slot: str, value: np.ndarray) -> None:
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


@functools.cache
def collect_only_what_is_new() -> None:
    """Have Python's collector of cycles pass over all that exists now; once in a process.

    Closures, futures and messages come and go by the thousand, and make it look often: at JAX's and
    Keras's modules each time, which took more than half of the time of short steps.
    """
    gc.collect()
    gc.freeze()
