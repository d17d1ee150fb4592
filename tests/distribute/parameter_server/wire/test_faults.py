"""Peers that are killed, stopped, closed or cut off."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drumline.distribute.parameter_server.wire import (
    CallTimeoutError,
    Connection,
    Message,
    PeerUnavailableError,
    TransportError,
    TransportServer,
)
from drumline.distribute.parameter_server.wire import watch as watch_module
from drumline.distribute.parameter_server.wire.server import _LINGER_SECONDS
from drumline.distribute.parameter_server.wire.watch import Watch
from tests.distribute.parameter_server.wire.wire_support import (
    TOKEN,
    Handlers,
    use_way,
    wait_until,
)

PEER = Path(__file__).with_name("peer_process.py")
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, shared_memory: bool = True) -> subprocess.Popen[str]:
        env = {**os.environ, "DRUMLINE_SHARED_MEMORY": str(int(shared_memory))}
        process = subprocess.Popen(
            [sys.executable, str(PEER), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ended(process: subprocess.Popen[str]) -> int:
    assert process.stdin is not None
    process.stdin.close()
    return process.wait(30)


def test_a_killed_server_fails_what_waits_and_what_comes(start: Start) -> None:
    process = start("serve", "127.0.0.1:0", TOKEN)
    address = line_of(process)
    connection = Connection(address, token=TOKEN, timeout_seconds=30)
    connection.call("echo", {}, [np.ones(100_000)])
    waiting = [connection.submit("hang", {}), connection.submit("echo", {}, [np.ones(100_000)])]
    process.kill()
    killed = time.monotonic()
    for future in waiting:
        with pytest.raises(PeerUnavailableError, match=address):
            future.result(20)
    assert time.monotonic() - killed < 10
    with pytest.raises(PeerUnavailableError):
        connection.submit("echo", {})
    connection.close()
    with pytest.raises(PeerUnavailableError):
        Connection(address, token=TOKEN, timeout_seconds=10)
    again = start("serve", address, TOKEN)
    assert line_of(again) == address
    with Connection(address, token=TOKEN) as fresh:
        assert fresh.call("echo", {"back": 1}).header == {"back": 1}


@pytest.mark.parametrize("shared_memory", [True, False])
def test_a_server_killed_while_threads_send(start: Start, shared_memory: bool) -> None:
    process = start("serve", "127.0.0.1:0", TOKEN, shared_memory=shared_memory)
    connection = Connection(line_of(process), token=TOKEN, most_bytes=100_000_000)
    endings: list[BaseException] = []

    def send() -> None:
        with contextlib.suppress(PeerUnavailableError):
            for _ in range(100_000):
                connection.submit("echo", {}, [np.ones(3_000_000, np.uint8), np.ones(3)])
            endings.append(AssertionError("it never failed"))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    process.kill()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    connection.close()
    assert not endings


def test_a_stopped_server_is_noticed_by_its_silence(start: Start) -> None:
    process = start("serve", "127.0.0.1:0", TOKEN)
    address = line_of(process)
    slow = Connection(address, token=TOKEN, heartbeat_seconds=60)
    connection = Connection(address, token=TOKEN, heartbeat_seconds=1)
    connection.call("echo", {})
    process.send_signal(signal.SIGSTOP)
    waiting = connection.submit("echo", {}, [np.ones(1_000_000)])
    with pytest.raises(CallTimeoutError, match="'echo' within 0.1 s"):
        slow.call("echo", {}, timeout_seconds=0.1)
    with pytest.raises(PeerUnavailableError, match="it has sent no heartbeat for"):
        waiting.result(20)
    with pytest.raises(PeerUnavailableError, match="does not answer within 0.3 s"):
        Connection(address, token=TOKEN, timeout_seconds=0.3)
    connection.close()
    process.send_signal(signal.SIGCONT)
    assert slow.call("echo", {"late": 1}, timeout_seconds=30).header == {"late": 1}
    slow.close()


def test_a_busy_or_silent_handler_is_not_taken_for_a_dead_server(start: Start) -> None:
    process = start("serve", "127.0.0.1:0", TOKEN)
    with Connection(line_of(process), token=TOKEN, heartbeat_seconds=0.5) as connection:
        waiting = connection.submit("hang", {})
        time.sleep(1.2)
        assert not waiting.done()
    with pytest.raises(PeerUnavailableError, match="this side has closed"):
        waiting.result(0)
    assert ended(process) == 0, "nor does a handler that goes on"


def test_a_client_that_sends_while_a_handler_works_is_not_taken_for_a_silent_one(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads its messages meanwhile, so what says that it lives must not be among them."""
    use_way("network", monkeypatch)
    left: list[str] = []
    server = TransportServer(
        *("127.0.0.1:0", handlers.table()),
        token=TOKEN,
        heartbeat_seconds=0.6,
        client_left=lambda lane, reason: left.append(reason),
    )
    server.start()
    connected = Connection(server.address, token=TOKEN, heartbeat_seconds=0.6)
    large = np.ones(8_000_000, np.uint8)
    with contextlib.closing(server), connected as connection:
        waiting = connection.submit("wait", {})
        sending = threading.Thread(
            target=connection.submit_many, args=([("note", {}, [large])] * 4,)
        )
        sending.start()
        time.sleep(1.5)  # the silence that is allowed, more than twice
        assert sending.is_alive() and not left, "the connection is full, and not given up"
        handlers.gate.set()
        assert waiting.result(20).header == connection.call("wait", {}).header
        sending.join(20)


def test_a_stopped_client_is_noticed_while_a_handler_works(start: Start) -> None:
    process = start("serve", "127.0.0.1:0", TOKEN, shared_memory=False)
    client = start("busy", line_of(process), TOKEN, shared_memory=False)
    assert line_of(client) == "connected"
    client.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    assert "it has sent no heartbeat for" in line_of(process)
    assert time.monotonic() - stopped < 40, "the handler takes a minute"


def test_a_child_that_outlives_its_killed_parent_keeps_no_connection_open(start: Start) -> None:
    process = start("serve", "127.0.0.1:0", TOKEN, "60")
    client = start("fork", line_of(process), TOKEN)
    child = int(line_of(client))
    try:
        client.kill()
        assert "without a goodbye" in line_of(process), "it is noticed by its end, not its silence"
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_has_a_watch_of_its_own() -> None:
    watch = Watch()
    watch._members = {object()}  # type: ignore[arg-type]
    watch._thread = threading.current_thread()
    watch._changed.acquire()
    watch.forget()  # as the child does
    checked = threading.Event()

    class Member:
        interval = 0.05

        def check(self, now: float) -> None:
            checked.set()

    member = Member()
    watch.add(member)
    assert checked.wait(20)
    watch.remove(member)


def test_closing_while_threads_send_and_peers_beat(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever closes first, all that was submitted is answered or fails, and nothing hangs."""
    use_way("network", monkeypatch)
    monkeypatch.setattr(watch_module, "_SHORTEST_INTERVAL", 0.001)
    draw = random.Random(0)
    for number in range(20):
        server = TransportServer(
            "127.0.0.1:0", handlers.table(), token=TOKEN, heartbeat_seconds=20.0
        )
        server.start()
        monkeypatch.setattr(watch_module, "_LONGEST_INTERVAL", 0.001)
        connection = Connection(server.address, token=TOKEN)
        futures: queue.SimpleQueue[Any] = queue.SimpleQueue()
        sizes = [draw.choice((3, 20_000, 2_000_000)) for _ in range(4)]

        def send(size: int, connection: Connection = connection, futures: Any = futures) -> None:
            data = np.ones(size, np.uint8)
            with contextlib.suppress(PeerUnavailableError):
                while True:
                    futures.put(connection.submit("echo", {}, [data, data[:5]]))

        threads = [threading.Thread(target=send, args=(size,)) for size in sizes]
        for thread in threads:
            thread.start()
        time.sleep(draw.uniform(0, 0.05))
        ends = [connection.close, lambda server=server: server.close(5)]
        if number % 2:
            ends.reverse()
        closing = [threading.Thread(target=end) for end in ends[: 1 + (number % 3 == 0)]]
        for thread in closing:
            thread.start()
        for thread in (*closing, *threads):
            thread.join(30)
            assert not thread.is_alive(), "it hangs"
        while not futures.empty():
            future = futures.get()
            if future.exception(20) is None:
                assert future.result().arrays[0].all()
            else:
                assert isinstance(future.exception(), PeerUnavailableError)
        connection.close()
        server.close(5)


def test_a_clean_close_is_never_taken_for_a_crash(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The goodbye is read, whatever breaks at the same time because the other one has gone."""
    use_way("network", monkeypatch)
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    server = TransportServer(
        *("127.0.0.1:0", handlers.table()),
        token=TOKEN,
        client_left=lambda lane, reason: left.put(reason),
    )
    server.start()
    data = np.ones(200_000, np.uint8)
    with contextlib.closing(server):
        for _ in range(30):
            with Connection(server.address, token=TOKEN) as connection:
                connection.submit_many([("echo", {}, [data])] * 5)
            assert left.get(timeout=20) == "it has closed its connection"
        connections = [Connection(server.address, token=TOKEN) for _ in range(8)]
        waiting = [each.submit("later", {}) for each in connections]
        wait_until(lambda: len(handlers.futures) == 8)
        server.close(0.1)
        for future in waiting:
            with pytest.raises(PeerUnavailableError, match="it has shut down"):
                future.result(20)
        for each in connections:
            each.close()


def test_closing_takes_its_seconds_once(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not for each client whose request never ends."""
    use_way("network", monkeypatch)
    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN)
    server.start()
    connections = [Connection(server.address, token=TOKEN) for _ in range(6)]
    for each in connections:
        each.submit("wait", {})
    began = time.monotonic()
    server.close(2)
    assert time.monotonic() - began < 8
    handlers.gate.set()
    for each in connections:
        each.close()


def test_a_client_killed_in_the_middle_of_a_message(
    start: Start, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[str] = []
    use_way("network", monkeypatch)
    server = TransportServer(
        *("127.0.0.1:0", handlers.table()),
        token=TOKEN,
        client_left=lambda lane, reason: left.append(reason),
    )
    server.start()
    with contextlib.closing(server):
        process = start("flood", server.address, TOKEN, shared_memory=False)
        assert line_of(process) == "connected"
        wait_until(lambda: len(handlers.seen) > 2)
        process.kill()
        wait_until(lambda: left)
        assert "goodbye" in left[0] or "broke" in left[0]
        assert all(m.arrays[0].nbytes == 10_000_000 for m in handlers.seen)
        assert all(m.arrays[0].all() for m in handlers.seen[-3:])
        with Connection(server.address, token=TOKEN) as connection:
            assert connection.call("echo", {"n": 1}).header == {"n": 1}


def test_the_server_tells_who_left_and_who_fell_silent(start: Start) -> None:
    process = start("serve", "127.0.0.1:0", TOKEN)
    address = line_of(process)
    with Connection(address, token=TOKEN) as connection:
        connection.call("echo", {})
    assert line_of(process) == "left: it has closed its connection"
    client = start("flood", address, TOKEN)
    assert line_of(client) == "connected"
    client.send_signal(signal.SIGSTOP)
    assert "it has sent no heartbeat for" in line_of(process)
    assert ended(process) == 0, "a stopped client keeps no server from ending"


def test_nothing_is_left_in_shared_memory_by_killed_processes(start: Start) -> None:
    before = set(os.listdir("/dev/shm"))
    server = start("serve", "127.0.0.1:0", TOKEN)
    client = start("flood", line_of(server), TOKEN)
    assert line_of(client) == "connected"
    time.sleep(0.2)
    client.kill()
    server.kill()
    server.wait()
    assert set(os.listdir("/dev/shm")) <= before


def test_a_forked_child_cannot_use_its_parents_connection(connection: Connection) -> None:
    connection._process = 1  # as the child finds it, without forking JAX
    with pytest.raises(TransportError, match="after the fork"):
        connection.submit("echo", {})
    connection.close()
    connection._process = os.getpid()
    assert connection.call("echo", {"a": 1}).header == {"a": 1}


def test_closing_the_server_lets_what_runs_finish(
    connection: Connection, server: TransportServer, handlers: Handlers
) -> None:
    running = connection.submit("wait", {})
    time.sleep(0.1)
    closing = threading.Thread(target=server.close)
    closing.start()
    wait_until(lambda: server._closed)
    time.sleep(0.1)
    assert not running.done()
    too_late = connection.submit("note", {})
    handlers.gate.set()
    assert running.result(20).header == {"waited": True}
    closing.join(20)
    with pytest.raises(PeerUnavailableError, match="shut down"):
        too_late.result(20)
    assert not handlers.seen
    with pytest.raises(PeerUnavailableError, match="shut down"):
        connection.call("echo", {})
    with pytest.raises(PeerUnavailableError):
        Connection(server.address, token=TOKEN, timeout_seconds=5)


def test_closing_the_server_gives_up_what_never_finishes(
    connection: Connection, server: TransportServer, handlers: Handlers
) -> None:
    never = connection.submit("later", {})
    wait_until(lambda: handlers.futures)
    server.close(0.2)
    with pytest.raises(PeerUnavailableError, match="shut down"):
        never.result(20)


def test_closing_the_connection_fails_what_waits(
    connection: Connection, handlers: Handlers
) -> None:
    waiting = connection.submit("later", {})
    wait_until(lambda: handlers.futures)
    connection.close()
    connection.close()
    with pytest.raises(PeerUnavailableError, match="this side has closed"):
        waiting.result(0)
    with pytest.raises(PeerUnavailableError, match="this side has closed"):
        connection.submit("echo", {})


def test_submit_waits_for_room(server: TransportServer, handlers: Handlers, way: str) -> None:
    if way == "shared memory":
        pytest.skip("what lies in shared memory is limited by its size")
    with Connection(server.address, token=TOKEN, most_bytes=2_000_000) as connection:
        first = connection.submit("wait", {}, [np.ones(1_500_000, np.uint8)])
        done = threading.Event()

        def submit() -> None:
            connection.submit("echo", {}, [np.ones(1_000_000, np.uint8)]).result(30)
            done.set()

        thread = threading.Thread(target=submit)
        thread.start()
        assert not done.wait(0.2) and len(connection._link._pending) == 1
        handlers.gate.set()
        first.result(30)
        thread.join(30)
        assert done.is_set()


def test_many_connections(server: TransportServer, handlers: Handlers) -> None:
    connections = [Connection(server.address, token=TOKEN) for _ in range(30)]
    data = np.arange(20_000)
    asked = [each.submit("echo", {"i": i}, [data + i]) for i, each in enumerate(connections)]
    for i, future in enumerate(asked):
        reply = future.result(30)
        assert reply.header == {"i": i} and reply.arrays[0][0] == i
    lanes = {each.call("note", {}).header["lane"] for each in connections}
    assert len(lanes) == 30
    handlers.seen.clear()
    for each in connections:
        each.close()


class Resolver:
    """Names of which one is resolved when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = threading.Event()
        self.asked: list[str] = []
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._getaddrinfo)

    def _getaddrinfo(self, host: str, port: Any, *args: Any, **options: Any) -> Any:
        if host == "slow.example" and not options.get("flags"):
            self.asked.append(host)
            assert self.answers.wait(60)
            host = "127.0.0.1"
        return self._real(host, port, *args, **options)


def test_a_name_that_is_not_resolved_in_time(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who tries again waits for the same lookup; when it answers, all is well."""
    use_way("network", monkeypatch)
    resolver = Resolver(monkeypatch)
    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN)
    server.start()
    with contextlib.closing(server):
        address = f"slow.example:{server.port}"
        for _ in range(3):
            with pytest.raises(PeerUnavailableError, match="'slow.example' was not resolved"):
                Connection(address, token=TOKEN, timeout_seconds=0.05)
        assert resolver.asked == ["slow.example"]
        resolver.answers.set()
        with Connection(address, token=TOKEN, timeout_seconds=20) as connection:
            assert connection.call("echo", {"a": 1}).header == {"a": 1}
        # Later connections ask again: the host may have moved.
        asked = len(resolver.asked)
        Connection(address, token=TOKEN, timeout_seconds=20).close()
        assert len(resolver.asked) > asked


def test_a_name_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    use_way("network", monkeypatch)

    def unknown(host: str, *args: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    for _ in range(2):
        with pytest.raises(PeerUnavailableError, match="not known"):
            Connection("nowhere.example:1", token=TOKEN, timeout_seconds=20)


def gated_reader(
    messages: Any, monkeypatch: pytest.MonkeyPatch, opened: bool = False
) -> threading.Event:
    """Let a stream's messages be taken when the test says so; at first too, if it is `opened`.

    Who waits for a message when this is called takes it.
    """
    gate, read = threading.Event(), messages.read
    if opened:
        gate.set()

    def gated() -> Any:
        message = read() if opened else None
        assert gate.wait(30)
        return message if opened else read()

    monkeypatch.setattr(messages, "read", gated)
    return gate


def breaking(stream: Any, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let nothing more be written to a stream; the event is set at the first attempt."""
    attempted = threading.Event()

    def write(parts: Any) -> None:
        attempted.set()
        raise BrokenPipeError("the other side has gone")

    monkeypatch.setattr(stream, "write", write)
    return attempted


def test_a_goodbye_that_has_arrived_is_read_by_a_client_that_cannot_write(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server closed first, and the client notices it by a write that fails."""
    use_way("network", monkeypatch)
    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN)
    server.start()
    connection = Connection(server.address, token=TOKEN)
    link: Any = connection._link
    gate = gated_reader(link._messages, monkeypatch)
    connection.call("echo", {})  # the message after this one waits for the gate
    server.close(0.1)  # the goodbye is on its way now
    attempted = breaking(link._stream, monkeypatch)
    answer = connection.submit("echo", {})
    assert attempted.wait(20)
    gate.set()
    with pytest.raises(PeerUnavailableError, match="it has shut down"):
        answer.result(20)
    connection.close()


def test_a_goodbye_that_has_arrived_is_read_by_a_server_that_cannot_write(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client closed first, and the server notices it by a reply that fails."""
    use_way("network", monkeypatch)
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    server = TransportServer(
        *("127.0.0.1:0", handlers.table()),
        token=TOKEN,
        client_left=lambda lane, reason: left.put(reason),
    )
    server.start()
    with contextlib.closing(server):
        connection = Connection(server.address, token=TOKEN)
        lane: Any
        [lane] = server._lanes.values()
        gate = gated_reader(lane._messages, monkeypatch, opened=True)
        connection.submit("later", {})
        wait_until(lambda: handlers.futures)
        gate.clear()
        attempted = breaking(lane._stream, monkeypatch)
        connection.close()
        handlers.futures[0].set_result(Message({}))
        assert attempted.wait(20)
        gate.set()
        assert left.get(timeout=20) == "it has closed its connection"


@pytest.mark.parametrize("way", ["network", "one process"])
def test_closing_waits_for_requests_that_run(
    way: str, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_way(way, monkeypatch)
    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN)
    server.start()
    with Connection(server.address, token=TOKEN) as connection, ThreadPoolExecutor(1) as pool:
        running = [connection.submit("later", {}), connection.submit("wait", {})]
        wait_until(lambda: handlers.waiting)
        closing = pool.submit(server.close, 60)
        wait_until(lambda: server._closed)
        assert not wait([closing], 0.5).done  # the seconds that each lane lingers are over
        handlers.gate.set()
        assert running[1].result(20).header == {"waited": True}
        assert not closing.done()
        handlers.futures[0].set_result(Message({"late": True}))
        assert running[0].result(20).header == {"late": True}
        closing.result(20)


@pytest.mark.parametrize("way", ["network", "one process"])
def test_closing_leaves_behind_what_runs_longer_than_its_seconds(
    way: str, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It returns while the handlers still run, and the callers are answered by then."""
    use_way(way, monkeypatch)
    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN)
    server.start()
    connections = [Connection(server.address, token=TOKEN) for _ in range(2)]
    running = [connections[0].submit("later", {}), connections[1].submit("wait", {})]
    wait_until(lambda: handlers.futures)
    wait_until(lambda: handlers.waiting)
    server.close(0.05)
    assert not handlers.gate.is_set()
    for each in running:
        with pytest.raises(PeerUnavailableError, match="it has shut down"):
            each.result(20)
    handlers.gate.set()
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("way", ["network", "one process"])
def test_the_seconds_of_closing_are_those_of_all_connections(
    way: str, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first connection has used up is not waited for again, by it or by the next ones."""
    use_way(way, monkeypatch)
    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN)
    server.start()
    connections = [Connection(server.address, token=TOKEN) for _ in range(3)]
    given: list[float] = []

    def note(thing: Any, name: str) -> None:
        waits = getattr(thing, name)

        def noted(*args: Any) -> Any:
            given.append(args[-1])
            return waits(*args)

        monkeypatch.setattr(thing, name, noted)

    lanes: list[Any] = [*server._lanes.values(), *(each._link for each in connections)]
    for lane in lanes[:3]:
        note(lane._replies, "drain")
        if way == "network":
            note(lane._state, "wait_for")
        else:
            note(lane._thread, "join")
    for connection in connections:
        connection.submit("wait", {})
    wait_until(lambda: len(handlers.waiting) == 3)
    server.close(0.3)
    first, *others = given
    assert 0 < first <= 0.3
    assert len(others) >= 5
    assert all(seconds in (0, _LINGER_SECONDS) for seconds in others)
    handlers.gate.set()
    for connection in connections:
        connection.close()
