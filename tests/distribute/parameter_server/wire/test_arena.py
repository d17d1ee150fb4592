"""Shared memory: what is free when, and what is refused."""

from __future__ import annotations

import dataclasses
import gc
import logging
import os
import random
from collections.abc import Iterator

import numpy as np
import pytest

from drumline.distribute.parameter_server.wire import (
    Connection,
    Message,
    ProtocolError,
    TransportServer,
    arena,
)
from drumline.distribute.parameter_server.wire.arena import DATA_START, Arena, MappedArena
from drumline.distribute.parameter_server.wire.codec import Place, Spec
from tests.distribute.parameter_server.wire.wire_support import TOKEN, Handlers, use_way

SIZE = DATA_START + (1 << 20)


@pytest.fixture
def sender() -> Iterator[Arena]:
    sender = Arena(SIZE)
    yield sender
    sender.close()


@pytest.fixture
def receiver(sender: Arena) -> MappedArena:
    return MappedArena(sender.offer)


def spec(array: np.ndarray, place: Place | None) -> Spec:
    return Spec(array.dtype, array.shape, array.nbytes, place, False)


def put(sender: Arena, array: np.ndarray) -> Place | None:
    (place,) = sender.put([array])
    return place


def empty(sender: Arena, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
    made = sender.empties([(shape, dtype)])
    return None if made is None else made[0]


def receive(receiver: MappedArena, described: Spec) -> np.ndarray:
    (array,) = receiver.arrays([described])
    return array


def test_a_slot_is_free_when_the_last_view_dies(sender: Arena, receiver: MappedArena) -> None:
    sent = np.arange(20_000.0).reshape(100, 200)
    place = put(sender, sent)
    array = receive(receiver, spec(sent, place))
    view, buffer = array[3:, ::2].T, memoryview(array[5])
    del array
    gc.collect()
    assert put(sender, sent) != place
    np.testing.assert_array_equal(view.T, sent[3:, ::2])
    del view
    assert bytes(buffer) == sent[5].tobytes()
    assert put(sender, sent) not in (place, None)
    del buffer
    assert put(sender, sent) == place


def test_jax_holds_a_slot_as_long_as_it_reads_it(sender: Arena, receiver: MappedArena) -> None:
    import jax

    sent = np.arange(20_000.0, dtype=np.float32)
    place = put(sender, sent)
    array = receive(receiver, spec(sent, place))
    pointer = array.ctypes.data
    aliased = jax.dlpack.from_dlpack(array)
    del array
    assert aliased.unsafe_buffer_pointer() == pointer, "no copy was needed"
    assert put(sender, sent) != place
    np.testing.assert_array_equal(np.asarray(aliased), sent)
    del aliased
    gc.collect()
    assert put(sender, sent) == place


def test_what_was_made_here_is_sent_without_a_copy(sender: Arena, receiver: MappedArena) -> None:
    made = empty(sender, (300, 40), np.dtype(np.float32))
    assert made is not None
    made[:] = 7
    place = put(sender, made)
    array = receive(receiver, spec(made, place))
    made[0, 0] = 8
    assert array[0, 0] == 8
    again = put(sender, made)
    assert again != place, "it is on its way already"
    del array
    other = put(sender, np.ones((300, 40), np.float32))
    assert other not in (place, again), "it is still held here"
    tail = made[16:]
    assert put(sender, tail) == (place[0], place[1] + 16 * 160) if place else False
    del made, tail


def test_arrays_of_one_message_share_a_slot(sender: Arena, receiver: MappedArena) -> None:
    forms = [((300, 5), np.dtype("f4")), ((0, 3), np.dtype("i8")), ((7,), np.dtype("u1"))]
    forms += [((10_000,), np.dtype("f8"))]
    made = sender.empties(forms)
    assert made is not None
    assert [(each.shape, each.dtype) for each in made] == forms
    assert not any(each.ctypes.data % 64 for each in made)
    for number, each in enumerate(made):
        each[:] = number
    filled = [each for each in made if each.size]
    places = sender.put(filled)
    assert len({place[0] for place in places if place}) == 1 and None not in places
    specs = [spec(each, place) for each, place in zip(filled, places, strict=True)]
    arrays = receiver.arrays(specs)
    for sent, array in zip(filled, arrays, strict=True):
        assert np.shares_memory(array, array.base) and not array.ctypes.data % 64
        np.testing.assert_array_equal(array, sent)
    del made, filled, each, sent, array
    last = arrays.pop()[5:]
    arrays.clear()
    gc.collect()
    other = empty(sender, (12_000,), np.dtype("f8"))
    assert other is not None and put(sender, other) != places[0], "one array is held still"
    assert (last == 3).all()
    with pytest.raises(ProtocolError, match="upon another one"):
        receiver.arrays(specs)


def test_arrays_that_a_message_repeats_are_copied(sender: Arena, receiver: MappedArena) -> None:
    made = sender.empties([((50,), np.dtype("f4"))] * 2)
    assert made is not None
    made[0][:], made[1][:] = 1, 2
    sent = [made[1], made[0], made[1], made[1]]
    places = sender.put(sent)
    assert len({place[0] for place in places if place}) == 4
    arrays = receiver.arrays([spec(a, place) for a, place in zip(sent, places, strict=True)])
    assert [array[0] for array in arrays] == [2, 1, 2, 2]


def test_random_traffic_is_never_mixed_up(sender: Arena, receiver: MappedArena) -> None:
    draw = random.Random(0)
    held: list[tuple[np.ndarray, int]] = []
    travelled = 0
    for value in range(3000):
        while held and draw.random() < 0.55:
            array, expected = held.pop(draw.randrange(len(held)))
            assert (array == expected).all()
        sent = np.full(draw.randrange(1, 60_000), value)
        place = put(sender, sent)
        travelled += place is not None
        if place is not None:
            held.append((receive(receiver, spec(sent, place)), value))
    assert travelled > 1000
    held.clear()
    del array
    assert put(sender, np.ones(200_000, np.uint8)) is not None


def test_memory_that_is_not_used_is_given_back(
    sender: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = empty(sender, (250_000,), np.dtype(np.uint8))
    empty(sender, (200_000,), np.dtype(np.uint8))
    assert sender.held_bytes >= 450_000
    sender.trim()
    assert sender.held_bytes >= 450_000
    monkeypatch.setattr(arena, "_IDLE_SECONDS", -1.0)
    sender.trim()
    assert held is not None and 250_000 <= sender.held_bytes < 300_000
    blocks = os.fstat(sender.descriptor).st_blocks * 512
    assert blocks < 400_000


def test_what_does_not_fit_is_left_to_the_network(sender: Arena) -> None:
    assert put(sender, np.ones(SIZE, np.uint8)) is None
    held = [put(sender, np.ones(100_000, np.uint8)) for _ in range(12)]
    assert None in held and len(set(held)) > 5
    sender.close()
    assert put(sender, np.ones(10)) is None and empty(sender, (1,), np.dtype("i4")) is None


@pytest.mark.parametrize(
    ("place", "nbytes"),
    [
        ((0, 0), 64),
        ((0, DATA_START - 64), 64),
        ((0, DATA_START + 1), 64),
        ((0, SIZE - 64), 128),
        ((2000, DATA_START), 64),
        ((0, DATA_START), 0),
    ],
)
def test_places_outside_are_refused(receiver: MappedArena, place: Place, nbytes: int) -> None:
    with pytest.raises(ProtocolError):
        receive(receiver, Spec(np.dtype(np.uint8), (nbytes,), nbytes, place, False))


def test_a_slot_in_use_is_not_given_twice(sender: Arena, receiver: MappedArena) -> None:
    sent = np.ones(20_000)
    place = put(sender, sent)
    array = receive(receiver, spec(sent, place))
    with pytest.raises(ProtocolError, match="upon another one"):
        receive(receiver, spec(sent, place))
    del array


def test_the_arena_of_another_connection_is_refused(sender: Arena) -> None:
    """More in tests/test_shared_memory.py."""
    for offer in (
        dataclasses.replace(sender.offer, nonce="0" * 32),
        dataclasses.replace(sender.offer, nbytes=sender.nbytes + 1),
    ):
        with pytest.raises(OSError, match="another connection|not the memory"):
            MappedArena(offer)


def test_a_forked_childs_copies_do_not_free_the_parents(
    sender: Arena, receiver: MappedArena
) -> None:
    sent = np.ones(20_000)
    place = put(sender, sent)
    array = receive(receiver, spec(sent, place))
    receiver._process += 1
    del array
    assert put(sender, sent) != place


@pytest.mark.parametrize("broken", ["full", "foreign", "none"])
def test_without_shared_memory_all_goes_by_the_network(
    handlers: Handlers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: str,
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no such memory")

    use_way("shared memory", monkeypatch)
    if broken == "full":
        monkeypatch.setattr(os, "posix_fallocate", lambda *a: fail() if a[1] else None)
    elif broken == "foreign":
        monkeypatch.setattr(arena, "MappedArena", fail)
    else:
        monkeypatch.setattr(os, "memfd_create", fail)
    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN)
    server.start()
    sent = [np.arange(100_000), np.arange(50_000)]
    with (
        caplog.at_level(logging.WARNING, "drumline"),
        Connection(server.address, token=TOKEN) as connection,
    ):
        for _ in range(3):
            for back, there in zip(connection.call("echo", {}, sent).arrays, sent, strict=True):
                np.testing.assert_array_equal(back, there)
        assert connection.empties([((3,), np.dtype("f4"))])[0].shape == (3,)
    server.close()
    lines = [r.message for r in caplog.records if "by the network instead" in r.message]
    assert len(lines) == 2, "one of each side"


def test_large_arrays_do_go_through_it(handlers: Handlers, monkeypatch: pytest.MonkeyPatch) -> None:
    use_way("shared memory", monkeypatch)
    server = TransportServer("127.0.0.1:0", handlers.table(), token=TOKEN)
    server.start()
    with Connection(server.address, token=TOKEN) as connection:
        made = connection.empties([((50_000,), np.dtype(np.float32))])[0]
        made[:] = 1
        connection.call("note", {}, [made])
        [seen] = handlers.seen
        made[0] = 5
        assert seen.arrays[0][0] == 5
        lane = seen.lane
        assert lane is not None and lane.number == 1 and "127.0.0.1" in lane.peer
        replied = lane.empties([((50_000,), np.dtype(np.float32))])[0]
        replied[:] = 2
        future = connection.submit("later", {})
        while not handlers.futures:
            pass
        handlers.futures[0].set_result(Message({}, [replied]))
        [received] = future.result(30).arrays
        replied[1] = 9
        assert received[1] == 9
        handlers.seen.clear()
    server.close()
    assert received[0] == 2, "arrays outlive their connection"
