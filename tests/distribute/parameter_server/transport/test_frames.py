"""Frames that are cut off, mixed up or forged: an error, never a wrong message."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.distribute.parameter_server.transport import (
    Connection,
    ProtocolError,
    TransportServer,
    codec,
    flight,
    handshake,
)
from drumline.distribute.parameter_server.transport.assembly import Assembly
from tests.distribute.parameter_server.transport.transport_support import TOKEN, Handlers, use_way

ARRAYS = [np.arange(5), np.arange(2_000_000.0), np.zeros((0, 2), "f4"), np.ones(5000, np.int16)]
HEAD = struct.Struct("<QBQQ")


def no_memory(specs: Sequence[codec.Spec]) -> list[np.ndarray]:
    raise ProtocolError("there is none")


def frames(seq: int = 0, arrays: list[np.ndarray] = ARRAYS) -> list[tuple[bytes, np.ndarray]]:
    encoded = codec.encode("op", {"a": 1}, arrays, lambda arrays: [None] * len(arrays))
    chunks = list(encoded.chunks(seq))
    return [*chunks, (codec.RECORDS + encoded.record(seq, codec.REQUEST), np.empty(0, np.uint8))]


def assembled(
    received: list[tuple[bytes, np.ndarray]], assembly: Assembly | None = None
) -> list[tuple[codec.Record, list[np.ndarray]]]:
    assembly = assembly or Assembly(no_memory)
    messages = []
    for frame, data in received:
        if frame[:1] == codec.CHUNK:
            assembly.chunk(memoryview(frame), data)
        else:
            messages += [(r, arrays) for r, arrays, _ in assembly.records(memoryview(frame)[1:])]
    return messages


def test_frames_make_the_message_again() -> None:
    assert len(frames()) == 1 + 8
    ((record, arrays),) = assembled(frames(7))
    assert (record.seq, record.kind, record.op, record.header) == (7, 0, "op", {"a": 1})
    for sent, back in zip(ARRAYS, arrays, strict=True):
        np.testing.assert_array_equal(back, sent, strict=True)


@given(st.sets(st.integers(0, 7), min_size=1))
def test_a_missing_chunk_is_noticed(missing: set[int]) -> None:
    with pytest.raises(ProtocolError):
        assembled([frame for i, frame in enumerate(frames()) if i not in missing])


@given(st.permutations(range(9)))
def test_chunks_in_another_order_make_the_same_message_or_none(order: list[int]) -> None:
    sent = frames()
    try:
        messages = assembled([sent[i] for i in order])
    except ProtocolError:
        return
    assert order == list(range(9)) or not messages


@given(st.integers(0, 8), st.integers(0, 200))
def test_a_frame_that_is_cut_off(which: int, kept: int) -> None:
    sent = frames()
    frame, data = sent[which]
    if kept < len(frame):
        sent[which] = (frame[:1] + frame[1:][:kept], data)
        if kept < len(frame) - 1 and (which < 8 or kept):
            with pytest.raises(ProtocolError):
                assembled(sent)
    shorter = frames()
    if which < 8:
        shorter[which] = (frame, data[:-1])
        with pytest.raises(ProtocolError):
            assembled(shorter)


@given(st.binary(max_size=300), st.integers(0, 8), st.integers(0, 200))
def test_forged_bytes_are_errors_of_the_protocol(forged: bytes, which: int, at: int) -> None:
    sent = frames()
    frame, data = sent[which]
    sent[which] = (frame[:1] + frame[1:at] + forged + frame[at + len(forged) :], data)
    with contextlib.suppress(ProtocolError, MemoryError):
        for record, arrays in assembled(sent):
            assert len(record.specs) == len(arrays)


def record_of(text: object, inline: bytes = b"") -> bytes:
    said = text if isinstance(text, bytes) else json.dumps(text).encode()
    return codec.RECORDS + HEAD.pack(0, 0, len(said), len(inline)) + said + inline


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
    ["op", {}, [["float32", [0.5]]]],
    ["op", {}, [["float32", [True]]]],
    ["op", {}, [["object", [1]]]],
    ["op", {}, [["O", [1]]]],
    ["op", {}, [["V8,O", [1]]]],
    ["op", {}, [["float32", [1] * 40]]],
    ["op", {}, [["float32", [3], 1]]],
    ["op", {}, [["float32", [3], 0, 65536]]],
    ["op", {}, [["float32", [3], 0, 65536, 1]]],
    ["op", {}, [["float32"]]],
    ["op", {}, ["float32"]],
    ["op", {}, [None]],
]


@pytest.mark.parametrize("text", FORGED, ids=lambda text: repr(text)[:40])
def test_a_forged_record_is_refused(text: object) -> None:
    with pytest.raises(ProtocolError):
        assembled([(record_of(text), np.empty(0, np.uint8))])
    with pytest.raises(ProtocolError):
        assembled([(record_of(["op", {}, []], b"more"), np.empty(0, np.uint8))])


def forged_chunk(index: int, start: int, total: int) -> bytes:
    return struct.pack("<cQIQQ", codec.CHUNK, 0, index, start, total)


@pytest.mark.parametrize(
    "chunks",
    [
        [(0, 0, 10, 20)],
        [(0, 5, 10, 5)],
        [(0, 0, 10, 5), (0, 0, 10, 5)],
        [(0, 0, 10, 5), (0, 5, 11, 5)],
        [(0, 0, 10, 5), (0, 5, 10, 6)],
        [(0, 0, 1 << 60, 5)],
    ],
)
def test_chunks_that_do_not_follow_one_another(chunks: list[tuple[int, int, int, int]]) -> None:
    with pytest.raises(ProtocolError):
        assembled([(forged_chunk(i, s, t), np.ones(n, np.uint8)) for i, s, t, n in chunks])


def test_chunks_of_no_array_are_refused() -> None:
    chunk = (forged_chunk(0, 0, 5), np.ones(5, np.uint8))
    with pytest.raises(ProtocolError, match="more bytes than its arrays"):
        assembled([chunk, (record_of(["op", {}, []]), np.empty(0, np.uint8))])


def asked(stream: flight.FrameStream, wishes: dict[str, object]) -> flight.FrameStream:
    handshake.greet(stream, TOKEN, wishes)
    return stream


def test_the_lane_of_who_breaks_the_protocol_ends_and_no_other(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_way("network", monkeypatch)
    left: list[str] = []

    def client_left(lane: int, reason: str) -> None:
        left.append(reason)

    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN, client_left=client_left)
    server.start()
    client = flight.connect(server.address, None)
    bad: list[Callable[[flight.FrameStream], None]] = [
        lambda stream: stream.write(b"?"),
        lambda stream: stream.write(record_of(b"nonsense")),
        lambda stream: stream.write(codec.CHUNK + b"short"),
        lambda stream: stream.write(record_of(["echo", {}, [["float32", [5], 0, 65536]]])),
        lambda stream: stream.write(codec.RECORDS + HEAD.pack(5, 0, 2, 0) + b"[]"),
        lambda stream: stream.write(b"R" + HEAD.pack(0, codec.REPLY, 13, 0) + b'["e", {}, []]'),
        lambda stream: stream.write(b"R" + HEAD.pack(1, codec.REQUEST, 13, 0) + b'["e", {}, []]'),
    ]
    with contextlib.closing(server), Connection(server.address, token=TOKEN) as other:
        for number, break_it in enumerate(bad, 1):
            stream = flight.FrameStream.open(client, handshake.stream_key(TOKEN))
            handshake.greet(stream, TOKEN, {"stream": "requests"})
            handshake.tell(stream, {"accepted": False})
            break_it(stream)
            with pytest.raises(flight.STREAM_ERRORS):
                stream.read()
            stream.close()
            assert "broke the protocol" in left[number - 1]
            assert other.call("echo", {"n": number}).header == {"n": number}
        for wishes in ({}, {"stream": "everything"}, {"stream": "heartbeats", "lane": [1]}):
            stream = flight.FrameStream.open(client, handshake.stream_key(TOKEN))
            with pytest.raises((ProtocolError, *flight.STREAM_ERRORS)):
                handshake.hear(asked(stream, wishes))
            stream.close()
        assert other.call("echo", {"n": 0}).header == {"n": 0}
    client.close()
