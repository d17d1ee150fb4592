"""Parameter servers as a client sees them, and where the rows of variables are stored.

The chief and each worker have a `Servers` for each lane: one connection to every parameter server,
in the order of the tasks. `Servers.submit` sends a request of `wire.messages` and returns at once,
`result` waits for the reply; any thread may do either. A connection that has ended is named by
`ParameterServerLostError`, and stays ended until `connect_again`.

`RoundRobin` decides on the chief where a new variable goes: each shard to the next server. Layouts
never change afterwards.

`connect_within` and `finish` are how any task is reached: it may not have started yet, and returns
from `Server.join` when the chief says so.
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
from drumline.distribute.parameter_server.wire.messages import (
    FinishTask,
    ReadShard,
    ReadSlots,
    ShardLayout,
    VariableLayout,
    WriteShard,
)
from drumline.distribute.parameter_server.wire.schema import (
    Reply,
    TaskRequest,
    decode_reply,
    encode_request,
)


class RoundRobin:
    """Gives each shard to the next server, as TensorFlow's parameter-server strategy does.

    Args:
        num_servers: how many parameter servers there are.
        partitioner: into how many shards variables are divided; None for one each.
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
            shards = tuple(
                ShardLayout((self._next + index) % self._num_servers, index, start, stop)
                for index, (start, stop) in enumerate(cuts)
            )
            self._next = (self._next + len(shards)) % self._num_servers
        return VariableLayout(key, path, shape, dtype, shards)

    def _shards(self, path: str, shape: tuple[int, ...], dtype: str) -> int:
        if self._partitioner is None or not shape or shape[0] == 0:
            return 1
        counts = list(self._partitioner(shape, dtype, axis=0))
        if len(counts) != len(shape) or any(count != 1 for count in counts[1:]):
            raise ValueError(
                f"The partitioner cuts variable {path!r} of shape {shape} into {counts} shards "
                "along its axes. Parameter servers cut along axis 0 alone: return "
                f"[n{', 1' * (len(shape) - 1)}]."
            )
        if not 1 <= counts[0] <= shape[0]:
            raise ValueError(
                f"The partitioner cuts the {shape[0]} rows of variable {path!r} into {counts[0]} "
                "shards; there must be 1 to as many shards as rows."
            )
        return int(counts[0])


def _even_cuts(rows: int, shards: int) -> list[tuple[int, int]]:
    """The first shards get one row more where rows do not divide, as in TensorFlow."""
    small, larger = divmod(rows, shards)
    cuts, start = [], 0
    for index in range(shards):
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


def call(
    connection: Connection, request: TaskRequest[Reply], timeout_seconds: float | None = None
) -> Reply:
    """Send a request and wait for its reply; see `Connection.call`."""
    received = connection.call(*encode_request(request), timeout_seconds=timeout_seconds)
    return decode_reply(request, received)


def finish(connection: Connection) -> None:
    """Let the task at the other end return from `Server.join`, and end the connection."""
    try:
        call(connection, FinishTask(), _FINISH_SECONDS)
    except (PeerUnavailableError, CallTimeoutError) as error:
        _log.info("%s does not know that the job has finished: %s", connection.address, error)
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

    def submit(self, server: int, request: TaskRequest[Any]) -> Future[Message]:
        """Send a request to one server; see `result`."""
        with self._named(server):
            return self._connections[server].submit(*encode_request(request))

    def empties(self, server: int, forms: Sequence[ArrayForm]) -> list[np.ndarray]:
        """Uninitialised arrays that one message to one server can carry without a copy."""
        return self._connections[server].empties(forms)

    def result(self, server: int, request: TaskRequest[Reply], future: Future[Message]) -> Reply:
        """Wait for the reply to a request that was submitted."""
        with self._named(server):
            return decode_reply(request, future.result())

    def ask(self, server: int, request: TaskRequest[Reply]) -> Reply:
        """Send a request to one server and wait for its reply."""
        return self.result(server, request, self.submit(server, request))

    def ask_all(self, request: TaskRequest[Reply]) -> list[Reply]:
        """Send every server the same request, all at once, and wait for the replies."""
        return self.ask_each([(server, request) for server in range(len(self))])

    def ask_each(self, requests: Sequence[tuple[int, TaskRequest[Reply]]]) -> list[Reply]:
        """Send requests, each to a server, all at once, and wait for the replies."""
        asked = [self.submit(server, request) for server, request in requests]
        return [
            self.result(server, request, future)
            for (server, request), future in zip(requests, asked, strict=True)
        ]

    def read(self, layout: VariableLayout) -> np.ndarray:
        """The value of a variable, whole."""
        replies = self.ask_each(
            [(shard.server, ReadShard(name=layout.shard_name(shard))) for shard in layout.shards]
        )
        pieces = [reply.value for reply in replies]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def write(self, layout: VariableLayout, value: np.ndarray) -> None:
        """Set the value of a variable."""
        self.ask_each(
            [
                (
                    shard.server,
                    WriteShard(name=layout.shard_name(shard), value=rows_of(value, shard)),
                )
                for shard in layout.shards
            ]
        )

    def slots(self, layout: VariableLayout) -> dict[str, np.ndarray]:
        """The arrays that an optimizer stores beside a variable, by name, whole."""
        found: dict[str, list[np.ndarray]] = {}
        for shard in layout.shards:
            reply = self.ask(shard.server, ReadSlots(name=layout.shard_name(shard)))
            for name, value in zip(reply.slots, reply.values, strict=True):
                found.setdefault(name, []).append(value)
        return {
            name: np.concatenate(pieces) if len(pieces) > 1 and pieces[0].ndim else pieces[0]
            for name, pieces in found.items()
        }

    def write_slot(self, layout: VariableLayout, slot: str, value: np.ndarray) -> None:
        """Set the array that an optimizer stores beside a variable under the name `slot`."""
        whole = value.shape == layout.shape
        for shard in layout.shards:
            rows = rows_of(value, shard) if whole else value
            request = WriteShard(name=layout.shard_name(shard), slot=slot, value=rows)
            self.ask(shard.server, request)

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


def rows_of(value: np.ndarray, shard: ShardLayout) -> np.ndarray:
    """The rows of a whole value that a shard has."""
    return value[shard.start : shard.stop] if value.ndim else value


@functools.cache
def collect_only_what_is_new() -> None:
    """Have Python's collector of cycles pass over all that exists now; once in a process.

    Closures, futures and messages come and go by the thousand, and make it look often: at JAX's and
    Keras's modules each time, which took more than half of the time of short steps.
    """
    gc.collect()
    gc.freeze()
