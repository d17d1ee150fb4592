"""Servers and connections for the tests of the transport."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from drumline.distribute.parameter_server.transport import (
    Connection,
    Message,
    TransportServer,
    registry,
)

TOKEN = "a token for tests only"


class Handlers:
    """What the tests' servers do.

    Attributes:
        futures: replies that wait to be set, in the order of their requests.
        seen: the messages that came to ``note``.
        gate: ``wait`` returns when it is set.
    """

    def __init__(self) -> None:
        self.futures: list[Future[Message]] = []
        self.seen: list[Message] = []
        self.gate = threading.Event()

    def table(self) -> dict[str, Callable[[Message], Message | Future[Message]]]:
        return {
            "echo": lambda message: Message(message.header, message.arrays),
            "later": self.later,
            "note": self.note,
            "wait": self.wait,
            "fail": self.fail,
            "nonsense": lambda message: 3,  # type: ignore[dict-item,return-value]
            "unsendable": lambda message: Message({"x": object()}),
        }

    def later(self, message: Message) -> Future[Message]:
        self.futures.append(Future())
        return self.futures[-1]

    def note(self, message: Message) -> Message:
        self.seen.append(message)
        return Message({"lane": message.lane.number if message.lane else None})

    def wait(self, message: Message) -> Message:
        assert self.gate.wait(30)
        return Message({"waited": True})

    def fail(self, message: Message) -> Message:
        raise ValueError(message.header["text"])


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture(params=["flight", "shared memory", "one process"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a connection reaches its server, all of which must look the same."""
    use_way(request.param, monkeypatch)
    return str(request.param)


def use_way(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way != "one process":
        monkeypatch.setattr(registry, "find", lambda address: None)
    monkeypatch.setenv("DRUMLINE_SHARED_MEMORY", "0" if way == "flight" else "1")


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


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    deadline = time.monotonic() + 20
    while left := [t for t in threading.enumerate() if t.name.startswith("drumline-")]:
        assert time.monotonic() < deadline, f"threads are left: {left}"
        time.sleep(0.01)
