"""TCP connections as streams of bytes, encrypted or not, and beats by which a peer shows it lives.

A `Stream` reads ahead into a buffer of its own, and large arrays straight into their memory. It
sends many pieces at once. One thread reads, writers hold `Stream.lock`, and any thread can end it,
which wakes both. Until it is set up it has a deadline.

Certificates for encrypted connections are given to all processes of a cluster by the environment:
``DRUMLINE_TLS_CERTIFICATE`` and ``DRUMLINE_TLS_KEY``, a process's own, and
``DRUMLINE_TLS_AUTHORITIES``, whom to believe, all PEM files; ``DRUMLINE_TLS_SERVER_NAME`` where the
certificates name another host than the cluster does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from drumline._forks import tell_in_child


@dataclasses.dataclass(frozen=True)
class ServerTls:
    """How a server shows who it is, and whether clients must.

    Attributes:
        certificate: its certificate chain, a PEM file.
        key: the certificate's private key, a PEM file.
        client_authorities: certificates that a client's must be signed by, a PEM file; None asks
            clients for no certificate.
    """

    certificate: Path
    key: Path
    client_authorities: Path | None = None


@dataclasses.dataclass(frozen=True)
class ClientTls:
    """Which servers a client believes, and how it shows who it is.

    Attributes:
        authorities: certificates that the server's must be signed by, a PEM file.
        certificate: its own certificate chain, a PEM file, where servers ask for one.
        key: the private key of `certificate`, a PEM file.
        server_name: the name in the servers' certificates, where it is not their host in the
            cluster.
    """

    authorities: Path
    certificate: Path | None = None
    key: Path | None = None
    server_name: str | None = None


def server_tls() -> ServerTls | None:
    """As the environment says; clients need a certificate if it names authorities.

    Raises:
        ValueError: if it names a certificate without its key, or the other way round.
    """
    certificate, key = _own()
    if certificate is None or key is None:
        return None
    return ServerTls(certificate, key, _file("AUTHORITIES"))


def client_tls() -> ClientTls | None:
    """As the environment says.

    Raises:
        ValueError: as `server_tls`.
    """
    authorities = _file("AUTHORITIES")
    if authorities is None:
        return None
    return ClientTls(authorities, *_own(), os.environ.get("DRUMLINE_TLS_SERVER_NAME"))


def _own() -> tuple[Path | None, Path | None]:
    certificate, key = _file("CERTIFICATE"), _file("KEY")
    if (certificate is None) != (key is None):
        raise ValueError(
            "DRUMLINE_TLS_CERTIFICATE and DRUMLINE_TLS_KEY go together: set both, or neither."
        )
    return certificate, key


def _file(name: str) -> Path | None:
    path = os.environ.get(f"DRUMLINE_TLS_{name}")
    return Path(path) if path else None


Buffer = bytes | memoryview

_READ_AHEAD = 256 * 1024
_READ_AHEAD_BEFORE = 4 * 1024
"""Of a stream that is not set up: whoever connects makes it take as much."""
_MOST_PARTS = 512
"""In one call of the system, which takes no more than 1024."""
_ENCRYPTED_AT_ONCE = 256 * 1024


class _Raw(Protocol):
    """The bytes of a connection."""

    def receive_into(self, view: memoryview, whole: bool) -> int:
        """Wait for bytes; for all of `view` if it is to be `whole`. 0 means the end."""

    def send(self, parts: Sequence[Buffer]) -> None:
        """Send everything."""


class Stream:
    """A connection as one of its sides sees it.

    One thread reads at a time. Writers take `lock`.

    Args:
        connected: the socket, which becomes the stream's own.
        tls: what encrypts it, or None.
        server_name: whom a client expects, by the certificate.
        deadline: for the TLS handshake, and for all that is read and written until
            `has_been_set_up`; a value of ``time.monotonic``.

    Attributes:
        lock: of writers.

    Raises:
        OSError: if the TLS handshake fails, or is not done by the deadline.
    """

    def __init__(
        self,
        connected: socket.socket,
        tls: ssl.SSLContext | None,
        server_name: str | None,
        deadline: float,
    ) -> None:
        self.lock = threading.Lock()
        self._socket = connected
        self._deadline: float | None = deadline
        self._buffer = memoryview(bytearray(_READ_AHEAD_BEFORE))
        self._start = self._stop = 0
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tell_in_child(self)
        self._raw: _Raw = _Plain(connected)
        if tls is not None:
            self._keep_to_deadline()
            self._raw = _Encrypted(connected, tls, server_name)

    def has_been_set_up(self, waits: bool = True) -> None:
        """Have no deadline any more.

        Args:
            waits: whether reading and writing then take their time. If not, they raise
                BlockingIOError.
        """
        self._deadline = None
        self._socket.settimeout(None if waits else 0)
        if waits:
            rest = self._buffer[self._start : self._stop]
            self._buffer = memoryview(bytearray(_READ_AHEAD))
            self._buffer[: len(rest)] = rest
            self._start, self._stop = 0, len(rest)

    def write(self, parts: Sequence[Buffer]) -> None:
        """Send all of `parts`, one after another. The caller holds `lock`.

        Raises:
            OSError: if the stream is broken, or was ended.
        """
        self._keep_to_deadline()
        self._raw.send(parts)

    def write_within(self, seconds: float, data: bytes) -> bool:
        """Send a few bytes, unless there is no room for them for that long. Returns whether it did.

        There is none while others write, or while the other side does not read.

        Raises:
            OSError: as `write`.
        """
        deadline = time.monotonic() + seconds
        if not self.lock.acquire(timeout=seconds):
            return False
        try:
            if not self._has_room(max(0.0, deadline - time.monotonic())):
                return False
            self.write([data])
        finally:
            self.lock.release()
        return True

    def _has_room(self, seconds: float) -> bool:
        """Wait until something can be written without waiting, or its attempt fails at once."""
        if self._socket.fileno() < 0:
            raise OSError(errno.EBADF, "the stream is closed")
        room = select.poll()
        room.register(self._socket, select.POLLOUT)
        return bool(room.poll(seconds * 1000))

    @property
    def has_more(self) -> bool:
        """Whether something was read ahead."""
        return self._stop > self._start

    def byte(self) -> int | None:
        """The next byte, or None at the end."""
        if self._start == self._stop and not self._fill():
            return None
        self._start += 1
        return self._buffer[self._start - 1]

    def take(self, count: int) -> memoryview:
        """The next `count` bytes, which are valid until something else is read.

        Raises:
            ConnectionAbortedError: if the stream ends before.
            OSError: if it is broken.
        """
        if count > len(self._buffer):
            whole = memoryview(bytearray(count))
            self.read_into(whole)
            return whole
        if self._start + count > len(self._buffer):
            rest = bytes(self._buffer[self._start : self._stop])
            self._buffer[: len(rest)] = rest
            self._start, self._stop = 0, len(rest)
        while self._stop - self._start < count:
            if not self._fill():
                raise _cut_off()
        self._start += count
        return self._buffer[self._start - count : self._start]

    def read_into(self, view: memoryview) -> None:
        """Fill `view` with what comes next.

        Raises:
            ConnectionAbortedError: if the stream ends before.
            OSError: if it is broken.
        """
        done = min(len(view), self._stop - self._start)
        view[:done] = self._buffer[self._start : self._start + done]
        self._start += done
        while done < len(view):
            self._keep_to_deadline()
            count = self._raw.receive_into(view[done:], whole=True)
            if not count:
                raise _cut_off()
            done += count

    def drop_arrived(self) -> int:
        """Read what there is, up to 4 kB, and forget it. Returns how much, 0 at the end.

        Raises:
            BlockingIOError: if there is nothing, of a stream that does not wait.
            OSError: if it is broken.
        """
        count = self._stop - self._start or self._raw.receive_into(self._buffer, whole=False)
        self._start = self._stop = 0
        return count

    def end_writing(self) -> None:
        """Write nothing more; the other side finds the end after what was sent."""
        with contextlib.suppress(OSError):  # it is broken, so there is nothing to end
            self._socket.shutdown(socket.SHUT_WR)

    def end(self) -> None:
        """End it, whoever reads or writes; what has arrived can still be read."""
        with contextlib.suppress(OSError):  # it is broken, so there is nothing to end
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it and free the socket, which no other thread may be reading."""
        self.end()
        with self.lock:
            self._socket.close()

    def forked(self) -> None:
        """Let a forked child not keep its parent's connection open."""
        self._socket.close()

    def _fill(self) -> bool:
        if self._start == self._stop:
            self._start = self._stop = 0
        self._keep_to_deadline()
        count = self._raw.receive_into(self._buffer[self._stop :], whole=False)
        self._stop += count
        return count > 0

    def _keep_to_deadline(self) -> None:
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._socket.settimeout(left)


class Beats:
    """A stream of its own on which each side says now and then that it lives.

    The stream of messages would not do: it is full while its reader is busy.

    Args:
        stream: set up, for nothing else.
    """

    def __init__(self, stream: Stream) -> None:
        stream.has_been_set_up(waits=False)
        self._stream = stream
        self._lock = threading.Lock()
        self._is_over = False

    def exchange(self) -> bool:
        """Say so, and return whether the other side has said so since the last call.

        It never waits.
        """
        with self._lock:
            if self._is_over:
                return False
            try:
                with contextlib.suppress(BlockingIOError), self._stream.lock:
                    self._stream.write([b"+"])
                return self._has_heard()
            except OSError:  # the stream of messages tells why, or silence does
                self._is_over = True
                return False

    def close(self) -> None:
        """Beat no more."""
        with self._lock:
            self._is_over = True
            self._stream.close()

    def _has_heard(self) -> bool:
        try:
            self._is_over = not self._stream.drop_arrived()
        except BlockingIOError:
            return False
        return not self._is_over


class _Plain:
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def receive_into(self, view: memoryview, whole: bool) -> int:
        return self._socket.recv_into(view, 0, socket.MSG_WAITALL if whole else 0)

    def send(self, parts: Sequence[Buffer]) -> None:
        views = [view for part in parts if len(view := memoryview(part).cast("B"))]
        first = 0
        while first < len(views):
            sent = self._socket.sendmsg(views[first : first + _MOST_PARTS])
            while first < len(views) and sent >= len(views[first]):
                sent -= len(views[first])
                first += 1
            if sent:
                views[first] = views[first][sent:]


class _Encrypted:
    """TLS through memory.

    An SSL object is not for two threads at once, and a read that waits must keep no writer waiting;
    so the socket is read and written outside of the lock of the SSL object. Who reads never writes,
    or two sides that write a lot would wait for each other: what TLS itself has to answer goes with
    what is written next.
    """

    def __init__(
        self, connected: socket.socket, context: ssl.SSLContext, server_name: str | None
    ) -> None:
        self._socket = connected
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_server = context.protocol == ssl.PROTOCOL_TLS_SERVER
        self._tls = context.wrap_bio(self._arrived, self._leaving, is_server, server_name)
        self._lock = threading.Lock()
        self._unsent = memoryview(b"")
        self._encrypted = bytearray(_READ_AHEAD)
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._send_encrypted()
                if not self._receive_encrypted():
                    raise ConnectionAbortedError(
                        "the connection ended within the TLS handshake"
                    ) from None
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._send_encrypted()  # the alert that says why
                raise
        self._send_encrypted()

    def receive_into(self, view: memoryview, whole: bool) -> int:
        while True:
            with self._lock:
                try:
                    return cast(int, self._tls.read(len(view), view))  # so it is with a buffer
                except ssl.SSLWantReadError:
                    pass
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    return 0
            if not self._receive_encrypted():
                return 0

    def send(self, parts: Sequence[Buffer]) -> None:
        small: list[Buffer] = []
        for part in parts:
            view = memoryview(part).cast("B")
            if len(view) < 16 * 1024:
                small.append(view)
                continue
            self._send(memoryview(b"".join(small)))
            small = []
            self._send(view)
        self._send(memoryview(b"".join(small)))

    def _send(self, view: memoryview) -> None:
        for start in range(0, len(view), _ENCRYPTED_AT_ONCE):
            if self._unsent:  # of a stream that does not wait
                self._send_encrypted()
            with self._lock:
                self._tls.write(view[start : start + _ENCRYPTED_AT_ONCE])
            self._send_encrypted()

    def _receive_encrypted(self) -> int:
        count = self._socket.recv_into(self._encrypted)
        with self._lock:
            self._arrived.write(memoryview(self._encrypted)[:count])
        return count

    def _send_encrypted(self) -> None:
        while True:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            with self._lock:
                self._unsent = memoryview(self._leaving.read())
            if not self._unsent:
                return


def server_context(tls: ServerTls) -> ssl.SSLContext:
    """What encrypts a server's streams.

    Raises:
        OSError: if a file is missing, or is no certificate or key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_up(context, tls.certificate, tls.key, tls.client_authorities)
    if tls.client_authorities is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """What encrypts a client's streams, and checks servers' certificates.

    Raises:
        OSError: as `server_context`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_up(context, tls.certificate, tls.key, tls.authorities)
    return context


def _set_up(context: ssl.SSLContext, certificate: object, key: object, authorities: object) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        if certificate is not None and key is not None:
            context.load_cert_chain(str(certificate), str(key))
        if authorities is not None:
            context.load_verify_locations(str(authorities))
    except OSError as error:
        files = ", ".join(str(file) for file in (certificate, key, authorities) if file)
        raise OSError(
            f"TLS cannot use the certificate, key and authorities {files}: {error}. All must be "
            f"PEM files that this process can read."
        ) from error


def _cut_off() -> ConnectionAbortedError:
    return ConnectionAbortedError("the connection ended within a message")
