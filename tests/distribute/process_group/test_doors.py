"""Who may take part in the meeting of a job's processes, and what strangers can do to it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from drumline import _addresses, _rendezvous
from drumline._authentication import FILE_VARIABLE, TOKEN_VARIABLE
from drumline._rendezvous import ChannelError, EventLoop
from drumline.distribute.process_group import rendezvous
from drumline.distribute.process_group.control_channel import (
    PROTOCOL,
    RefusedError,
    RendezvousChannel,
)
from drumline.distribute.process_group.group import ProcessGroup
from drumline.distribute.process_group.peers import LocalProcess
from tests.distribute.process_group.clusters import Cluster, Ended, running
from tests.ports import free_port

TOKEN = "a token of the tests alone"
GREETING = json.dumps({"protocol": PROTOCOL, "nonce": "00" * 32, "token": True}).encode() + b"\n"
IDLE = 300


def dial(address: str) -> socket.socket:
    """A connection to process 0, once it listens."""
    with contextlib.closing(EventLoop()) as loop:
        until = time.monotonic() + 60
        return _rendezvous.connect(_addresses.split(address), loop, until, 0.01)


def send_nonsense(address: str, *said: bytes) -> None:
    """One connection for each, until process 0 ends it."""
    for each in said:
        with dial(address) as stranger, contextlib.suppress(OSError):
            stranger.settimeout(30)
            stranger.sendall(each)
            while stranger.recv(65536):
                pass


def garbage(address: str, held: contextlib.ExitStack) -> None:
    noise = [os.urandom(300) + b"\n" for _ in range(20)]
    send_nonsense(address, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\n", b"{}\n", *noise)


def nested_lists(address: str, held: contextlib.ExitStack) -> None:
    lists = b"[" * 60_000 + b"\n"
    send_nonsense(address, lists, GREETING + lists, GREETING + b"0" * 64 + b" " + lists)


def introduction(address: str, **other: Any) -> dict[str, Any]:
    tasks, addresses = ["worker:0", "worker:1"], [address, "127.0.0.1:9"]
    process = LocalProcess.this().to_json()
    return {"tasks": tasks, "addresses": addresses, "index": 1, "process": process, **other}


def say(channel: RendezvousChannel, message: dict[str, Any]) -> dict[str, Any]:
    """What process 0 answers to a message, once it has greeted."""
    with contextlib.closing(EventLoop()) as loop:
        until = time.monotonic() + 30
        _rendezvous.hear(channel, loop, lambda heard: channel.greeted, until)
        channel.send(message)
        return _rendezvous.hear(channel, loop, bool, until)[0]


def wrong_token(address: str, held: contextlib.ExitStack) -> None:
    for token in ("a token of another cluster", None):
        with dial(address) as stranger:
            channel = RendezvousChannel(stranger, token, listens=False)
            with pytest.raises(RefusedError):
                say(channel, introduction(address))


def idle(address: str, held: contextlib.ExitStack) -> None:
    for _ in range(IDLE):
        held.enter_context(dial(address))


def half_handshakes(address: str, held: contextlib.ExitStack) -> None:
    for said in (GREETING[:40], GREETING, GREETING + b"0" * 64 + b" {"):
        for _ in range(40):
            with contextlib.suppress(ConnectionError):  # too many, and it was sent away
                held.enter_context(dial(address)).sendall(said)


def another_cluster(address: str, held: contextlib.ExitStack) -> None:
    with dial(address) as stranger:
        channel = RendezvousChannel(stranger, None, listens=False)
        assert "refused" in say(channel, introduction(address, tasks=["worker:0"], index=7))


Attack = Callable[[str, contextlib.ExitStack], None]
ATTACKS: list[Attack] = [
    garbage,
    nested_lists,
    wrong_token,
    idle,
    half_handshakes,
    another_cluster,
]
"""The last one on a job that has no token."""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Ended]]]:
    """Jobs of two processes, each attacked before its second process comes, and while it does."""
    folder = tmp_path_factory.mktemp("doors")
    given = {attack.__name__: {TOKEN_VARIABLE: TOKEN} for attack in ATTACKS[:-1]}
    clusters = [
        Cluster(
            attack.__name__,
            "late",
            {
                "name": str(folder / f"{attack.__name__}.attacked"),
                **{"index": 1, "fault": "leave and let work"},
            },
            env=given.get(attack.__name__, {}),
        )
        for attack in ATTACKS
    ]
    with running(folder, clusters) as run, contextlib.ExitStack() as held:
        lock = threading.Lock()

        def strike(attack: Attack) -> None:
            own = contextlib.ExitStack()
            with lock:
                held.enter_context(own)
            attack(run.address_of(attack.__name__), own)
            Path(folder, f"{attack.__name__}.attacked").touch()

        with ThreadPoolExecutor(len(ATTACKS)) as pool:
            list(pool.map(strike, ATTACKS))
            run.wait_for(*run.names)
        yield {attack.__name__: run.ended(attack.__name__) for attack in ATTACKS}


@pytest.mark.parametrize("attack", [attack.__name__ for attack in ATTACKS])
def test_a_job_starts_and_ends_well_whoever_else_connects(
    jobs: dict[str, list[Ended]], attack: str
) -> None:
    first, second = jobs[attack]
    for end in (first, second):
        assert (end.status, end.record) == (0, None), end.log
        assert end.facts["joined"] == ["worker:0", "worker:1"] and "done" in end.facts
    assert "sends a connection away from 127.0.0.1: it" in first.log
    assert second.log.count("sends a connection away") == 0


def test_the_log_says_why_and_is_not_flooded(jobs: dict[str, list[Ended]]) -> None:
    reasons = {
        "garbage": "it sent what is no message",
        "nested_lists": "it does not know the cluster's token",
        "wrong_token": "it does not know the cluster's token",
        # Who connects so slowly that there is room has its time up first.
        "idle": "it (made room: more than 64|did not say who it is within)",
        "half_handshakes": "it (made room: more than 64|did not say who it is within)",
        "another_cluster": r"it was given the cluster \['worker:0'\] at",
    }
    for attack, reason in reasons.items():
        log = jobs[attack][0].log
        assert re.search(reason, log), attack
        assert log.count("sends a connection away from") <= 10
    assert "it has no token" in jobs["wrong_token"][0].log
    assert "more connections away" in jobs["garbage"][0].log


def groups(address: str) -> list[ProcessGroup]:
    """Both processes of a cluster."""
    tasks = ("worker:0", "worker:1")
    return [ProcessGroup("worker", index, index, tasks, (address, "b:1")) for index in (0, 1)]


def test_who_has_not_the_token_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    own = threading.local()
    monkeypatch.setattr(rendezvous, "given_token", lambda: own.token)

    def meet_with(token: str | None, group: ProcessGroup, seconds: float) -> str:
        own.token = token
        with pytest.raises(RuntimeError) as caught:
            rendezvous.meet(group, seconds)
        return str(caught.value)

    said = {
        (TOKEN, None): "it has a token, and this process has none. Give all processes of the",
        (None, TOKEN): "it has no token. Give all processes of the cluster the same one, made for",
        (TOKEN, TOKEN + "x"): "it has another token. Give all processes of the cluster the same",
    }
    with ThreadPoolExecutor(6) as pool:
        meetings = []
        for tokens, message in said.items():
            both = groups(f"127.0.0.1:{free_port('127.0.0.1')}")
            each = zip(tokens, both, (8, 60), strict=True)  # a wrong one is found at once
            ends = [pool.submit(meet_with, *arguments) for arguments in each]
            meetings.append((message, both[0].addresses[0], ends))
        for message, address, (host, guest) in meetings:
            assert f"worker:1 cannot join worker:0 ({address}): {message}" in guest.result(60)
            assert "worker:1 did not come; a connection was sent away" in host.result(60)


def test_a_token_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    group = groups("127.0.0.1:9")[0]
    monkeypatch.setenv(TOKEN_VARIABLE, "short")
    with pytest.raises(RuntimeError, match="token in DRUMLINE_CLUSTER_TOKEN has 5 characters"):
        rendezvous.meet(group, 1)
    monkeypatch.delenv(TOKEN_VARIABLE)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(RuntimeError, match="token cannot be read from"):
        rendezvous.meet(group, 1)


def test_an_open_door_is_warned_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on loopback, where processes that are started by hand need nothing."""
    addresses = [f"127.0.0.1:{free_port('127.0.0.1')}", f"0.0.0.0:{free_port('127.0.0.1')}"]
    for address, token, warned in (
        (addresses[0], None, False),
        (addresses[1], None, True),
        (addresses[1], TOKEN, False),
    ):
        caplog.clear()
        if token is not None:
            monkeypatch.setenv(TOKEN_VARIABLE, token)
        with pytest.raises(RuntimeError, match="worker:1 did not come"):
            rendezvous.meet(groups(address)[0], 0.1)
        said = "waits for the others without a token" in caplog.text
        assert said == warned and ("openssl rand -hex 32" in caplog.text) == warned


def test_nothing_of_a_stranger_is_parsed_but_his_greeting(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, socket.create_connection(listener.getsockname()) as stranger:
        connection = listener.accept()[0]
        with contextlib.closing(RendezvousChannel(connection, TOKEN, listens=True)) as channel:
            stranger.sendall(GREETING)
            assert channel.receive() == [] and channel.greeted
            parsed: list[object] = []
            monkeypatch.setattr(json, "loads", parsed.append)
            stranger.sendall(b"{}\n")
            with pytest.raises(ChannelError, match="does not know the cluster's token"):
                channel.receive()
            assert not parsed
