"""The rendezvous of processes over TCP: one of them listens, the others join it.

Two programs hold one: the processes of a training job (`drumline.distribute.process_group`), which
learn of each other once, and the launchers of several hosts (`drumline.jobs.launch.rendezvous`),
which continue to talk. They share what is here: messages are lines of bounded length; a process may
join before another one listens; one that connects is a stranger until it has introduced itself, for
which it has limited time; those who are missing are known by number. What they say differs: see
docs/inside/decisions.md.

On the wire a message is a line of text that ends with a line feed, which it does not contain; both
programs use JSON. `LineChannel` leaves the text to its subclasses, which may sign it.
"""

from __future__ import annotations

import abc
import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Generic, TypeVar

from drumline import _addresses
from drumline._lost_process import CLOSED

M = TypeVar("M")

STRANGERS_LINE = 64 * 1024
"""Bytes of a line, until the other side is known."""

_STRANGERS = 64
"""How many connections may be open that have not said who they are."""

_UNDISTURBED_SECONDS = 1.0
"""How long a stranger has before he must make room for another one, where there are too many."""

_SEND_SECONDS = 10.0
_CONNECT_SECONDS = 5.0
_STEP_SECONDS = 0.25


class ChannelError(Exception):
    """The other side is gone, or says what it should not."""


class EventLoop:
    """Calls back when a file descriptor is readable."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def watch(self, descriptor: int, callback: Callable[[], object]) -> None:
        """Call `callback` whenever `descriptor` is readable, until `forget`."""
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def forget(self, descriptor: int) -> None:
        """Watch `descriptor` no more."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def step(self, seconds: float) -> None:
        """Wait up to `seconds` for something to happen, and deal with what did."""
        for key, _ in self._selector.select(max(0.0, seconds)):
            key.data()

    def wait_until(
        self,
        ready: Callable[[], object],
        tick: Callable[[], object] = lambda: None,
        deadline: float | None = None,
    ) -> bool:
        """Run until `ready`, or the `time.monotonic` `deadline`; call `tick` after each step.

        Returns:
            Whether it was ready.
        """
        while not ready():
            self.check()
            left = _STEP_SECONDS if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            self.step(min(left, _STEP_SECONDS))
            tick()
        return True

    def check(self) -> None:
        """Raise what ends all waiting; nothing does here."""

    def close(self) -> None:
        """Watch nothing more."""
        self._selector.close()


class LineChannel(abc.ABC, Generic[M]):
    """Messages to and from one other process.

    A message that cannot be sent raises nothing: what the other side said before it left is to be
    heard first, and comes from `receive`, which then raises. (The system refuses to send as soon as
    it knows that the other side is gone, even while its last words are still unread.)

    Args:
        connection: a connected socket; the channel closes it.
        line_limit: how many bytes a line may have.

    Attributes:
        peer: the other's address, for messages to the user.
        line_limit: as given; it may be changed.
        heard_at: when something arrived last, by ``time.monotonic``.
        sent_at: when something was sent last.
        broken: why nothing can be sent any more; empty while it can.

    Raises:
        OSError: if the other side is gone already.
    """

    def __init__(self, connection: socket.socket, line_limit: int = STRANGERS_LINE) -> None:
        connection.settimeout(_SEND_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peer = str(connection.getpeername()[0])
        self.line_limit = line_limit
        self.sent_at = self.heard_at = time.monotonic()
        self._socket = connection
        self._buffer = b""
        self.broken = ""

    @abc.abstractmethod
    def encode(self, message: M) -> bytes:
        """Return the line of `message`, without its end. Called once for each message."""

    @abc.abstractmethod
    def decode(self, line: bytes) -> M | None:
        """Return the message of the next line, or None if it is for the channel alone.

        Raises:
            ChannelError: if it is none.
        """

    def fileno(self) -> int:
        """Return the socket's number, for a selector."""
        return self._socket.fileno()

    @property
    def local_address(self) -> str:
        """This host's address as the other sees it."""
        return str(self._socket.getsockname()[0])

    def send(self, message: M) -> None:
        """Say `message`, unless the other is gone: then `receive` tells, after the other's last."""
        line = self.encode(message)
        if self.broken:
            return
        try:
            self._socket.sendall(line + b"\n")
        except OSError as error:
            self._break(error)
        self.sent_at = time.monotonic()

    def receive(self) -> list[M]:
        """Return what has arrived; to be called when the socket is readable.

        Raises:
            ChannelError: if the other is gone, or sent an invalid line.
        """
        try:
            data = self._socket.recv(256 * 1024)
        except OSError as error:
            self._break(error)
            data = b""
        if not data:
            raise ChannelError(self.broken or f"it {CLOSED}")
        self.heard_at = time.monotonic()
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if any(len(line) > self.line_limit for line in (*lines, self._buffer)):
            raise ChannelError(f"it sent a line of more than {self.line_limit} bytes")
        messages = [self.decode(line) for line in lines]
        return [message for message in messages if message is not None]

    def keep_alive(self) -> None:
        """Let the other side know that this one lives, if the protocol has that.

        Raises:
            ChannelError: if the other side is silent for too long.
        """

    def detach(self) -> socket.socket:
        """Return the socket, which the channel leaves to the caller."""
        return self._socket

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _break(self, error: OSError) -> None:
        self.broken = self.broken or f"the connection broke ({error.strerror or error})"
        with contextlib.suppress(OSError):  # it is broken, so there is nothing to end
            # Half a line may have been sent. What has arrived can still be read.
            self._socket.shutdown(socket.SHUT_RDWR)


def connect(
    address: tuple[str, int], loop: EventLoop, deadline: float, retry_seconds: float
) -> socket.socket:
    """Connect to who listens at `address`, or soon will. Its name is resolved at each try.

    Args:
        address: host and port.
        loop: runs between two tries.
        deadline: by ``time.monotonic``.
        retry_seconds: between two tries.

    Raises:
        OSError: that of the last try, if none succeeds before the deadline; at once if the address
            cannot be a name.
    """
    problem: OSError = TimeoutError("no time to try")
    while (left := deadline - time.monotonic()) > 0:
        try:
            return _addresses.connect(*address, min(left, _CONNECT_SECONDS))
        except OSError as error:
            problem = error
        except UnicodeError as error:
            raise OSError(f"{address[0]!r} cannot be a name of a host: {error}") from None
        pause = time.monotonic() + retry_seconds
        loop.wait_until(lambda: False, deadline=min(pause, deadline))
    raise problem


def hear(
    channel: LineChannel[M], loop: EventLoop, ready: Callable[[list[M]], object], deadline: float
) -> list[M]:
    """Wait for messages until they are `ready`, and return them.

    The other side may be waiting for third ones for long; it knows meanwhile that this one lives.

    Raises:
        ChannelError: if the other side leaves before it has said anything, says something invalid,
            or is not done by the deadline.
    """
    heard: list[M] = []
    broken: list[ChannelError] = []

    def live() -> None:
        try:
            if not broken:
                channel.keep_alive()
        except ChannelError as error:
            broken.append(error)

    def listen() -> None:
        try:
            heard.extend(channel.receive())
        except ChannelError as error:
            broken.append(error)
            loop.forget(channel.fileno())

    loop.watch(channel.fileno(), listen)
    try:
        came = loop.wait_until(lambda: broken or ready(heard), live, deadline)
    finally:
        loop.forget(channel.fileno())
    if broken and not heard:
        raise broken[0]
    if not came:
        raise ChannelError("it did not answer in time")
    return heard


C = TypeVar("C", bound=LineChannel)


class RendezvousServer(Generic[C]):
    """The side that listens, until all processes that are expected have joined.

    Whatever reaches the port can connect. A stranger that is not expected is sent away. At most 64
    are let in at a time: of more, the one that has waited longest makes room once it has had a
    second, so that silent ones delay the others and do not keep them out.

    As a context manager it stops listening and ends the connections that `members` has not handed
    over when it is left.

    Args:
        listener: where they connect; the server closes it.
        expected: the numbers of those who are to come.
        open_channel: makes a channel of a connection.
        introduce: takes the first message of a stranger and returns its number, or None if it was
            refused. A member of the same number is replaced. For what is no introduction it raises
            `ChannelError`.
        lost: is called for each connection that is ended, by the reason, before it is closed.
        loop: where they are waited for.
        stranger_seconds: how long a stranger has to introduce himself.
    """

    def __init__(
        self,
        listener: socket.socket,
        expected: Collection[int],
        open_channel: Callable[[socket.socket], C],
        introduce: Callable[[C, object], int | None],
        lost: Callable[[C, str], object],
        loop: EventLoop,
        stranger_seconds: float,
    ) -> None:
        self._listener = listener
        self._expected = frozenset(expected)
        self._open_channel = open_channel
        self._introduce = introduce
        self._lost = lost
        self._loop = loop
        self._stranger_seconds = stranger_seconds
        self._strangers: dict[C, float] = {}  # when each came, the first first
        self._members: dict[int, C] = {}

    def __enter__(self) -> RendezvousServer[C]:
        self._listener.setblocking(False)  # who has come may leave before he is let in
        self._loop.watch(self._listener.fileno(), self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.forget(self._listener.fileno())
        self._listener.close()
        for channel in self._channels():
            self._forget(channel)

    @property
    def present(self) -> Mapping[int, C]:
        """Those who have joined, by number."""
        return self._members

    @property
    def missing(self) -> list[int]:
        """The numbers of those who have not."""
        return sorted(self._expected - self._members.keys())

    def wait(self, deadline: float) -> bool:
        """Wait until all have joined. Returns whether they had before the deadline."""
        return self._loop.wait_until(lambda: not self.missing, self._tick, deadline)

    def members(self) -> dict[int, C]:
        """Hand those who have joined over to the caller, who closes their channels."""
        members, self._members = self._members, {}
        for channel in members.values():
            self._loop.forget(channel.fileno())
        return members

    def _channels(self) -> Iterator[C]:
        yield from [*self._strangers, *self._members.values()]

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it left before it was let in
            return
        if len(self._strangers) >= _STRANGERS:
            first, came = next(iter(self._strangers.items()))
            if time.monotonic() - came < _UNDISTURBED_SECONDS:
                connection.close()
                return
            self._lose(first, f"it made room: more than {_STRANGERS} did not say who they are")
        try:
            channel = self._open_channel(connection)
        except OSError:
            connection.close()
            return
        self._strangers[channel] = time.monotonic()
        self._loop.watch(channel.fileno(), lambda: self._listen(channel))

    def _listen(self, channel: C) -> None:
        try:
            for message in channel.receive():
                if channel not in self._strangers:
                    raise ChannelError("it said more before it was answered")
                self._join(channel, message)
        except ChannelError as error:
            self._lose(channel, str(error))

    def _join(self, channel: C, message: object) -> None:
        number = self._introduce(channel, message)
        if number is None:
            self._forget(channel)
            return
        del self._strangers[channel]
        if number in self._members:
            self._lose(self._members[number], "another one came in its place")
        self._members[number] = channel

    def _tick(self) -> None:
        now = time.monotonic()
        for channel, came in list(self._strangers.items()):
            if now - came > self._stranger_seconds:
                seconds = f"{self._stranger_seconds:.0f} s"
                self._lose(channel, f"it did not say who it is within {seconds}")
        for channel in list(self._members.values()):
            try:
                channel.keep_alive()
            except ChannelError as error:
                self._lose(channel, str(error))

    def _lose(self, channel: C, why: str) -> None:
        self._lost(channel, why)
        self._forget(channel)

    def _forget(self, channel: C) -> None:
        self._loop.forget(channel.fileno())
        self._strangers.pop(channel, None)
        for number, member in list(self._members.items()):
            if member is channel:
                del self._members[number]
        channel.close()
