"""The authenticated channel between two launchers."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Iterator

import pytest

from drumline.jobs.launch.rendezvous.channel import Channel, ChannelError
from drumline.jobs.launch.rendezvous.messages import HostFailure, Message, Trained, Welcome


@contextlib.contextmanager
def channels(*tokens: str | None) -> Iterator[tuple[Channel, Channel]]:
    """The two ends of a connection, host 0's first, which have not read each other's greeting."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connecting = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    leader = Channel(accepted, tokens[0], is_leader=True)
    member = Channel(connecting, tokens[1], is_leader=False)
    with contextlib.closing(leader), contextlib.closing(member):
        yield leader, member


def received(channel: Channel, count: int) -> list[Message]:
    """The next `count` messages; none of a greeting."""
    messages: list[Message] = []
    with selectors.DefaultSelector() as selector:
        selector.register(channel.fileno(), selectors.EVENT_READ)
        while len(messages) < count or not channel.greeted:
            assert selector.select(30), "nothing arrived"
            messages += channel.receive()
    return messages


@pytest.mark.parametrize("token", [None, "secret"])
def test_messages_arrive_in_order_on_both_sides(token: str | None) -> None:
    with channels(token, token) as (leader, member):
        received(leader, 0)
        received(member, 0)
        said = [Welcome(), HostFailure(text="a\nb\xff"), Trained()]
        for message in said:
            leader.send(message)
        member.send(Trained())
        assert received(member, 3) == said
        assert received(leader, 1) == [Trained()]


def test_another_token_is_refused() -> None:
    with channels("secret", "guess") as (leader, member):
        received(member, 0)
        member.send(Trained())
        with pytest.raises(ChannelError, match="does not know the same --rendezvous-token"):
            received(leader, 1)


@pytest.mark.parametrize("tokens", [("secret", None), (None, "secret")])
def test_one_side_without_a_token_is_named(tokens: tuple[str | None, str | None]) -> None:
    with channels(*tokens) as (leader, member):
        for channel, other in ((leader, tokens[1]), (member, tokens[0])):
            known, unknown = ("it", "this host") if other else ("this host", "it")
            with pytest.raises(ChannelError, match=f"{known} was started .* {unknown} without one"):
                received(channel, 0)


@pytest.mark.parametrize("kind", ["unsigned", "truncated", "oversized", "replayed", "not hex"])
def test_lines_that_prove_nothing_are_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with channels("secret", "secret") as (leader, member):
        received(leader, 0)
        received(member, 0)
        sent: list[bytes] = []
        connection = member._socket
        with monkeypatch.context() as patch:
            patch.setattr(member, "_socket", _Recording(sent))
            member.send(Trained())
        line = sent[0]
        proof, _, text = line.partition(b" ")
        forged = {
            "unsigned": text,
            "truncated": proof[:-2] + b" " + text,
            "oversized": proof + b"00 " + text,
            "not hex": b"\xff" * len(proof) + b" " + text,
            "replayed": line + line,
        }[kind]
        connection.sendall(forged)
        with pytest.raises(ChannelError, match="does not know the same --rendezvous-token"):
            received(leader, 2)


class _Recording:
    """In the place of a socket: keeps what would be sent."""

    def __init__(self, sent: list[bytes]) -> None:
        self._sent = sent

    def sendall(self, data: bytes) -> None:
        self._sent.append(data)
