"""Servers and connections for the tests of the transport."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from drumline.distribute.parameter_server.wire import Connection, TransportServer
from tests.distribute.parameter_server.wire.wire_support import TOKEN, Handlers, use_way


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture(params=["network", "shared memory", "one process"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a connection reaches its server, all of which must look the same."""
    use_way(request.param, monkeypatch)
    return str(request.param)


@pytest.fixture
def server(way: str, handlers: Handlers) -> Iterator[TransportServer]:
    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN)
    server.start()
    with contextlib.closing(server):
        yield server
        handlers.gate.set()


@pytest.fixture
def connection(server: TransportServer) -> Iterator[Connection]:
    with Connection(server.address, token=TOKEN, timeout_seconds=30) as connection:
        yield connection


def _ends(name: str) -> bool:
    """Whether a thread of drumline's is to end with what it works for; those that copy stay."""
    return name.startswith("drumline-") and not name.startswith("drumline-copy")


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 20
    while left := [t for t in threading.enumerate() if _ends(t.name) and t not in before]:
        assert time.monotonic() < deadline, f"threads are left: {left}"
        time.sleep(0.01)
