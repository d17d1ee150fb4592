"""The asking side of the wire: a connection to another process.

`Connection` takes requests from any thread and gives futures. A server of the same process is
reached without the network (`in_flight.LocalLink`); else a `RemoteLink` has a stream of messages, a
reader thread that sets the futures, and a stream of beats, by which a silent server is noticed
(`watch`). Opening, the lookup of the name included, is bounded by `timeout_seconds`.

A link fails once, whatever the cause: then all its requests fail with the same
`PeerUnavailableError`, and so do those to come. A server's goodbye is read even if writing failed
before. Futures' callbacks run in the reader thread and must not wait for the same connection.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

import numpy as np

from drumline import _addresses
from drumline._authentication import HOW_TO_SET
from drumline._lost_process import CLOSED, NO_ANSWER, SHUT_DOWN, silent
from drumline.distribute.parameter_server.errors import (
    AuthenticationError,
    CallTimeoutError,
    PeerUnavailableError,
    ProtocolError,
    RemoteError,
    TransportError,
)
from drumline.distribute.parameter_server.wire import server as registry
from drumline.distribute.parameter_server.wire.arena import SharedMemory
from drumline.distribute.parameter_server.wire.codec import (
    ERROR,
    GOODBYE,
    REPLY,
    REQUEST,
    ArrayForm,
    Encoded,
    Message,
    MessageReader,
    Record,
    Request,
    Sender,
    encode,
)
from drumline.distribute.parameter_server.wire.greeting import (
    greet,
    hear,
    is_made_here,
    tell,
)
from drumline.distribute.parameter_server.wire.in_flight import LocalLink, RequestTable
from drumline.distribute.parameter_server.wire.server import HEARTBEAT_SECONDS
from drumline.distribute.parameter_server.wire.stream import (
    Beats,
    ClientTls,
    Stream,
    client_context,
    client_tls,
)
from drumline.distribute.parameter_server.wire.watch import beat_interval, watch

_MOST_BYTES = 1 << 30


class Connection:
    """One lane of requests to a server. Any thread may use it.

    Requests are handled in the order in which they were submitted, and each is answered as soon as
    its reply is ready. A server of the same process is reached without the network. Callbacks of
    the futures run in the thread that reads the replies, and must not wait for others of this
    connection.

    Args:
        address: the server's ``"host:port"``.
        token: the cluster's; see `cluster_token`.
        tls: whom to believe, where the server encrypts; None does as the environment says.
        timeout_seconds: for connecting, and for each `call` that names no other.
        heartbeat_seconds: after which a server that is silent is given up.
        most_bytes: of arrays that may be on their way, or waited for; `submit` waits for room.

    Attributes:
        address: the server's.
        in_process: whether the server is part of this process.

    Raises:
        PeerUnavailableError: if nothing listens at the address, or it does not answer in time.
        AuthenticationError: if the server has another token, or there is none to share with it.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str,
        tls: ClientTls | None = None,
        timeout_seconds: float = 60.0,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self.address = address
        self._process = os.getpid()
        self._timeout_seconds = timeout_seconds
        self._link: RemoteLink | LocalLink
        server = registry.find(address)
        self.in_process = server is not None
        if server is not None:
            self._link = LocalLink(address, server, token, most_bytes)
        else:
            self._link = RemoteLink(
                *(address, token, tls or client_tls()),
                timeout_seconds=timeout_seconds,
                silence_seconds=heartbeat_seconds,
                most_bytes=most_bytes,
            )

    def submit(
        self, op: str, header: dict[str, Any], arrays: Sequence[np.ndarray] = ()
    ) -> Future[Message]:
        """Send a request, and return its reply to come.

        The arrays must not change until then. The future fails with a `RemoteError` if the handler
        raised, and with a `PeerUnavailableError` if the server is gone.

        Args:
            op: the operation.
            header: what JSON can hold.
            arrays: of numbers, times or fixed-size strings.

        Raises:
            PeerUnavailableError: if the server was found gone already.
            TypeError: if the header or an array cannot be sent.
        """
        return self.submit_many([(op, header, arrays)])[0]

    def submit_many(self, requests: Sequence[Request]) -> list[Future[Message]]:
        """Send several requests at once, small ones together; see `submit`.

        That takes about half the processor time of as many calls of `submit`.

        Args:
            requests: operation, header and arrays of each.

        Raises:
            TransportError: in a forked child of the process that made the connection.
        """
        if os.getpid() != self._process:
            raise TransportError(
                f"The connection to {self.address} was made before this process was forked. "
                f"Make connections after the fork."
            )
        return self._link.submit_many(requests)

    def call(
        self,
        op: str,
        header: dict[str, Any],
        arrays: Sequence[np.ndarray] = (),
        timeout_seconds: float | None = None,
    ) -> Message:
        """Send a request and wait for its reply; see `submit`.

        Raises:
            CallTimeoutError: if it does not come in time.
            RemoteError: if the handler raised.
            PeerUnavailableError: if the server is gone.
        """
        limit = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        future = self.submit(op, header, arrays)
        try:
            return future.result(limit)
        except FutureTimeoutError:
            if future.done():
                raise
            raise CallTimeoutError(
                f"{self.address} has not answered {op!r} within {limit:.3g} s, though it is alive."
            ) from None

    @property
    def is_lost(self) -> bool:
        """Whether it has ended, by whatever cause."""
        return self._link.is_lost

    def empties(self, forms: Sequence[ArrayForm]) -> list[np.ndarray]:
        """Uninitialised, 64-byte aligned arrays of these shapes and dtypes for one request.

        It need not copy them.
        """
        return self._link.empties(forms)

    def close(self) -> None:
        """End the connection. Requests without a reply fail with a `PeerUnavailableError`.

        In a forked child nothing is done: the connection is its parent's.
        """
        if os.getpid() == self._process:
            self._link.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_GOODBYE_SECONDS = 0.2


class RemoteLink:
    """Sends requests on a stream that stays open, and matches the replies.

    Args:
        address: of the server.
        token: the cluster's.
        tls: whom to believe, and None without encryption.
        timeout_seconds: for connecting.
        silence_seconds: how long the server may be silent before it is given up.
        most_bytes: that may be in flight.

    Attributes:
        interval: seconds from one `check` to the next.

    Raises:
        AuthenticationError: if the tokens differ, or there is none to share.
        PeerUnavailableError: if nothing listens there, or it does not answer in time.
    """

    def __init__(
        self,
        address: str,
        token: str,
        tls: ClientTls | None,
        timeout_seconds: float,
        silence_seconds: float,
        most_bytes: int,
    ) -> None:
        self._address = address
        self._silence_seconds = silence_seconds
        self._pending = RequestTable(most_bytes)
        self._order = threading.Lock()
        self._next_seq = 0
        self._memory = SharedMemory()
        opening = _Opening(address, token, tls, timeout_seconds)
        try:
            self._stream, self._beats, theirs = opening.streams(self._memory, silence_seconds)
        except BaseException:
            self._memory.close()
            raise
        self.interval = beat_interval(silence_seconds, theirs)
        self._sender = Sender(self._stream)
        self._messages = MessageReader(self._stream, self._memory.arrays)
        self._broken: str | None = None
        self._last_heard = watch.now()
        self._reader = threading.Thread(target=self._read, name="drumline-reader", daemon=True)
        watch.add(self)
        self._reader.start()

    def submit_many(self, requests: Sequence[Request]) -> list[Future[Message]]:
        """See `Connection.submit_many`."""
        ready = [encode(*request, self._memory.put) for request in requests]
        for encoded in ready:
            self._pending.wait_for_room(encoded.nbytes)
        with self._order:
            futures = [self._enqueued(encoded) for encoded in ready]
        try:
            self._sender.flush()
        except OSError as error:
            # Perhaps the server has said why before it went: the reader finds that, or the end.
            self._broken = f"the connection broke: {error}"
            self._stream.end()
        return futures

    @property
    def is_lost(self) -> bool:
        """See `Connection.is_lost`."""
        return self._pending.has_failed

    def empties(self, forms: Sequence[ArrayForm]) -> list[np.ndarray]:
        """See `Connection.empties`."""
        return self._memory.empties(forms)

    def close(self) -> None:
        """See `Connection.close`."""
        here = self._reader is threading.current_thread()
        if self._fail("this side has closed the connection"):
            with contextlib.suppress(OSError):  # it was gone already, which is just as well
                # So that the server knows this from a crash.
                if self._stream.write_within(_GOODBYE_SECONDS, GOODBYE):
                    self._stream.end_writing()
                    if not here:
                        self._reader.join(_GOODBYE_SECONDS)  # it ends when the server has heard it
        self._stream.end()
        if not here:
            self._reader.join()

    def check(self, now: float) -> None:
        """Say that this side lives, and give the server up if it has been silent for too long."""
        self._memory.trim()
        if self._beats.exchange():
            self._last_heard = now
        seconds = now - self._last_heard
        if seconds > self._silence_seconds and self._fail(
            f"it {silent(seconds)}: it is stopped or cut off"
        ):
            self._stream.end()

    def _enqueued(self, encoded: Encoded) -> Future[Message]:
        future = self._pending.add(self._next_seq, encoded.nbytes)
        self._sender.add(self._next_seq, REQUEST, encoded)
        self._next_seq += 1
        return future

    def _read(self) -> None:
        reason = f"it {CLOSED}"
        try:
            while self._read_reply():
                pass
            reason = f"it {SHUT_DOWN}"
        except EOFError:
            reason = self._broken or reason
        except ProtocolError as error:
            reason = f"it broke the protocol: {error}"
        except MemoryError as error:
            reason = f"a reply does not fit into memory: {error}"
        except OSError as error:
            reason = self._broken or f"the connection broke: {error}"
        finally:
            self._fail(reason)
            self._beats.close()
            self._stream.close()
            self._memory.close()

    def _read_reply(self) -> bool:
        """Returns whether others may follow.

        Nothing that was received outlives the call: memory that is free when the next message comes
        is used again, and need not be fetched from the system.
        """
        received = self._messages.read()
        if received is None:
            return False
        self._last_heard = watch.now()
        if not self._pending.has_failed:  # or all have their answer
            self._deliver(*received)
        return True

    def _deliver(self, record: Record, arrays: list[np.ndarray]) -> None:
        future = self._pending.pop(record.seq)
        if future is None:
            return
        if record.kind == REPLY:
            future.set_result(Message(record.header, arrays))
        elif record.kind == ERROR:
            said = [str(record.header.get(key, "")) for key in ("type", "message", "traceback")]
            future.set_exception(RemoteError(self._address, said[0], said[1], said[2]))
        else:
            future.set_exception(ProtocolError("a server sent a request"))

    def _fail(self, reason: str) -> bool:
        watch.remove(self)
        return self._pending.fail(PeerUnavailableError(self._address, reason))


class _Opening:
    """Connects to a server, and has both sides prove to each other to know the token."""

    def __init__(
        self, address: str, token: str, tls: ClientTls | None, timeout_seconds: float
    ) -> None:
        if is_made_here(token):
            raise AuthenticationError(
                f"No server of this process listens at {address}, and other processes need the "
                f"cluster's token, which is not set. {HOW_TO_SET}"
            )
        self._address = address
        self._token = token
        self._seconds = timeout_seconds
        self._deadline = time.monotonic() + timeout_seconds
        self._context = None if tls is None else client_context(tls)
        host, _, port = address.rpartition(":")
        self._place = host.strip("[]"), port
        self._name = None if tls is None else tls.server_name or self._place[0]

    def streams(self, memory: SharedMemory, silence_seconds: float) -> tuple[Stream, Beats, float]:
        """The stream of messages, that of beats, and the silence that the server allows."""
        opened: list[Stream] = []
        try:
            return self._streams(opened, memory, silence_seconds)
        except BaseException as error:
            for stream in opened:
                stream.close()
            if isinstance(error, AuthenticationError):
                raise AuthenticationError(
                    f"{self._address} refuses the connection: {error}"
                ) from None
            if isinstance(error, OSError | ProtocolError | UnicodeError | ValueError):
                raise PeerUnavailableError(self._address, self._reason(error)) from None
            raise

    def _streams(
        self, opened: list[Stream], memory: SharedMemory, silence_seconds: float
    ) -> tuple[Stream, Beats, float]:
        stream = self._open(opened)
        silence = {"silence_seconds": silence_seconds}
        tell(stream, {"stream": "requests", "memory": memory.offer(), **silence})
        granted = hear(stream)
        if "refused" in granted:
            raise ProtocolError(str(granted["refused"]))
        memory.confirm(granted.get("accepted"))
        tell(stream, {"accepted": memory.accept(granted.get("memory"))})
        hear(stream)  # it knows the lane from now on
        beats = self._open(opened)
        tell(beats, {"stream": "beats", "lane": granted.get("lane")})
        hear(beats)
        stream.has_been_set_up()
        return stream, Beats(beats), granted.get("silence_seconds", silence_seconds)

    def _open(self, opened: list[Stream]) -> Stream:
        connected = _addresses.connect(*self._place, max(0.0, self._deadline - time.monotonic()))
        try:
            stream = Stream(connected, self._context, self._name, self._deadline)
        except BaseException:
            connected.close()
            raise
        opened.append(stream)
        greet(stream, self._token)
        return stream

    def _reason(self, error: BaseException) -> str:
        match error:
            case TimeoutError():
                return f"it {NO_ANSWER} within {self._seconds:.3g} s"
            case ConnectionRefusedError():
                return f"nothing listens there ({error})"
            case ssl.SSLError():
                return f"no encrypted connection can be made: {error}"
            case ConnectionError():
                return (
                    f"it ended the connection before it was set up ({error}). Do both sides, or "
                    f"neither, use TLS?"
                )
        return str(error)
