"""The rendezvous over TCP: framing, last words, joining, strangers, and who is missing."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline import _rendezvous
from drumline._rendezvous import (
    ChannelError,
    EventLoop,
    LineChannel,
    RendezvousServer,
    connect,
    hear,
)

SECONDS = 60.0


class Text(LineChannel[str]):
    """Lines as they are; those that begin with ``!`` are invalid, and ``.`` is for the channel."""

    def encode(self, message: str) -> bytes:
        return message.encode()

    def decode(self, line: bytes) -> str | None:
        if line.startswith(b"!"):
            raise ChannelError("it sent what is no message")
        return None if line == b"." else line.decode()


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    return near, far


@contextlib.contextmanager
def channel_and_peer(limit: int = 100) -> Iterator[tuple[Text, socket.socket]]:
    near, far = pair()
    channel = Text(near, limit)
    with contextlib.closing(channel), far:
        yield channel, far


def until(deadline: float = SECONDS) -> float:
    return time.monotonic() + deadline


def receive(channel: Text) -> list[str]:
    assert select.select([channel], [], [], SECONDS)[0]
    return channel.receive()


@given(st.lists(st.text("ab é", max_size=9), max_size=9), st.lists(st.integers(1, 20)))
def test_lines_arrive_whole_however_they_are_cut(said: list[str], cuts: list[int]) -> None:
    with channel_and_peer() as (channel, far):
        data = "".join(text + "\n" for text in said).encode()
        heard: list[str] = []
        for cut in [*cuts, len(data)]:
            piece, data = data[:cut], data[cut:]
            if piece:
                far.sendall(piece)
                heard += receive(channel)
        assert heard == said
        for text in said:
            channel.send(text)
        far.shutdown(socket.SHUT_WR)
        with pytest.raises(ChannelError, match="it has closed its connection"):
            receive(channel)
        assert channel.peer == channel.local_address == "127.0.0.1"


def test_what_the_channel_takes_for_itself_is_no_message() -> None:
    with channel_and_peer() as (channel, far):
        far.sendall(b".\none\n.\ntwo\n")
        assert receive(channel) == ["one", "two"]
        far.sendall(b"!\n")
        with pytest.raises(ChannelError, match="no message"):
            receive(channel)


@pytest.mark.parametrize("data", [b"x" * 101, b"x" * 101 + b"\n", b"\n" + b"x" * 101])
def test_a_line_that_is_too_long_is_refused(data: bytes) -> None:
    with channel_and_peer() as (channel, far):
        far.sendall(b"x" * 100 + b"\n")
        assert receive(channel) == ["x" * 100]
        far.sendall(data)
        with pytest.raises(ChannelError, match="a line of more than 100 bytes"):
            receive(channel)


def broken_connection() -> tuple[Text, socket.socket]:
    """A channel whose peer has said two last things and left without reading what it was sent."""
    near, far = pair()
    channel = Text(near)
    channel.send("unread")
    assert select.select([far], [], [], SECONDS)[0]
    far.sendall(b"first\nlast\n")
    far.close()
    gone = select.poll()
    gone.register(near, select.POLLHUP | select.POLLERR)
    assert gone.poll(SECONDS * 1000), "the peer's end has not arrived"
    return channel, near


def test_the_last_words_are_heard_when_sending_fails() -> None:
    channel, near = broken_connection()
    with near:
        assert not channel.broken
        channel.send("to nobody")
        assert channel.broken
        channel.send("again")
        assert receive(channel) == ["first", "last"]
        with pytest.raises(ChannelError, match="the connection broke .*(reset|pipe)"):
            receive(channel)


def test_a_peer_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rendezvous, "_SEND_SECONDS", 0.05)
    with channel_and_peer() as (channel, far):
        far.sendall(b"last\n")
        while not channel.broken:
            channel.send("x" * 1_000_000)
        assert receive(channel) == ["last"]
        with pytest.raises(ChannelError, match=r"the connection broke \(timed out\)"):
            receive(channel)


@contextlib.contextmanager
def running() -> Iterator[EventLoop]:
    with contextlib.closing(EventLoop()) as loop:
        yield loop


def test_connect_waits_for_who_will_listen() -> None:
    with socket.socket() as reserved, running() as loop:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        address = reserved.getsockname()
        tries: list[object] = []
        step = loop.step

        def listening_at_third_try(seconds: float) -> None:
            tries.append(seconds)
            if len(tries) == 3:
                reserved.listen()
            step(seconds)

        loop.step = listening_at_third_try  # type: ignore[method-assign]
        connect(address, loop, until(), 0.001).close()
        assert len(tries) >= 3


def test_connect_says_at_the_deadline_what_was_wrong() -> None:
    with socket.socket() as reserved, running() as loop:
        reserved.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            connect(reserved.getsockname(), loop, until(0.05), 0.001)
        with pytest.raises(TimeoutError, match="no time to try"):
            connect(reserved.getsockname(), loop, until(-1), 0.001)


def test_hear_waits_for_what_is_asked() -> None:
    with channel_and_peer() as (channel, far), running() as loop:
        far.sendall(b"one\n")
        assert hear(channel, loop, bool, until()) == ["one"]
        with pytest.raises(ChannelError, match="did not answer in time"):
            hear(channel, loop, bool, until(0.01))
        far.sendall(b"two\n")
        far.shutdown(socket.SHUT_WR)
        assert hear(channel, loop, lambda heard: len(heard) > 5, until()) == ["two"]
        with pytest.raises(ChannelError, match="closed its connection"):
            hear(channel, loop, bool, until())


class Host:
    """A server in whose lines ``N`` introduces member N, ``-`` is refused, all else is wrong."""

    def __init__(self, loop: EventLoop, expected: range, stranger_seconds: float = SECONDS) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()
        self.lost: list[str] = []
        self.refused = 0
        self.server = RendezvousServer(
            listener,
            expected,
            open_channel=Text,
            introduce=self._introduce,
            lost=self._note_lost,
            loop=loop,
            stranger_seconds=stranger_seconds,
        )

    def _introduce(self, channel: Text, message: Any) -> int | None:
        if message == "-":
            self.refused += 1
            channel.send("no")
            return None
        if not message.isdecimal():
            raise ChannelError(f"unexpected message {message!r}")
        channel.send("welcome")
        return int(message)

    def _note_lost(self, channel: Text, why: str) -> None:
        self.lost.append(why)

    def guest(self, said: bytes) -> socket.socket:
        connection = socket.create_connection(self.address)
        connection.sendall(said)
        return connection


@contextlib.contextmanager
def hosting(expected: range, stranger_seconds: float = SECONDS) -> Iterator[tuple[Host, EventLoop]]:
    with running() as loop:
        host = Host(loop, expected, stranger_seconds)
        with host.server:
            yield host, loop


def run(loop: EventLoop, ready: Callable[[], object]) -> None:
    assert loop.wait_until(ready, deadline=until()), "it did not happen"


def ended(guest: socket.socket) -> bool:
    guest.settimeout(SECONDS)
    with contextlib.suppress(ConnectionResetError):
        while guest.recv(100):
            pass
    return True


def test_all_who_are_expected_join_in_any_order() -> None:
    with hosting(range(1, 4)) as (host, _):
        assert host.server.missing == [1, 2, 3]
        guests = [host.guest(b"%d\n" % number) for number in (3, 1, 2)]
        assert host.server.wait(until())
        members = host.server.members()
    assert sorted(members) == [1, 2, 3] and not host.lost
    for number, guest in zip((3, 1, 2), guests, strict=True):
        assert guest.recv(100) == b"welcome\n"
        members[number].send(f"to {number}")
        assert guest.recv(100) == f"to {number}\n".encode()
        guest.close()
        members[number].detach().close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(host.address)


def test_those_who_are_missing_are_known() -> None:
    with hosting(range(1, 4)) as (host, _):
        guest = host.guest(b"2\n")
        assert not host.server.wait(until(0.3))
        assert host.server.missing == [1, 3] and list(host.server.present) == [2]
    assert ended(guest), "what was not handed over is closed"
    guest.close()


def test_strangers_are_sent_away_and_do_no_harm() -> None:
    with hosting(range(1, 2)) as (host, loop):
        for said, why in ((b"x\n", "unexpected message 'x'"), (b"!\n", "what is no message")):
            with host.guest(said) as stranger:
                run(loop, lambda why=why: host.lost and why in host.lost[-1])
                assert ended(stranger)
        host.guest(b"").close()
        run(loop, lambda: len(host.lost) == 3)
        with host.guest(b"-\n") as refused:
            run(loop, lambda: host.refused)
            assert refused.recv(100) == b"no\n" and ended(refused)
        assert len(host.lost) == 3, "who was refused knows why"
        with host.guest(b"1\n"):
            assert host.server.wait(until())


def test_a_silent_stranger_has_limited_time() -> None:
    with hosting(range(1, 2), stranger_seconds=0.05) as (host, _), host.guest(b"") as silent:
        assert not host.server.wait(until(1))
        assert host.lost == ["it did not say who it is within 0 s"] and ended(silent)


def test_there_are_only_so_many_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rendezvous, "_STRANGERS", 2)
    with hosting(range(1, 2)) as (host, loop), contextlib.ExitStack() as stack:
        first, second, third = (stack.enter_context(host.guest(b"")) for _ in range(3))
        gone = threading.Event()
        threading.Thread(target=lambda: ended(third) and gone.set()).start()
        run(loop, gone.is_set)
        assert not host.lost
        first.close()
        run(loop, lambda: host.lost)
        with host.guest(b"1\n"):
            assert host.server.wait(until())
        assert second.getpeername() == host.address


def test_silent_strangers_do_not_keep_a_member_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rendezvous, "_STRANGERS", 2)
    monkeypatch.setattr(_rendezvous, "_UNDISTURBED_SECONDS", 0.0)
    with hosting(range(1, 2)) as (host, _), contextlib.ExitStack() as stack:
        first = stack.enter_context(host.guest(b""))
        stack.enter_context(host.guest(b""))
        with host.guest(b"1\n"):
            assert host.server.wait(until())
        assert len(host.lost) == 1 and "it made room: more than 2" in host.lost[0]
        assert ended(first)


def test_one_who_leaves_or_says_too_much_is_missing_again() -> None:
    with hosting(range(1, 3)) as (host, loop):
        first, second = host.guest(b"1\n"), host.guest(b"2\nmore\n")
        run(loop, lambda: host.lost == ["it said more before it was answered"])
        run(loop, lambda: host.server.missing == [2])
        first.close()
        run(loop, lambda: host.server.missing == [1, 2])
        with second, host.guest(b"1\n"), host.guest(b"2\n"):
            assert host.server.wait(until())


def test_one_who_comes_again_replaces_himself() -> None:
    with hosting(range(1, 3)) as (host, loop), host.guest(b"1\n") as former:
        run(loop, lambda: host.server.missing == [2])
        with host.guest(b"1\n") as again, host.guest(b"2\n"):
            assert host.server.wait(until())
            run(loop, lambda: host.lost == ["another one came in its place"])
            assert ended(former)
            assert again.recv(100) == b"welcome\n"
            members = host.server.members()
            members[1].send("it is you")
            assert again.recv(100) == b"it is you\n"
            for channel in members.values():
                channel.close()


def test_members_are_kept_alive_while_others_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_: Text) -> None:
        raise ChannelError("nothing was heard of it")

    with hosting(range(1, 3)) as (host, loop), host.guest(b"1\n"):
        run(loop, lambda: host.server.missing == [2])
        monkeypatch.setattr(Text, "keep_alive", silent)
        assert not host.server.wait(until(0.3))
        assert host.lost == ["nothing was heard of it"] and host.server.missing == [1, 2]


def test_an_exception_while_waiting_closes_everything() -> None:
    class Stopped(EventLoop):
        def check(self) -> None:
            raise KeyboardInterrupt

    with contextlib.closing(Stopped()) as loop:
        host = Host(loop, range(1, 2))
        with pytest.raises(KeyboardInterrupt), host.server as server:
            server.wait(until())
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(host.address)
