"""The listening side of the transport."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from drumline.distribute.parameter_server.transport import registry
from drumline.distribute.parameter_server.transport.errors import ProtocolError
from drumline.distribute.parameter_server.transport.message import Handlers
from drumline.distribute.parameter_server.transport.tls import ServerTls, server_tls

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.transport.flight import FrameStream
    from drumline.distribute.parameter_server.transport.flight_server import FlightService
    from drumline.distribute.parameter_server.transport.local_link import LocalLink
    from drumline.distribute.parameter_server.transport.server_lane import ServerLane

HEARTBEAT_SECONDS = 20.0
"""How long a peer may be silent before it is given up."""


class TransportServer:
    """Listens at one address, and answers requests by handlers.

    Args:
        address: ``"host:port"`` of this machine; port 0 stands for a free one. It listens there and
            nowhere else.
        handlers: by operation. They run in one thread for each connection.
        token: the cluster's; see `cluster_token`.
        tls: encrypts the connections. None does as the environment says (see `tls.py`): without
            its variables all is sent in the clear.
        heartbeat_seconds: after which a client of which nothing is heard is given up.
        client_left: called with a client's lane number and the reason when its connection has
            ended or was given up, in any thread.
    """

    def __init__(
        self,
        address: str,
        handlers: Handlers,
        *,
        token: str,
        tls: ServerTls | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        client_left: Callable[[int, str], None] | None = None,
    ) -> None:
        self.token = token
        self.handlers = dict(handlers)
        self._address = address
        self._tls = tls or server_tls()
        self._heartbeat_seconds = heartbeat_seconds
        self._client_left = client_left
        self._service: FlightService | None = None
        self._lock = threading.Lock()
        self._lanes: dict[int, ServerLane] = {}
        self._links: set[LocalLink] = set()
        self._next_number = 0
        self._closed = False
        self._process = os.getpid()

    @property
    def address(self) -> str:
        """``"host:port"`` at which it listens; with port 0, the one that was found."""
        host, _, port = self._address.rpartition(":")
        return f"{host}:{self.port}" if port == "0" and self._service else self._address

    @property
    def port(self) -> int:
        """The port at which it listens."""
        if self._service is not None:
            return int(self._service.port)
        return int(self._address.rpartition(":")[2])

    def start(self) -> None:
        """Listen; nothing if it does already.

        Raises:
            OSError: if the address is taken, or not one of this machine.
            RuntimeError: if the server was closed.
        """
        from drumline.distribute.parameter_server.transport.flight_server import FlightService

        if self._closed:
            raise RuntimeError(f"The server at {self._address} was closed. Make a new one.")
        if self._service is None:
            _check_is_free(self._address)
            self._service = FlightService(self, self._address, self.token, self._tls)
            registry.register(self.address, self)

    def close(self, seconds: float = 5.0) -> None:
        """Stop listening, let requests that run be answered, and end all connections.

        Args:
            seconds: how long to wait for each of these.

        In a forked child nothing is done: the server is its parent's.
        """
        if os.getpid() != self._process:
            return
        from drumline.distribute.parameter_server.transport.flight_server import end_service

        with self._lock:
            if self._closed:
                return
            self._closed = True
            lanes, links = list(self._lanes.values()), list(self._links)
        registry.forget(self.address, self)
        for link in links:
            link.server_closes(seconds)
        for lane in lanes:
            lane.close(seconds)
        if self._service is not None:
            end_service(self._service, seconds)

    def serve_stream(self, stream: FrameStream, wishes: dict[str, Any], peer: str) -> None:
        """Serve an authenticated client's stream until it ends.

        Raises:
            ProtocolError: if the client asks for what there is not.
        """
        from drumline.distribute.parameter_server.transport.handshake import tell

        if wishes.get("stream") == "requests":
            self._new_lane(stream, wishes, peer).serve()
        elif wishes.get("stream") == "heartbeats":
            number = wishes.get("lane", 0)
            if not isinstance(number, int):
                raise ProtocolError("a client's heartbeats are for no lane")
            tell(stream, {"seconds": self._heartbeat_seconds})
            while stream.read() is not None:
                # The lane may have come after this stream.
                if beating := self._lanes.get(number):
                    beating.heard()
                with stream.lock:
                    stream.write(b"+")
        else:
            raise ProtocolError("a client wants a stream that there is not")

    def attach(self, link: LocalLink) -> int:
        """Take a connection of this process. Returns its lane number."""
        with self._lock:
            if self._closed:
                raise ConnectionRefusedError("the server was closed")
            self._links.add(link)
            return self._number()

    def detach(self, link: LocalLink, number: int, reason: str) -> None:
        """A connection of this process has ended."""
        with self._lock:
            self._links.discard(link)
        self._tell(number, reason)

    def _new_lane(self, stream: FrameStream, wishes: dict[str, Any], peer: str) -> ServerLane:
        from drumline.distribute.parameter_server.transport.handshake import hear, tell
        from drumline.distribute.parameter_server.transport.server_lane import ServerLane
        from drumline.distribute.parameter_server.transport.shared_memory import SharedMemory

        memory = SharedMemory()
        try:
            accepted = memory.accept(wishes.get("memory"))
            with self._lock:
                number = self._number()
            tell(stream, {"lane": number, "memory": memory.offer(), "accepted": accepted})
            memory.confirm(hear(stream).get("accepted"))
            with self._lock:
                if self._closed:
                    raise ProtocolError("this server is shutting down")
                lane = ServerLane(
                    *(number, peer, stream, memory, self.handlers, self._heartbeat_seconds),
                    ended=self._lane_ended,
                )
                self._lanes[number] = lane
        except BaseException:
            memory.close()
            raise
        return lane

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _lane_ended(self, lane: ServerLane, reason: str) -> None:
        with self._lock:
            self._lanes.pop(lane.number, None)
        self._tell(lane.number, reason)

    def _tell(self, number: int, reason: str) -> None:
        if self._client_left is not None and not self._closed:
            self._client_left(number, reason)


def _check_is_free(address: str) -> None:
    """Flight's own error for a taken port is not an OSError, and says less."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(found[0], socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(found[4])
            probe.listen(1)
    except (OSError, UnicodeError, ValueError) as error:
        raise OSError(
            f"cannot listen at {address!r}: {error}. Give an address of this machine and a free "
            f"port, as 'host:port'."
        ) from None
