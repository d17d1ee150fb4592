"""The authenticated channel between two launchers, and last words on a broken one."""

from __future__ import annotations

import contextlib
import select
import selectors
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from drumline._rendezvous import ChannelError
from drumline.jobs.launch.coordination import Report, Verdict
from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.loop import Loop
from drumline.jobs.launch.rendezvous.channel import LauncherChannel
from drumline.jobs.launch.rendezvous.leader import Leader
from drumline.jobs.launch.rendezvous.member import Member, _introduce
from drumline.jobs.launch.rendezvous.messages import (
    Hello,
    HostFailure,
    Message,
    Refusal,
    ReportMessage,
    Trained,
    VerdictMessage,
    Welcome,
)

HELLO = Hello(
    node=1,
    version="1",
    nodes=2,
    workers=1,
    ps=0,
    chief=False,
    evaluator=False,
    process_per_node=False,
    max_restarts=0,
    hang_after=None,
)


@contextlib.contextmanager
def channels(*tokens: str | None) -> Iterator[tuple[LauncherChannel, LauncherChannel]]:
    """The two ends of a connection, host 0's first, which have not read each other's greeting."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connecting = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    leader = LauncherChannel(accepted, tokens[0], is_leader=True)
    member = LauncherChannel(connecting, tokens[1], is_leader=False)
    with contextlib.closing(leader), contextlib.closing(member):
        yield leader, member


def received(channel: LauncherChannel, count: int) -> list[Message]:
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
def test_lines_that_prove_nothing_are_refused(kind: str) -> None:
    with channels("secret", "secret") as (leader, member):
        received(leader, 0)
        received(member, 0)
        line = member.encode(Trained()) + b"\n"
        proof, _, text = line.partition(b" ")
        forged = {
            "unsigned": text,
            "truncated": proof[:-2] + b" " + text,
            "oversized": proof + b"00 " + text,
            "not hex": b"\xff" * len(proof) + b" " + text,
            "replayed": line + line,
        }[kind]
        member.detach().sendall(forged)
        with pytest.raises(ChannelError, match="does not know the same --rendezvous-token"):
            received(leader, 2)


FAILED = "host 0: worker:0 failed"
INTERRUPTED = "The launcher of host 0 was interrupted."


def wait_for_its_end(channel: LauncherChannel) -> None:
    """Wait until the other side's end has arrived, whatever of it is still unread."""
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLHUP | select.POLLERR)
    assert poll.poll(60_000), "the other side has not ended"


@pytest.mark.parametrize("says", ["trained", "trouble", "report"])
def test_a_member_whose_send_fails_hears_what_host_0_said_before(says: str) -> None:
    """Host 0 ends without reading what this host says, so that the system resets the connection."""
    with channels(None, None) as (leader, channel), Loop() as loop:
        received(channel, 0)
        channel.send(Trained())
        assert select.select([leader], [], [], 60)[0]
        leader.send(HostFailure(text=FAILED))
        leader.send(VerdictMessage.of(Verdict(False, final=INTERRUPTED)))
        leader.close()
        wait_for_its_end(channel)
        member = Member(channel, loop)
        if says == "trained":
            member.report_trained()
        elif says == "trouble":
            member.report_trouble("something")
        if says != "report":
            assert loop.wait_until(lambda: member.trouble, deadline=time.monotonic() + 60)
            assert member.trouble == FAILED
        verdict = member.conclude(Report(False, (), 0))
        assert verdict.final == INTERRUPTED
        member.close()


def test_host_0_whose_send_fails_hears_why_a_member_left() -> None:
    with channels(None, None) as (channel, member), Loop() as loop:
        received(channel, 0)
        channel.send(Trained())
        assert select.select([member], [], [], 60)[0]
        member.send(HostFailure(text="the launcher was ended by SIGTERM"))
        member.send(ReportMessage.of(Report(False, (), 15)))
        member.close()
        wait_for_its_end(channel)
        leader = Leader({1: channel}, loop)
        leader.report_trouble("something")
        verdict = leader.conclude(Report(False, (), 0))
        assert leader.trouble == "" and verdict.final == "The launcher of host 1 was interrupted."
        leader.close()


def test_who_cannot_greet_host_0_hears_why_it_was_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, Loop() as loop:
        connecting = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        leader = LauncherChannel(accepted, None, is_leader=True)
        member = LauncherChannel(connecting, None, is_leader=False)
        assert select.select([leader], [], [], 60)[0]
        leader.send(Refusal(reason="it came too late"))
        leader.close()
        wait_for_its_end(member)
        with contextlib.closing(member), pytest.raises(LaunchError, match="it came too late"):
            _introduce(member, HELLO, loop, time.monotonic() + 60, "host 0")


def test_who_waits_for_a_third_one_is_not_taken_for_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take hours until all hosts of a cluster are there."""
    module = "drumline.jobs.launch.rendezvous.channel"
    monkeypatch.setattr(f"{module}._PING_SECONDS", 0.05)
    signs: list[float] = []

    def greet(leader: LauncherChannel) -> None:
        received(leader, 1)
        while len(signs) < 3 and select.select([leader], [], [], 30)[0]:
            assert leader.receive() == []
            signs.append(leader.heard_at)
        leader.send(Welcome())

    with channels(None, None) as (leader, member), Loop() as loop:
        thread = threading.Thread(target=greet, args=(leader,))
        thread.start()
        assert _introduce(member, HELLO, loop, time.monotonic() + 120, "host 0") == []
        thread.join()
    assert len(signs) == 3
