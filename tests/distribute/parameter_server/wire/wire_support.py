"""What the tests of the transport share."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from drumline.distribute.parameter_server.wire import Message, TransportServer
from drumline.distribute.parameter_server.wire import server as registry
from drumline.distribute.parameter_server.wire.stream import Stream

TOKEN = "a token for tests only"


class Handlers:
    """What the tests' servers do.

    Attributes:
        futures: replies that wait to be set, in the order of their requests.
        seen: the messages that came to ``note``.
        waiting: the messages for which ``wait`` has begun.
        gate: ``wait`` returns when it is set.
    """

    def __init__(self) -> None:
        self.futures: list[Future[Message]] = []
        self.seen: list[Message] = []
        self.waiting: list[Message] = []
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
        self.waiting.append(message)
        assert self.gate.wait(30)
        return Message({"waited": True})

    def fail(self, message: Message) -> Message:
        raise ValueError(message.header["text"])


def use_way(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way != "one process":
        monkeypatch.setattr(registry, "find", lambda address: None)
    monkeypatch.setenv("DRUMLINE_SHARED_MEMORY", "0" if way == "network" else "1")


@contextlib.contextmanager
def connected(server: TransportServer, seconds: float = 20.0) -> Iterator[Stream]:
    """A stream to a server, on which nothing was said yet."""
    near = socket.create_connection(("127.0.0.1", server.port))
    stream = Stream(near, None, None, time.monotonic() + seconds)
    try:
        yield stream
    finally:
        stream.close()


def wait_until(true: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
