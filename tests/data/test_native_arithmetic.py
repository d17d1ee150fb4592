"""Results that are computed without XLA are, bit for bit, those of XLA's programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.data import Dataset, Options

DTYPES = (np.bool_, np.uint8, np.int8, np.uint16, np.int16, np.int32, np.float32)
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
IMAGES = np.random.default_rng(0).integers(0, 256, (37, 6, 5, 3), np.uint8)
FLOATS = np.random.default_rng(1).standard_normal((37, 6, 5, 3), np.float32)

MOVES: dict[str, Callable[[Any], Any]] = {
    "left to right": lambda a: a[:, ::-1],
    "upside down": lambda a: a[::-1],
    "both": lambda a: a[::-1, ::-1],
    "flip": lambda a: jnp.flip(a, 2),
    "every second": lambda a: a[1::2, ::2],
    "cut": lambda a: a[1:5, 1:4],
    "channels first": lambda a: jnp.transpose(a, (2, 0, 1)),
    "lines": lambda a: a.reshape(6, 15),
    "flat": lambda a: a.reshape(-1),
    "with a dimension": lambda a: a[None],
    "one channel": lambda a: a[..., 1],
    "nothing": lambda a: a,
}

NATIVE: dict[str, Callable[[Any], Any]] = {
    "a quotient": lambda a: a / 255,
    "a named type": lambda a: a.astype(np.float32) / 255.0,
    "a product": lambda a: a * np.float32(1 / 255),
    "a product from the left": lambda a: np.float32(1 / 255) * a,
    "shifted, then scaled": lambda a: (a.astype(np.float32) - 127.5) / 127.5,
    "scaled, then shifted": lambda a: a / 127.5 - 1,
    "by channel": lambda a: (a - np.float32([125, 120, 110])) / STD,
    "by channel, moved after": lambda a: jnp.transpose((a - MEAN) / STD, (2, 0, 1))[::-1],
    "by place": lambda a: a - np.linspace(1, 9, 90, dtype=np.float32).reshape(6, 5, 3),
    "converted": lambda a: a.astype(np.float32)[::-1],
}

XLAS: dict[str, Callable[[Any], Any]] = {
    "three steps": lambda a: (a / 255 - MEAN) / STD,
    "a constant minus it": lambda a: 1.0 - a.astype(np.float32),
    "by one": lambda a: a * np.float32(1),
    "no sum": lambda a: a.astype(np.float32) + 0.0,
    "by nothing": lambda a: a / np.float32(0),
    "by a huge number": lambda a: a / np.float32(1e38),
    "a function": lambda a: jnp.tanh(a / 255),
    "by itself": lambda a: a.astype(np.float32) * a,
    "beside a sum": lambda a: (a / 255, (a / 255).sum()),
    "empty": lambda a: a[:0] / 255,
    "padded": lambda a: jnp.pad(a, 1) / 255,
    "repeated": lambda a: jnp.broadcast_to(a, (2, 6, 5, 3)) / 255,
    "bytes": lambda a: a[::-1],
}


def by_xla(ds: Dataset) -> Dataset:
    options = Options()
    options.experimental_optimization.native_arithmetic = False
    return ds.with_options(options)


def bits(ds: Dataset) -> list[list[np.ndarray]]:
    rows = (row if isinstance(row, tuple) else (row,) for row in ds)
    return [[np.asarray(leaf) for leaf in row] for row in rows]


def assert_same_bits(ds: Dataset) -> None:
    found, wanted = bits(ds), bits(by_xla(ds))
    assert len(found) == len(wanted)
    for row, expected in zip(found, wanted, strict=True):
        for leaf, other in zip(row, expected, strict=True):
            assert (leaf.dtype, leaf.shape) == (other.dtype, other.shape)
            assert leaf.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("rows", [IMAGES, FLOATS], ids=["uint8", "float32"])
def test_arithmetic_is_native(name: str, rows: np.ndarray) -> None:
    ds = Dataset.from_tensor_slices(rows).map(NATIVE[name])
    assert "native arithmetic" in ds.explain()
    assert "compiled" not in ds.explain()
    assert "native arithmetic" not in by_xla(ds).explain()
    assert_same_bits(ds)


@pytest.mark.parametrize("name", XLAS)
def test_other_arithmetic_is_left_to_xla(name: str) -> None:
    ds = Dataset.from_tensor_slices(IMAGES).map(XLAS[name])
    assert "native arithmetic" not in ds.explain()
    assert_same_bits(ds)


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    move = MOVES[name]
    for function in (lambda a: move(a) / 255, lambda a: move((a - MEAN) / STD)):
        ds = Dataset.from_tensor_slices(IMAGES).map(function)
        assert "native arithmetic" in ds.explain()
        assert_same_bits(ds.batch(8))


def test_all_bytes_and_unusual_floats() -> None:
    every = np.arange(256, dtype=np.uint8).reshape(16, 16)
    least, tiny = np.float32(1e-45), np.finfo(np.float32).tiny
    unusual = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, least, -least, tiny, tiny * 1.5, 3e38])
    for rows in (every, np.tile(unusual.astype(np.float32), (9, 3))):
        for function in (
            lambda a: a / 255,
            lambda a: a / 127.5 - 1,
            lambda a: (a - np.float32(127.5)) * np.float32(0.3),
            lambda a: a + np.float32(1e-25),
            lambda a: a.astype(np.float32)[::-1],
        ):
            ds = Dataset.from_tensor_slices(rows).map(function)
            assert "native arithmetic" in ds.explain()
            assert_same_bits(ds)


def test_other_results_stay_compiled() -> None:
    numbers = np.arange(37)
    ds = Dataset.from_tensor_slices((IMAGES, numbers)).map(
        lambda a, n: (a[:, ::-1] / 255, n + 1, a.max(), n * n, a)
    )
    assert "native arithmetic (2 of its results)" in ds.explain()
    assert "compiled for blocks of" in ds.explain()
    assert_same_bits(ds)
    assert_same_bits(ds.batch(10))


def test_errors_of_what_is_compiled_stay_in_their_place() -> None:
    ds = Dataset.from_tensor_slices((IMAGES, np.arange(37) - 20)).map(
        lambda a, n: (a / 255, 100 // n)
    )
    assert "native arithmetic" in ds.explain()
    iterator = iter(ds)
    found = [next(iterator) for _ in range(20)]
    assert found[19][0].tobytes() == (IMAGES[19] * np.float32(1 / 255)).tobytes()
    with pytest.raises(ZeroDivisionError, match="element 20"):
        next(iterator)
    assert next(iterator)[1] == 100


@pytest.mark.parametrize("layout", ["strided", "unaligned", "reversed"])
def test_rows_that_do_not_lie_in_order(layout: str) -> None:
    if layout == "strided":
        rows = np.asfortranarray(FLOATS)
    elif layout == "reversed":
        rows = FLOATS[::-1, :, ::-1]
    else:
        memory = np.empty(FLOATS.nbytes + 1, np.uint8)
        rows = memory[1:].view(np.float32).reshape(FLOATS.shape)
        rows[...] = FLOATS
    ds = Dataset.from_tensor_slices(rows).map(lambda a: a[:, ::-1] / 255)
    assert "native arithmetic" in ds.explain()
    assert_same_bits(ds)


def test_threads_and_batches_show_in_no_bit() -> None:
    source = Dataset.from_tensor_slices(np.tile(IMAGES, (50, 1, 1, 1))).shuffle(100, seed=3)
    plain = source.map(lambda a: a[:, ::-1] / 255)
    wanted = b"".join(row[0].tobytes() for row in bits(by_xla(plain)))
    for ds in (
        plain.batch(7),
        source.map(lambda a: a[:, ::-1] / 255, num_parallel_calls=2).batch(64),
        source.map(lambda a: a[:, ::-1] / 255, num_parallel_calls=3).batch(1000).prefetch(1),
    ):
        assert b"".join(row[0].tobytes() for row in bits(ds)) == wanted


INTEGERS: dict[str, Callable[[Any], Any]] = {
    "a sum": lambda n: n + 1,
    "from the left": lambda n: 7 - n,
    "a product": lambda n: n * 3 + 1,
    "another type": lambda n: n.astype(np.int8),
    "and back": lambda n: (n.astype(np.uint16) * 5).astype(np.int32),
    "a comparison": lambda n: n == 3,
    "a limit": lambda n: jnp.minimum(n, 5),
    "bits": lambda n: (n & 12) ^ 5,
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("shape", [(), (3, 2)])
def test_integers_are_native(name: str, dtype: Any, shape: tuple[int, ...]) -> None:
    info = np.iinfo(dtype)
    rows = np.random.default_rng(2).integers(info.min, info.max, (53, *shape), dtype, endpoint=True)
    ds = Dataset.from_tensor_slices(rows).map(INTEGERS[name])
    assert "compiled" not in ds.explain()
    assert "native arithmetic" in ds.explain()
    assert_same_bits(ds)
    assert_same_bits(ds.batch(8))


def test_integers_beside_what_rounds_are_native_where_it_reads_other_leaves() -> None:
    numbers = np.arange(2**40, 2**40 + 37)
    source = Dataset.from_tensor_slices((FLOATS, numbers))
    ds = source.map(lambda a, n: (a - a.mean(), n + 1))
    assert "64-bit" not in ds.explain()
    assert "native arithmetic (1 of its results)" in ds.explain()
    assert_same_bits(ds)
    small = Dataset.from_tensor_slices((FLOATS, numbers.astype(np.int32)))
    beside = small.map(lambda a, n: (a * n - a.mean(), n + 1))
    assert "native arithmetic" not in beside.explain()
    assert_same_bits(beside)


def test_checks_of_results_that_are_left_out_are_made() -> None:
    def function(a: Any, n: Any) -> Any:
        jnp.zeros(4)[n % 3 // n]
        return a / 255, n + 1

    ds = Dataset.from_tensor_slices((IMAGES, np.arange(37) - 20)).map(function)
    iterator = iter(ds)
    found = [next(iterator) for _ in range(20)]
    assert found[19][1] == 0
    with pytest.raises(ZeroDivisionError, match="element 20"):
        next(iterator)


constants = st.floats(-1e6, 1e6, width=32).map(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.sampled_from(DTYPES),
    moves=st.lists(
        st.sampled_from(["left to right", "upside down", "cut"]), max_size=2, unique=True
    ),
    steps=st.lists(
        st.tuples(st.sampled_from("+-*/"), st.one_of(constants, st.tuples(*[constants] * 3))),
        max_size=3,
    ),
    moved_last=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_arithmetic(
    dtype: Any, moves: list[str], steps: list[tuple[str, Any]], moved_last: bool, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    if dtype in (np.float32, np.bool_):
        rows = (generator.standard_normal((9, 6, 5, 3)) * 100).astype(dtype)
    else:
        info = np.iinfo(dtype)
        rows = generator.integers(info.min, info.max, (9, 6, 5, 3), dtype, endpoint=True)

    def moved(a: Any) -> Any:
        for name in moves:
            a = MOVES[name](a)
        return a

    def function(a: Any) -> Any:
        a = (a if moved_last else moved(a)).astype(np.float32)
        for sign, constant in steps:
            number = np.asarray(constant, np.float32)
            if sign == "+":
                a = a + number
            elif sign == "-":
                a = a - number
            else:
                a = a * number if sign == "*" else a / number
        return moved(a) if moved_last else a

    assert_same_bits(Dataset.from_tensor_slices(rows).map(function))
