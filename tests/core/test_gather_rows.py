"""gather_rows against numpy's own indexing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline._core import gather_rows

UNTOUCHED = 77


def rows_of_bytes(rows: int, width: int) -> np.ndarray:
    return np.random.default_rng(rows + width).integers(0, 256, (rows, width), dtype=np.uint8)


@given(st.integers(1, 30), st.integers(0, 40), st.data())
def test_it_copies_what_numpy_takes(rows: int, width: int, data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, rows - 1), max_size=50))
    src, idx = rows_of_bytes(rows, width), np.array(indices, np.int64)
    out = np.empty((len(idx), width), np.uint8)
    gather_rows(src, idx, out)
    np.testing.assert_array_equal(out, src[idx])


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 784, 3136])
def test_large_copies_in_parallel(width: int) -> None:
    src = rows_of_bytes(1000, width)
    count = 3 * 2**20 // width + 1
    idx = np.random.default_rng(width).integers(0, 1000, count)
    out = np.empty((count, width), np.uint8)
    gather_rows(src, idx, out)
    np.testing.assert_array_equal(out, src[idx])


def test_read_only_sources_and_indices_are_fine() -> None:
    src, idx = rows_of_bytes(4, 3), np.array([2, 0])
    src.flags.writeable = idx.flags.writeable = False
    out = np.empty((2, 3), np.uint8)
    gather_rows(src, idx, out)
    np.testing.assert_array_equal(out, src[[2, 0]])


@pytest.mark.parametrize("bad", [-1, 5, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("width", [0, 3, 8])
@pytest.mark.parametrize("count", [3, 400_000])
def test_a_bad_index_is_named_and_nothing_is_written(bad: int, width: int, count: int) -> None:
    idx = np.zeros(count, np.int64)
    idx[2:] = bad
    out = np.full((count, width), UNTOUCHED, np.uint8)
    with pytest.raises(IndexError, match=rf"idx\[2\] is {bad}, but src has 5 rows"):
        gather_rows(rows_of_bytes(5, width), idx, out)
    assert (out == UNTOUCHED).all()


def test_an_empty_source_has_no_rows() -> None:
    gather_rows(np.empty((0, 4), np.uint8), np.empty(0, np.int64), np.empty((0, 4), np.uint8))
    with pytest.raises(IndexError, match="src has 0 rows"):
        gather_rows(np.empty((0, 4), np.uint8), np.array([0]), np.empty((1, 4), np.uint8))


def valid() -> dict[str, np.ndarray]:
    return {"src": rows_of_bytes(5, 3), "idx": np.arange(2), "out": np.zeros((2, 3), np.uint8)}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("src", np.zeros((5, 3), np.float32), "src must be a 2-dimensional uint8 .*float32"),
        ("src", np.zeros(15, np.uint8), "src must be .* it is 1-dimensional uint8"),
        ("src", [[1, 2, 3]], "src must be .* it is of type list"),
        ("idx", np.zeros(2, np.int32), "idx must be a 1-dimensional int64 .*int32"),
        ("idx", np.zeros((2, 1), np.int64), "idx must be .* it is 2-dimensional"),
        ("idx", np.zeros(2, ">i8"), "idx must be"),
        ("out", np.zeros((2, 3), np.int8), "out must be a 2-dimensional uint8 .*int8"),
    ],
)
def test_other_kinds_of_arguments(name: str, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        gather_rows(**(valid() | {name: value}))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("src", np.zeros((5, 6), np.uint8)[:, ::2], "src must be C-contiguous"),
        ("src", np.zeros((3, 5), np.uint8).T, "src must be C-contiguous"),
        ("idx", np.zeros(4, np.int64)[::2], "idx must be C-contiguous"),
        ("idx", np.frombuffer(bytes(17), np.int64, offset=1), "idx must be C-contiguous and align"),
        ("out", np.zeros((3, 2), np.uint8).T, "out must be C-contiguous"),
        ("out", np.zeros((3, 3), np.uint8), r"out has shape \[3, 3\]; 2 indices .* need \[2, 3\]"),
        ("out", np.zeros((2, 4), np.uint8), "out has shape"),
        ("out", np.frombuffer(bytes(6), np.uint8).reshape(2, 3), "out is read-only"),
    ],
)
def test_arrays_that_cannot_be_used(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gather_rows(**(valid() | {name: value}))


def test_memory_shared_with_the_output_is_refused() -> None:
    src = rows_of_bytes(5, 8)
    with pytest.raises(ValueError, match="overlaps|share memory"):
        gather_rows(src, np.arange(2), src[3:])
    memory = bytearray(80)
    one, other = (np.frombuffer(memory, np.uint8).reshape(10, 8) for _ in range(2))
    with pytest.raises(ValueError, match="src and out share memory"):
        gather_rows(one, np.arange(2), other[1:3])
    indices = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="overlaps|share memory"):
        gather_rows(src, indices, indices.view(np.uint8).reshape(2, 8))


def test_disjoint_parts_of_one_array_are_fine() -> None:
    both = rows_of_bytes(10, 4)
    expected = both[[1, 3]].copy()
    gather_rows(both[:5], np.array([1, 3]), both[6:8])
    np.testing.assert_array_equal(both[6:8], expected)


def test_threads_may_share_a_source() -> None:
    src = rows_of_bytes(2000, 784)

    def copy(seed: int) -> bool:
        idx = np.random.default_rng(seed).integers(0, 2000, 3000)
        out = np.empty((3000, 784), np.uint8)
        gather_rows(src, idx, out)
        return bool((out == src[idx]).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(copy, range(12)))


def test_a_forked_child_does_not_wait_for_the_parents_threads() -> None:
    """Run apart, because a process that has started JAX must not fork."""
    import subprocess
    import sys

    script = """
import importlib.util, os, sys
import numpy as np
spec = importlib.util.spec_from_file_location("drumline._core", sys.argv[1])
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
src, idx = np.ones((100, 1024), np.uint8), np.zeros(8192, np.int64)
out = np.empty((8192, 1024), np.uint8)
core.gather_rows(src, idx, out)
child = os.fork()
if child == 0:
    out[:] = 0
    core.gather_rows(src, idx, out)
    os._exit(0 if (out == 1).all() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    import drumline._core

    command = [sys.executable, "-c", script, drumline._core.__file__]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0
