"""The listening side of the wire, and the servers of this process.

`TransportServer` accepts connections, lets each prove that it knows the token, and then has a
`ServerLane` read its requests, in one thread for each connection; handlers run there. Strangers get
10 seconds and one of 256 places. `close` lets requests that run be answered, says goodbye and ends
all connections, within its seconds in all.

Servers that have started are registered by address, so that connections of the same process reach
them without the network. A forked child has none of them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drumline import _addresses
from drumline._changes import in_forked_child
from drumline._forks import ForkSafeLock, at_exit, tell_in_child
from drumline._lost_process import CLOSED, silent
from drumline.distribute.parameter_server.errors import AuthenticationError, ProtocolError
from drumline.distribute.parameter_server.wire.arena import SharedMemory
from drumline.distribute.parameter_server.wire.codec import (
    ERROR,
    GOODBYE,
    REPLY,
    REQUEST,
    ArrayForm,
    Handlers,
    Message,
    MessageReader,
    Record,
    Sender,
    encode,
)
from drumline.distribute.parameter_server.wire.greeting import be_greeted, hear, tell
from drumline.distribute.parameter_server.wire.in_flight import (
    LEFT,
    Outcome,
    Replies,
    answer,
    error_header,
)
from drumline.distribute.parameter_server.wire.stream import (
    Beats,
    ServerTls,
    Stream,
    server_context,
    server_tls,
)
from drumline.distribute.parameter_server.wire.watch import beat_interval, watch

if TYPE_CHECKING:
    import ssl

    from drumline.distribute.parameter_server.wire.in_flight import LocalLink

_LINGER_SECONDS = 0.2
_LARGE = 256 * 1024
"""Bytes; a larger reply is sent at once, and not together with those that follow."""


class ServerLane:
    """Reads requests, lets handlers answer them, and sends the replies.

    Args:
        number: the lane's.
        peer: the client's address.
        stream: the client's, which has said who it is.
        memory: set up already.
        handlers: by operation.
        silence_seconds: after which a client that sends nothing is given up.
        interval: seconds from one beat to the next.
        ended: called once with the reason, when the client has left or was given up.

    Attributes:
        number: as given.
        peer: as given.
        interval: as given.
    """

    def __init__(
        self,
        number: int,
        peer: str,
        stream: Stream,
        memory: SharedMemory,
        handlers: Handlers,
        silence_seconds: float,
        interval: float,
        ended: Callable[[ServerLane, str], None],
    ) -> None:
        self.number = number
        self.peer = peer
        self.interval = interval
        self._last_heard = watch.now()
        self._stream = stream
        self._handlers = handlers
        self._silence_seconds = silence_seconds
        self._ended = ended
        self._memory = memory
        self._messages = MessageReader(stream, memory.arrays)
        self._replies = Replies(self._send, self._broke)
        self._sender = Sender(stream)
        self._next_seq = 0
        self._state = threading.Condition()
        self._beats: Beats | None = None
        self._busy = False
        self._closing = False
        self._over = False
        self._is_done = False
        self._broken: str | None = None

    def empties(self, forms: Sequence[ArrayForm]) -> list[np.ndarray]:
        """See `Lane.empties`."""
        return self._memory.empties(forms)

    def shared(self, shape: Sequence[int], dtype: Any) -> np.ndarray | None:
        """See `Lane.shared`."""
        return self._memory.shared(shape, dtype)

    def beat_by(self, beats: Beats) -> None:
        """Tell the client by `beats` that this process lives, and hear it.

        Raises:
            ProtocolError: if it has a stream for that already, or is gone.
        """
        with self._state:
            if self._beats is not None or self._over:
                raise ProtocolError("a client's beats are for no lane")
            self._beats = beats

    def serve(self) -> None:
        """Serve the client until it leaves, is given up, or breaks the protocol."""
        self._stream.has_been_set_up()
        watch.add(self)
        try:
            while self._serve_message():
                pass
            self.end(LEFT)
        except EOFError:
            self.end(self._broken or _WITHOUT_GOODBYE)
        except ProtocolError as error:
            self.end(f"it broke the protocol: {error}")
        except OSError as error:
            self.end(self._broken or f"the connection broke: {error}")
        except MemoryError:
            self.end("it sent more than fits into memory")
        finally:
            self.end("the lane failed")  # nothing, unless something was raised that is not above
            watch.remove(self)  # it may have been ended before it began
            self._stream.close()
            self._replies.close()
            if self._beats is not None:
                self._beats.close()
            self._memory.close()
            with self._state:
                self._is_done = True
                self._state.notify_all()

    def check(self, now: float) -> None:
        """Say that this side lives, and give the client up if it has been silent for too long."""
        self._memory.trim()
        if self._beats is not None and self._beats.exchange():
            self._last_heard = now
        seconds = now - self._last_heard
        if seconds > self._silence_seconds:
            self.end(f"it {silent(seconds)}")

    def end(self, reason: str) -> None:
        """Answer the client no more."""
        with self._state:
            if self._over:
                return
            self._over = True
            self._state.notify_all()
        watch.remove(self)
        self._stream.end()
        self._ended(self, reason)

    def begin_closing(self) -> None:
        """Take no more requests."""
        with self._state:
            self._closing = True

    def close(self, seconds: float) -> None:
        """Take no more requests, send the replies to those that run, say goodbye, and end.

        Args:
            seconds: for all of that; a handler that takes longer is left behind.
        """
        self.begin_closing()
        deadline = time.monotonic() + seconds
        with self._state:
            self._state.wait_for(lambda: not self._busy or self._over, seconds)
        self._replies.drain(max(0.0, deadline - time.monotonic()))
        if not self._over:
            try:
                left = max(_LINGER_SECONDS, deadline - time.monotonic())
                if self._stream.write_within(left, GOODBYE):
                    self._stream.end_writing()
                    with self._state:  # the client ends when it has heard that
                        self._state.wait_for(lambda: self._is_done, _LINGER_SECONDS)
            except OSError as error:
                self.end(f"the connection broke: {error}")
        self.end("the server has shut down")
        with self._state:
            self._state.wait_for(lambda: self._is_done, _LINGER_SECONDS)

    def _serve_message(self) -> bool:
        """Returns whether others may follow.

        Nothing that was received outlives the call: memory that is free when the next message comes
        is used again, and need not be fetched from the system.
        """
        received = self._messages.read()
        if received is None:
            return False
        self._last_heard = watch.now()
        self._handle(*received)
        return True

    def _handle(self, record: Record, arrays: list[np.ndarray]) -> None:
        if record.kind != REQUEST or record.seq != self._next_seq:
            raise ProtocolError("requests are out of order")
        self._next_seq += 1
        if not self._begin():
            return  # the goodbye, which comes soon, answers it
        try:
            outcome = answer(self._handlers, record.op, Message(record.header, arrays, self))
            del arrays
            is_large = isinstance(outcome, Message) and _nbytes(outcome) > _LARGE
            self._replies.add(record.seq, outcome, more=self._stream.has_more and not is_large)
        finally:
            with self._state:
                self._busy = False
                self._state.notify_all()

    def _begin(self) -> bool:
        with self._state:
            self._busy = not (self._closing or self._over or self._broken)
            return self._busy

    def _send(self, replies: Sequence[tuple[int, Outcome]]) -> None:
        for seq, outcome in replies:
            kind, message = REPLY, outcome
            if isinstance(outcome, BaseException):
                kind, message = ERROR, Message(error_header(outcome))
            assert isinstance(message, Message)
            try:
                encoded = encode("", message.header, message.arrays, self._memory.put)
            except (TypeError, ValueError) as error:
                kind, encoded = ERROR, encode("", error_header(error), (), self._memory.put)
            self._sender.add(seq, kind, encoded)
            if _nbytes(message) > _LARGE:  # it need not wait until the next ones are ready
                self._flush()
        self._flush()

    def _flush(self) -> None:
        try:
            self._sender.flush()
        except OSError as error:
            self._broke(error)

    def _broke(self, error: Exception) -> None:
        """Nothing can be sent. Perhaps the client left: who reads finds that, or the end."""
        self._broken = self._broken or f"the connection broke: {error}"
        self._stream.end()


def _nbytes(message: Message) -> int:
    return sum(array.nbytes for array in message.arrays)


_WITHOUT_GOODBYE = f"it {CLOSED} without a goodbye, as when a process is killed"


_SECONDS_AT_EXIT = 1.0

_lock = ForkSafeLock()
_servers: dict[str, TransportServer] = {}


def register(address: str, server: TransportServer) -> None:
    """Let `find` know of a server that has started."""
    with _lock:
        _servers[address] = server


def forget(address: str, server: TransportServer) -> None:
    """The server at `address` has ended."""
    with _lock:
        if _servers.get(address) is server:
            del _servers[address]


def _close_all() -> None:
    """A process cannot end while its servers have clients."""
    with _lock:
        servers = list(_servers.values())
    for server in servers:
        server.close(_SECONDS_AT_EXIT)


def _forget_all() -> None:
    """A forked child reaches its parent's servers by the network, as everybody else does."""
    _servers.clear()


at_exit(_close_all)
in_forked_child(_forget_all, "a child does not serve")


def find(address: str) -> TransportServer | None:
    """The server of this process that listens at `address`."""
    with _lock:
        return _servers.get(address)


_log = logging.getLogger("drumline")

HEARTBEAT_SECONDS = 20.0
"""How long a peer may be silent before it is given up."""

GREETING_SECONDS = 10.0
"""How long a client may take to show that it knows the token, and to say what it wants."""
MOST_UNGREETED = 256
"""How many clients may be about to do so at once."""
_UNGREETED_SECONDS = 1.0
"""What each has at least, however many come."""
_BACKLOG = 1024


class TransportServer:
    """Listens at one address, and answers requests by handlers.

    Args:
        address: ``"host:port"`` of this machine; port 0 stands for a free one. It listens there and
            nowhere else.
        handlers: by operation. They run in one thread for each connection.
        token: the cluster's; see `cluster_token`.
        tls: encrypts the connections. None does as the environment says (see `tls.py`): without
            its variables all is sent in the clear.
        heartbeat_seconds: after which a client that is silent is given up.
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
        self._context: ssl.SSLContext | None = None
        self._listener: socket.socket | None = None
        self._port: int | None = None
        self._newcomers = _Newcomers()
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
        return f"{host}:{self._port}" if port == "0" and self._port else self._address

    @property
    def port(self) -> int:
        """The port at which it listens."""
        return int(self._address.rpartition(":")[2]) if self._port is None else self._port

    def start(self) -> None:
        """Listen; nothing if it does already.

        Raises:
            OSError: if the address is taken, or not one of this machine, or a TLS file cannot be
                used.
            RuntimeError: if the server was closed.
        """
        if self._closed:
            raise RuntimeError(f"The server at {self._address} was closed. Make a new one.")
        if self._listener is None:
            self._context = None if self._tls is None else server_context(self._tls)
            self._listener = _listening(self._address)
            self._port = int(self._listener.getsockname()[1])
            tell_in_child(self)
            register(self.address, self)
            threading.Thread(
                target=self._accept, args=(self._listener,), name="drumline-accept", daemon=True
            ).start()

    def close(self, seconds: float = 5.0) -> None:
        """Stop listening, let requests that run be answered, and end all connections.

        Args:
            seconds: how long to wait for requests that run; what still runs then is left behind.

        In a forked child nothing is done: the server is its parent's.
        """
        if os.getpid() != self._process:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            lanes, links = list(self._lanes.values()), list(self._links)
        forget(self.address, self)
        if self._listener is not None:
            with contextlib.suppress(OSError):  # wakes who accepts, who closes it
                self._listener.shutdown(socket.SHUT_RDWR)
        self._newcomers.end()
        for lane in lanes:
            lane.begin_closing()
        deadline = time.monotonic() + seconds
        for link in links:
            link.server_closes(max(0.0, deadline - time.monotonic()))
        for lane in lanes:
            lane.close(max(0.0, deadline - time.monotonic()))

    def forked(self) -> None:
        """Let a forked child not keep its parent's port."""
        if self._listener is not None:
            self._listener.close()

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

    def _accept(self, listener: socket.socket) -> None:
        with listener:
            while not self._closed:
                self._newcomers.wait_for_room()
                try:
                    connected, place = listener.accept()
                except OSError as error:
                    if not self._closed:  # it left again, or the process has too many files open
                        _log.warning("%s cannot take a connection: %s", self.address, error)
                        time.sleep(0.1)
                    continue
                self._newcomers.add(connected)
                peer = f"[{place[0]}]:{place[1]}" if ":" in place[0] else f"{place[0]}:{place[1]}"
                thread = threading.Thread(
                    target=self._serve, args=(connected, peer), name="drumline-lane", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError as error:  # there are as many as the system allows
                    _log.warning("%s refuses %s: %s", self.address, peer, error)
                    self._newcomers.remove(connected)
                    connected.close()

    def _serve(self, connected: socket.socket, peer: str) -> None:
        """Find out who has come and what for, and serve him."""
        try:
            lane = self._greeted(connected, peer)
        except (OSError, ProtocolError, AuthenticationError):  # a stranger, or gone already
            connected.close()
            return
        except BaseException:
            connected.close()
            raise
        finally:
            self._newcomers.remove(connected)
        if lane is not None:
            lane.serve()

    def _greeted(self, connected: socket.socket, peer: str) -> ServerLane | None:
        """The lane of a new client; None of a stream of beats, for a lane that there is."""
        deadline = time.monotonic() + GREETING_SECONDS
        stream = Stream(connected, self._context, None, deadline)
        be_greeted(stream, self.token)
        wishes = hear(stream)
        if wishes.get("stream") == "requests":
            return self._new_lane(stream, wishes, peer)
        if wishes.get("stream") != "beats":
            raise ProtocolError("a client wants a stream that there is not")
        number = wishes.get("lane")
        lane = self._lanes.get(number) if isinstance(number, int) else None
        if lane is None:
            raise ProtocolError("a client's beats are for no lane")
        tell(stream, {})
        lane.beat_by(Beats(stream))
        return None

    def _new_lane(self, stream: Stream, wishes: dict[str, Any], peer: str) -> ServerLane:
        memory = SharedMemory()
        try:
            accepted = memory.accept(wishes.get("memory"))
            with self._lock:
                number = self._number()
            silence = {"silence_seconds": self._heartbeat_seconds}
            tell(
                stream,
                {"lane": number, "memory": memory.offer(), "accepted": accepted, **silence},
            )
            memory.confirm(hear(stream).get("accepted"))
            interval = beat_interval(self._heartbeat_seconds, wishes.get("silence_seconds"))
            lane = ServerLane(
                *(number, peer, stream, memory, self.handlers, self._heartbeat_seconds, interval),
                ended=self._lane_ended,
            )
            with self._lock:
                if self._closed:
                    raise ConnectionAbortedError("the server was closed")
                self._lanes[number] = lane
        except BaseException:
            memory.close()
            raise
        try:
            tell(stream, {})
        except BaseException as error:
            memory.close()
            lane.end(f"the connection broke: {error}")
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


class _Newcomers:
    """Who has connected and not yet shown who he is, so that strangers cannot use up all threads.

    Where there are too many, the one who came first has to go, if he had a while.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._came: dict[socket.socket, float] = {}
        self._is_over = False

    def wait_for_room(self) -> None:
        """Wait until there is room for another one; make some if that takes long."""
        with self._changed:
            while len(self._came) >= MOST_UNGREETED and not self._is_over:
                first, came = next(iter(self._came.items()))
                left = came + _UNGREETED_SECONDS - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                else:
                    _shut_down(first)
                    del self._came[first]

    def add(self, connected: socket.socket) -> None:
        """One has come."""
        with self._changed:
            self._came[connected] = time.monotonic()
            if self._is_over:
                _shut_down(connected)

    def remove(self, connected: socket.socket) -> None:
        """One is known, or gone."""
        with self._changed:
            self._came.pop(connected, None)
            self._changed.notify_all()

    def end(self) -> None:
        """Have all go, and who comes later."""
        with self._changed:
            self._is_over = True
            for connected in self._came:
                _shut_down(connected)
            self._changed.notify_all()


def _shut_down(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):  # he has gone by himself
        connected.shutdown(socket.SHUT_RDWR)


def _listening(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        family, *_, place = _addresses.resolve(host, int(port))[0]
        both = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(place, family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except (OSError, UnicodeError, ValueError) as error:
        raise OSError(
            f"cannot listen at {address!r}: {error}. Give an address of this machine and a free "
            f"port, as 'host:port'."
        ) from None
