"""Messages that are cut off, mixed up or forged: an error, never a wrong message."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.distribute.parameter_server.wire import (
    Connection,
    ProtocolError,
    TransportServer,
    codec,
    greeting,
)
from drumline.distribute.parameter_server.wire.codec import Sender
from drumline.distribute.parameter_server.wire.stream import Stream
from tests.distribute.parameter_server.wire.wire_support import (
    TOKEN,
    Handlers,
    connected,
    use_way,
    wait_until,
)

ARRAYS = [np.arange(5), np.arange(50_000.0), np.zeros((0, 2), "f4"), np.ones(9000, np.int16)]
HEAD = struct.Struct("<cQBII")


def no_memory(specs: Sequence[codec.Spec]) -> list[np.ndarray]:
    raise ProtocolError("there is none")


def stream_pair() -> tuple[Stream, Stream]:
    streams = [Stream(end, None, None, time.monotonic() + 30) for end in socket.socketpair()]
    for stream in streams:
        stream.has_been_set_up()
    return streams[0], streams[1]


@pytest.fixture(autouse=True)
def _sockets_of_unix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs have no TCP to be set up."""
    original = socket.socket.setsockopt

    def setsockopt(self: socket.socket, *arguments: int) -> None:
        if self.family != socket.AF_UNIX:
            original(self, *arguments)

    monkeypatch.setattr(socket.socket, "setsockopt", setsockopt)


def sent(seq: int = 0, arrays: Sequence[np.ndarray] = ARRAYS) -> bytes:
    encoded = codec.encode("op", {"a": 1}, arrays, lambda arrays: [None] * len(arrays))
    return b"".join([encoded.record(seq, codec.REQUEST), *encoded.behind])


def received(
    data: bytes, pieces: Sequence[int] = ()
) -> list[tuple[codec.Record, list[np.ndarray]] | None]:
    """The messages in `data`, which comes in pieces of these sizes; None for a goodbye."""
    near, far = stream_pair()

    def write() -> None:
        view = memoryview(data)
        with contextlib.suppress(OSError):  # the reader has had enough
            for size in pieces:
                near.write([view[:size]])
                view = view[size:]
            near.write([view])
        near.end_writing()

    writer = threading.Thread(target=write)
    writer.start()
    reader = codec.MessageReader(far, no_memory)
    messages: list[tuple[codec.Record, list[np.ndarray]] | None] = []
    try:
        with contextlib.suppress(EOFError):
            while True:
                messages.append(reader.read())
        return messages
    finally:
        far.close()
        writer.join()
        near.close()


WHOLE = sent(7)


def check(message: tuple[codec.Record, list[np.ndarray]] | None) -> None:
    assert message is not None
    record, arrays = message
    assert (record.seq, record.kind, record.op, record.header) == (7, 0, "op", {"a": 1})
    for there, back in zip(ARRAYS, arrays, strict=True):
        np.testing.assert_array_equal(back, there, strict=True)


@given(st.lists(st.integers(1, 300_000), max_size=6))
def test_messages_arrive_in_whatever_pieces(pieces: list[int]) -> None:
    messages = received(WHOLE + WHOLE + codec.GOODBYE + WHOLE, pieces)
    assert len(messages) == 4 and messages[2] is None
    for index in (0, 1, 3):
        check(messages[index])


@given(st.integers(1, len(WHOLE) - 1))
def test_a_message_that_is_cut_off_is_none(kept: int) -> None:
    with pytest.raises(ConnectionAbortedError, match="ended within a message"):
        received(WHOLE[:kept])
    with pytest.raises(ConnectionAbortedError, match="ended within a message"):
        received(WHOLE + WHOLE[:kept])


@given(st.binary(min_size=1, max_size=60), st.integers(0, 200))
def test_forged_bytes_are_errors_of_the_protocol(forged: bytes, at: int) -> None:
    data = WHOLE[:at] + forged + WHOLE[at + len(forged) :]
    with contextlib.suppress(ProtocolError, MemoryError, ConnectionAbortedError):
        for message in received(data):
            assert message is None or len(message[0].specs) == len(message[1])


@given(st.binary(max_size=400))
def test_noise_is_an_error_of_the_protocol(noise: bytes) -> None:
    with contextlib.suppress(ProtocolError, MemoryError, ConnectionAbortedError):
        assert all(message is None for message in received(noise))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)
SPECS = st.lists(
    st.tuples(
        st.sampled_from(["float32", "int8", "|S5", "|S0", "|V9", "<U3", "<M8[ns]", "O", "int4"]),
        st.lists(st.integers(-1, 9) | st.just(2**48) | st.just(2**63), max_size=4),
    ).map(list)
    | JSON,
    max_size=4,
)


@given(st.tuples(st.just("op"), st.just({}), SPECS | JSON).map(list) | JSON, st.binary(max_size=90))
def test_forged_words_are_errors_of_the_protocol(text: object, inline: bytes) -> None:
    with contextlib.suppress(ProtocolError, MemoryError, ConnectionAbortedError):
        for message in received(record_of(text, inline)):
            assert message is not None
            assert sum(array.nbytes for array in message[1]) == len(inline)


def record_of(text: object, inline: bytes = b"") -> bytes:
    said = text if isinstance(text, bytes) else json.dumps(text).encode()
    return HEAD.pack(codec.MESSAGE, 0, 0, len(said), len(inline)) + said + inline


FORGED = [
    b"",
    b"\xff\xfe",
    b"[" * 100_000,
    [],
    ["op", {}],
    ["op", [], []],
    [1, {}, []],
    ["op", {}, [["float32", [3]]]],
    ["op", {}, [["float32", [-1]]]],
    ["op", {}, [["float32", [2**60, 2**60]]]],
    ["op", {}, [["float32", [2**48, 2**48, 0]]]],
    ["op", {}, [["float32", [0.5]]]],
    ["op", {}, [["float32", [True]]]],
    ["op", {}, [["object", [1]]]],
    ["op", {}, [["O", [1]]]],
    ["op", {}, [["V8,O", [1]]]],
    ["op", {}, [["|S0", [1]]]],
    ["op", {}, [["float32", [1] * 40]]],
    ["op", {}, [["float32", [3], 0, 65536]]],
    ["op", {}, [["float32", [3], 0, 65536, 1]]],
    ["op", {}, [["float32"]]],
    ["op", {}, ["float32"]],
    ["op", {}, [None]],
]


@pytest.mark.parametrize("text", FORGED, ids=lambda text: repr(text)[:40])
def test_a_forged_record_is_refused(text: object) -> None:
    with pytest.raises(ProtocolError):
        received(record_of(text))


def test_what_belongs_to_no_array_is_refused() -> None:
    with pytest.raises(ProtocolError, match="length"):
        received(record_of(["op", {}, []], b"more"))


@pytest.mark.parametrize(
    "head",
    [
        HEAD.pack(codec.MESSAGE, 0, 0, codec.LONGEST_TEXT + 1, 0),
        HEAD.pack(codec.MESSAGE, 0, 0, 2, codec.LONGEST_INLINE + 1),
        HEAD.pack(codec.MESSAGE, 0, 3, 2, 0),
        HEAD.pack(b"?", 0, 0, 2, 0),
    ],
)
def test_lengths_have_limits(head: bytes) -> None:
    """They are looked at before anything is waited for, or memory is taken."""
    with pytest.raises(ProtocolError):
        received(head)


def test_too_large_a_header_is_refused_where_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "LONGEST_TEXT", 1000)
    with pytest.raises(ValueError, match="takes 1012 bytes of JSON; a message has 1000 at most"):
        codec.encode("op", {"a": "b" * 994}, [], lambda arrays: [])


def test_empty_arrays_behind_many_small_ones(connection: Connection) -> None:
    arrays = [np.full(2000, i) for i in range(40)] + [np.zeros((0, 3)), np.ones(3)]
    back = connection.call("echo", {}, arrays).arrays
    for there, here in zip(arrays, back, strict=True):
        np.testing.assert_array_equal(here, there, strict=True)


def test_what_is_added_while_another_holds_the_stream_is_sent() -> None:
    """A goodbye, say, takes the stream for a moment: then nobody may believe that it sends."""
    near, far = stream_pair()
    sender = Sender(near)
    reader = codec.MessageReader(far, no_memory)
    encoded = codec.encode("op", {}, [], lambda arrays: [])
    flushing = []
    with near.lock:
        for seq in range(2):
            sender.add(seq, codec.REQUEST, encoded)
            flushing.append(threading.Thread(target=sender.flush))
            flushing[-1].start()
        flushing[1].join(20)
        assert not flushing[1].is_alive(), "the first one's turn is also for what comes later"
    flushing[0].join(20)
    got = [reader.read(), reader.read()]
    assert [message[0].seq for message in got if message is not None] == [0, 1]
    near.close()
    far.close()


def test_an_interrupted_message_is_followed_by_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a message may be on its way when Ctrl-C comes."""
    near, far = stream_pair()
    sender = Sender(near)
    sender.add(0, codec.REQUEST, codec.encode("op", {}, [], lambda arrays: []))

    def interrupted(parts: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(near, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sender.flush()
    assert far.byte() is None
    near.close()
    far.close()


@pytest.fixture
def left() -> list[str]:
    return []


@pytest.fixture
def remote(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch, left: list[str]
) -> Iterator[TransportServer]:
    use_way("network", monkeypatch)
    server = TransportServer(
        *("127.0.0.1:0", handlers.table()),
        token=TOKEN,
        client_left=lambda lane, reason: left.append(reason),
    )
    server.start()
    with contextlib.closing(server):
        yield server


BROKEN: list[Callable[[], bytes]] = [
    lambda: b"?",
    lambda: record_of(b"nonsense"),
    lambda: record_of(["echo", {}, [["float32", [5], 0, 65536]]]),
    lambda: HEAD.pack(b"M", 5, 0, 2, 0) + b"[]",
    lambda: HEAD.pack(b"M", 0, codec.REPLY, 13, 0) + b'["e", {}, []]',
    lambda: HEAD.pack(b"M", 1, codec.REQUEST, 13, 0) + b'["e", {}, []]',
    lambda: HEAD.pack(b"M", 0, codec.REQUEST, 2**31, 0),
]


def test_the_lane_of_who_breaks_the_protocol_ends_and_no_other(
    remote: TransportServer, left: list[str]
) -> None:
    with Connection(remote.address, token=TOKEN) as other:
        for number, broken in enumerate(BROKEN, 1):
            with connected(remote) as stream:
                greeting.greet(stream, TOKEN)
                greeting.tell(stream, {"stream": "requests"})
                assert greeting.hear(stream)["accepted"] is False
                greeting.tell(stream, {"accepted": False})
                greeting.hear(stream)
                stream.write([broken()])
                assert stream.byte() is None
            wait_until(lambda number=number: len(left) == number)
            assert "broke the protocol" in left[-1]
            assert other.call("echo", {"n": number}).header == {"n": number}


@pytest.mark.parametrize(
    "wishes",
    [{}, {"stream": "all"}, {"stream": "beats", "lane": [1]}, {"stream": "beats", "lane": 99}],
)
def test_a_stream_that_there_is_not_is_refused(
    remote: TransportServer, wishes: dict[str, object]
) -> None:
    with connected(remote) as stream:
        greeting.greet(stream, TOKEN)
        greeting.tell(stream, wishes)
        assert stream.byte() is None


def test_a_lane_has_one_stream_of_beats(remote: TransportServer) -> None:
    with Connection(remote.address, token=TOKEN) as connection, connected(remote) as stream:
        number = connection.call("note", {}).header["lane"]
        greeting.greet(stream, TOKEN)
        greeting.tell(stream, {"stream": "beats", "lane": number})
        greeting.hear(stream)
        assert stream.byte() is None
        assert connection.call("echo", {"n": 1}).header == {"n": 1}


def test_a_goodbye_does_not_wait_for_one_who_does_not_read() -> None:
    """As a stopped process, whose connections are open and full."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while ours.send(bytes(1 << 16)):
            pass
    with contextlib.suppress(BlockingIOError):
        while ours.send(b"x"):
            pass
    stream = Stream(ours, None, None, time.monotonic() + 30)
    stream.has_been_set_up()
    with contextlib.closing(stream), theirs:
        done = threading.Event()
        said: list[bool] = []

        def say() -> None:
            said.append(stream.write_within(0.05, b"bye"))
            done.set()

        threading.Thread(target=say, daemon=True).start()
        assert done.wait(20), "it waits for room that does not come"
        assert said == [False]
        assert theirs.recv(1)


def test_a_goodbye_to_one_who_is_gone_is_an_error_of_the_system() -> None:
    near, far = stream_pair()
    far.close()
    with pytest.raises(OSError, match="Broken pipe"):
        near.write_within(1, b"bye")
    near.close()
    with pytest.raises(OSError, match="closed"):
        near.write_within(1, b"bye")
