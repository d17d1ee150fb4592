"""What is sent arrives as it was, by every way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait

import ml_dtypes
import numpy as np
import pytest

from drumline.distribute.parameter_server.wire import (
    Connection,
    Message,
    RemoteError,
)
from drumline.distribute.parameter_server.wire.codec import dtype_name, named_dtype
from tests.distribute.parameter_server.wire.wire_support import Handlers, wait_until

DTYPES = [
    *("bool", "int8", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64"),
    *("longdouble", "complex64", "complex128", "S5", "U3", "V7", "M8[ns]", "m8[3D]"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4),
]


def test_every_dtype_small_and_large(connection: Connection) -> None:
    random = np.random.default_rng(0)
    for dtype in map(np.dtype, DTYPES):
        for count in (3, 70_000 // dtype.itemsize):
            data = random.integers(0, 2, count * dtype.itemsize, np.uint8).view(dtype)
            [back] = connection.call("echo", {}, [data]).arrays
            assert back.dtype == dtype
            assert back.tobytes() == data.tobytes()
            assert named_dtype(dtype_name(dtype)) == dtype


SHAPES = [(), (0,), (3, 0, 2), (1,), (5, 7), (2, 3, 4, 5), (100, 100), (1025, 1025)]


def test_every_shape_in_one_message(connection: Connection) -> None:
    arrays = [np.random.default_rng(i).random(shape) for i, shape in enumerate(SHAPES)]
    reply = connection.call("echo", {"n": 1}, [*arrays, np.float32(2.5)])
    assert reply.header == {"n": 1}
    for sent, back in zip([*arrays, np.array(2.5, np.float32)], reply.arrays, strict=True):
        np.testing.assert_array_equal(back, sent, strict=True)


def test_views_that_are_not_contiguous(connection: Connection) -> None:
    base = np.arange(400_000).reshape(400, 1000)
    sent = [base.T, base[::-2, 5:500:3], base[:, 0], np.broadcast_to(base[0], (50, 1000))]
    for view, back in zip(sent, connection.call("echo", {}, sent).arrays, strict=True):
        np.testing.assert_array_equal(back, view, strict=True)


def test_many_arrays_and_a_large_header(connection: Connection) -> None:
    arrays = [np.full(i * 40, i) for i in range(300)]
    header = {"text": "é" * 300_000, "list": list(range(1000)), "none": None}
    reply = connection.call("echo", header, arrays)
    assert reply.header == header
    for sent, back in zip(arrays, reply.arrays, strict=True):
        np.testing.assert_array_equal(back, sent, strict=True)


def test_tuples_arrive_as_lists_by_every_way(connection: Connection) -> None:
    assert connection.call("echo", {"a": (1, 2), "b": {3: 4}}).header == {
        "a": [1, 2],
        "b": {"3": 4},
    }


def test_large_arrays_are_aligned_for_jax(way: str, connection: Connection) -> None:
    if way == "one process":
        pytest.skip("the sender's own arrays are handed over")
    reply = connection.call("echo", {}, [np.ones(5, np.int8), np.ones(3), np.ones(300_000)])
    assert [array.ctypes.data % 64 for array in reply.arrays] == [0, 0, 0]
    assert all(array.flags.writeable for array in reply.arrays)


def test_within_a_process_arrays_are_not_copied(way: str, connection: Connection) -> None:
    if way != "one process":
        pytest.skip("it is the other ways that copy")
    sent = np.ones(10)
    [back] = connection.call("echo", {}, [sent]).arrays
    assert np.shares_memory(sent, back) and not back.flags.writeable and sent.flags.writeable


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (np.array([object()]), "dtype object holds Python objects"),
        (np.zeros(3, ">f4"), "byte order"),
        (np.zeros(2, [("a", "i4")]), "structured dtype"),
        ([1, 2], "is a list"),
    ],
)
def test_what_cannot_be_sent_is_refused(
    connection: Connection, value: object, complaint: str
) -> None:
    with pytest.raises(TypeError, match=complaint):
        connection.submit("echo", {}, [value])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="not for JSON"):
        connection.submit("echo", {"x": value if isinstance(value, np.ndarray) else object()})
    assert connection.call("echo", {"still": "there"}).header == {"still": "there"}


def test_an_exception_of_a_handler_reaches_its_caller_alone(connection: Connection) -> None:
    before, bad, after = (
        connection.submit(op, {"text": "no such table"}) for op in ("echo", "fail", "echo")
    )
    with pytest.raises(RemoteError, match="no such table") as caught:
        bad.result(30)
    assert caught.value.type_name == "ValueError"
    assert caught.value.remote_message == "no such table"
    assert "wire_support.py" in caught.value.remote_traceback
    assert before.result(30).header == after.result(30).header == {"text": "no such table"}


@pytest.mark.parametrize(
    ("op", "complaint"),
    [("missing", "no operation 'missing'"), ("nonsense", "int"), ("unsendable", "JSON")],
)
def test_bad_requests_and_replies_are_errors_of_the_call(
    connection: Connection, op: str, complaint: str
) -> None:
    with pytest.raises(RemoteError, match=complaint):
        connection.call(op, {})
    assert connection.call("echo", {"still": "there"}).header == {"still": "there"}


def test_replies_come_when_they_are_ready(connection: Connection, handlers: Handlers) -> None:
    futures = [
        connection.submit(op, {"i": i, "text": ""})
        for i, op in enumerate(["echo", "later", "echo", "later", "fail", "echo"])
    ]
    wait([futures[i] for i in (0, 2, 4, 5)], 30)
    assert [futures[i].result(30).header["i"] for i in (0, 2, 5)] == [0, 2, 5]
    waiting = handlers.futures
    wait_until(lambda: len(waiting) == 2)
    waiting[1].set_result(Message({"set": 1}))
    assert futures[3].result(30).header == {"set": 1}
    assert not futures[1].done()
    waiting[0].set_exception(KeyError("later"))
    with pytest.raises(RemoteError, match="later"):
        futures[1].result(30)


def test_many_requests_at_once(connection: Connection, handlers: Handlers) -> None:
    ops = ["echo", "later", "fail"] * 40
    sizes = [1, 3_000, 5, 300_000]
    asked = [(op, {"i": i, "text": str(i)}, [np.full(sizes[i % 4], i)]) for i, op in enumerate(ops)]
    futures = connection.submit_many(asked)
    for i in range(40):
        wait_until(lambda i=i: len(handlers.futures) > i)
        handlers.futures[i].set_result(Message({"i": 3 * i + 1}, [np.full(3, 3 * i + 1)]))
    for i, future in enumerate(futures):
        if ops[i] == "fail":
            with pytest.raises(RemoteError, match=f"ValueError .*: {i}\n"):
                future.result(30)
        else:
            reply = future.result(30)
            assert reply.header["i"] == i and (reply.arrays[0] == i).all()
    with pytest.raises(TypeError, match="is a str"):
        connection.submit_many([("echo", {}, []), ("echo", {}, ["text"])])  # type: ignore[list-item]
    assert connection.submit_many([]) == []


def test_many_requests_of_many_threads(connection: Connection) -> None:
    def ask(thread: int) -> list[bool]:
        arrays = [np.full(thread * 3000 + 1, thread)]
        asked = [connection.submit("echo", {"i": [thread, i]}, arrays) for i in range(100)]
        replies = [future.result(30) for future in asked]
        return [
            reply.header == {"i": [thread, i]} and np.array_equal(reply.arrays[0], arrays[0])
            for i, reply in enumerate(replies)
        ]

    with ThreadPoolExecutor(6) as pool:
        for outcome in pool.map(ask, range(6)):
            assert outcome == [True] * 100
