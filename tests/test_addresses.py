"""Addresses of processes: looking names up in limited time, connecting, and listening."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from drumline import _rendezvous
from drumline._addresses import connect, listen, on_host_of, resolve, split


def test_addresses_are_split() -> None:
    assert split("10.0.0.1:2222") == ("10.0.0.1", 2222)
    assert split("host.example:1") == ("host.example", 1)
    assert split("[fd00::1]:65535") == ("fd00::1", 65535)


@pytest.mark.parametrize(
    "address",
    ["", "a", ":1", "a:", "a:0", "a:65536", "a:-1", "a:1.0", "a: 1", "a:1 ", "a:b:1", "::1:2222"]
    + [
        "[::1]",
        "[]:1",
        "[::1:2",
        "::1]:2",
        "fd00::2222",
        "http://a:1",
        "a:\N{ARABIC-INDIC DIGIT ONE}",
    ],
)
def test_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(ValueError, match="is not an address: write host:port"):
        split(address)


def test_hosts_are_compared_without_ports() -> None:
    others = ["a:1", "a:2", "b:1", "[::1]:1"]
    assert [on_host_of(each, others) for each in ("a:9", "[::1]:9", "c:1")] == [2, 1, 0]


def test_it_listens_at_one_address_only() -> None:
    with listen("127.0.0.2", 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.2"
        with pytest.raises(OSError, match="in use"):
            listen(*listener.getsockname())
    with pytest.raises(OSError, match="assign"):
        listen("203.0.113.1", 2222)


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A name server that says nothing of ``slow.example`` until the event is set."""
    answers, real = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host: str, port: Any, *args: Any, **options: Any) -> Any:
        if host == "slow.example" and not options.get("flags"):
            assert answers.wait(60)
            host = "127.0.0.1"
        return real(host, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield answers
    answers.set()


def test_a_lookup_has_limited_time(name_server: threading.Event) -> None:
    before = set(threading.enumerate())
    for _ in range(3):
        for attempt in (resolve, connect, listen):
            with pytest.raises(OSError, match="'slow.example' was not resolved within 0.02 s"):
                attempt("slow.example", 1, 0.02)
    assert len(set(threading.enumerate()) - before) <= 1, "all wait for one lookup"
    name_server.set()
    assert resolve("slow.example", 5, 60)[0].place == ("127.0.0.1", 5)
    with listen("slow.example", 0, 60) as listener:
        port = listener.getsockname()[1]
        with connect("slow.example", port, 60) as connected:
            assert connected.getpeername() == ("127.0.0.1", port)


def test_numbers_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Thread", None)
    assert resolve("127.0.0.1", 5)[0].place == ("127.0.0.1", 5)
    assert resolve("::1", 5)[0].place[:2] == ("::1", 5)


@pytest.mark.parametrize("name", ["\ud800", "a" * 70 + ".example", "no-such-name.invalid"])
def test_a_name_that_is_none(name: str) -> None:
    for attempt in (resolve, lambda name, port: connect(name, port, 60)):
        with pytest.raises((OSError, UnicodeError)):
            attempt(name, 1)


def test_connecting_ends_when_the_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        with pytest.raises(TimeoutError):
            connect(*full.getsockname(), 0.1)
        for each in waiting:
            each.close()


def test_a_rendezvous_does_not_wait_for_a_name_server(name_server: threading.Event) -> None:
    loop = _rendezvous.EventLoop()
    with pytest.raises(OSError, match="was not resolved"):
        _rendezvous.connect(("slow.example", 1), loop, time.monotonic() + 0.1, 0.01)
    with pytest.raises(OSError, match="cannot be a name"):
        _rendezvous.connect(("a" * 70 + ".example", 1), loop, time.monotonic() + 60, 0.01)
    loop.close()


@pytest.mark.filterwarnings("ignore:os.fork")  # of JAX, if another test has imported it
def test_a_forked_child_looks_up_by_itself(name_server: threading.Event) -> None:
    with pytest.raises(OSError, match="was not resolved"):
        resolve("slow.example", 5, 0.02)
    child = os.fork()
    if not child:
        name_server.set()
        os._exit(resolve("slow.example", 5, 60)[0].place != ("127.0.0.1", 5))
    assert os.waitpid(child, 0)[1] == 0
