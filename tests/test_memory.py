"""Memory for arrays: aligned, used again when nobody sees it, and given back between epochs."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline._memory import (
    ALIGNMENT,
    SMALLEST_REUSED,
    BufferPool,
    Trimmer,
    _group,
    _machine,
    address_of,
    aligned_empty,
    aligned_part,
    available_bytes,
    fresh,
    mapped_zeros,
    padded,
    resident_bytes,
    size_class,
)


@given(st.integers(0, 1 << 40), st.sampled_from([1, 64, 4096]))
def test_size_classes_are_few_and_little_larger(nbytes, granule):
    found = size_class(nbytes, granule)
    assert nbytes <= found <= max(nbytes + nbytes / 8, nbytes + granule - 1)
    assert found % granule == 0 and size_class(found, granule) == found
    assert padded(nbytes) % ALIGNMENT == 0 and 0 <= padded(nbytes) - nbytes < ALIGNMENT


def test_there_are_eight_size_classes_between_powers_of_two():
    assert len({size_class(nbytes) for nbytes in range((1 << 15) + 1, (1 << 16) + 1)}) == 8


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 7), (100_000,)])
@pytest.mark.parametrize("dtype", ["uint8", "float64", "complex64", "S3"])
def test_aligned_arrays_are_aligned_and_writable(shape, dtype):
    arrays = [aligned_empty(shape, np.dtype(dtype)) for _ in range(20)]
    for number, array in enumerate(arrays):
        assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
        assert not array.size or address_of(array) % ALIGNMENT == 0
        assert array.flags.c_contiguous
        array[...] = number
    assert all((array == np.array(n).astype(dtype)).all() for n, array in enumerate(arrays))


def test_an_aligned_part_lies_within_its_base():
    base = np.zeros(200, np.uint8)
    part = aligned_part(base, 100)
    assert len(part) == 100 and address_of(part) % ALIGNMENT == 0
    assert address_of(base) <= address_of(part) < address_of(base) + ALIGNMENT
    assert address_of(base) == base.ctypes.data


@pytest.mark.parametrize("nbytes", [1, 5000, 1 << 20, 5 << 20])
def test_mapped_pages_are_zero_and_outlive_their_name(nbytes):
    pages = mapped_zeros(nbytes)
    assert len(pages) == nbytes and not pages.any() and address_of(pages) % 4096 == 0
    tail = pages[-1:]
    del pages
    tail[0] = 7
    assert tail[0] == 7


def test_mapped_pages_take_memory_as_they_are_written():
    before = resident_bytes()
    pages = mapped_zeros(256 << 20)
    assert resident_bytes() - before < 128 << 20
    pages[: 128 << 20] = 1
    assert resident_bytes() - before > 100 << 20
    del pages
    assert resident_bytes() - before < 64 << 20


def test_fresh_memory_is_at_hand_where_nothing_can_be_mapped(monkeypatch):
    def none(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("drumline._memory.mmap.mmap", none)
    assert len(fresh(1 << 20)) >= 1 << 20


def test_small_arrays_and_objects_are_not_used_again():
    pool = BufferPool()
    for shape, dtype in (((SMALLEST_REUSED - 1,), np.uint8), ((SMALLEST_REUSED,), object)):
        pool.empty(shape, np.dtype(dtype))
        assert not pool._buffers
    pool.empty((SMALLEST_REUSED,), np.dtype(np.uint8))
    assert pool._buffers


@pytest.mark.parametrize("rows", [100, 1000])
def test_a_free_buffer_is_used_again_and_a_held_one_is_not(rows):
    pool = BufferPool()
    shape = (rows, 100)
    first = pool.empty(shape, np.dtype(np.float32))
    assert first.ctypes.data % ALIGNMENT == 0
    address = first.ctypes.data
    view = first[3:4]
    del first
    gc.collect()
    second = pool.empty(shape, np.dtype(np.float32))
    assert second.ctypes.data != address
    del view
    gc.collect()
    assert pool.empty(shape, np.dtype(np.float32)).ctypes.data == address


@pytest.mark.parametrize("nbytes", [50_000, 500_000])
def test_a_pool_whose_buffers_are_all_held_goes_on(nbytes):
    pool = BufferPool(max_buffers=2)
    arrays = [pool.empty((nbytes,), np.dtype(np.uint8)) for _ in range(5)]
    assert len({a.ctypes.data for a in arrays}) == 5


def test_several_arrays_are_different_ones_and_are_used_again():
    pool = BufferPool(max_buffers=5)
    first = pool.several(3, (9000,), np.dtype(np.int64))
    for number, array in enumerate(first):
        array[:] = number
    assert [set(array.tolist()) for array in first] == [{0}, {1}, {2}]
    held = first[1]
    places = {array.ctypes.data for array in first}
    del first, array
    again = pool.several(7, (9000,), np.dtype(np.int64))
    assert len({array.ctypes.data for array in again}) == 7
    assert {array.ctypes.data for array in again} & places == places - {held.ctypes.data}
    assert all(array.ctypes.data % 64 == 0 for array in again)
    assert set(held.tolist()) == {1}


class Process:
    """One whose size, whose free memory and whose time are set by hand; looking takes a moment."""

    def __init__(self):
        self.now = 0.0
        self.size = 1000
        self.free = 0
        self.trims = 0
        self.trimmer = Trimmer(self.resident, self.trim, lambda: self.now)

    def resident(self):
        self.now += 0.001
        return self.size

    def trim(self):
        self.now += 0.01
        self.trims += 1
        self.size -= self.free
        self.free = 0

    def epoch(self, grown=0, freed=0, seconds=100.0):
        self.now += seconds
        self.size += grown
        self.free += freed
        self.trimmer.epoch_ended()


def test_a_process_that_grows_is_trimmed():
    process = Process()
    process.epoch()
    for _ in range(40):
        process.epoch(grown=8, freed=8)
    assert 10 <= process.trims <= 30
    assert process.size <= 1010


def test_one_that_stays_or_needs_what_it_has_is_left_alone():
    process = Process()
    for _ in range(5):
        process.epoch()
    assert process.trims == 0
    process.epoch(grown=500)
    for _ in range(5):
        process.epoch()
    assert process.trims == 1


def test_short_epochs_spend_little_on_it():
    process = Process()
    for _ in range(1000):
        process.epoch(grown=20, freed=20, seconds=0.01)
    assert process.now < 1.02 * 1000 * 0.01


def test_available_bytes(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  9 kB\nMemAvailable:     5 kB\n")
    assert _machine(meminfo) == 5 * 1024
    assert _group(tmp_path) == 1 << 62
    (tmp_path / "memory.max").write_text("max\n")
    assert _group(tmp_path) == 1 << 62
    (tmp_path / "memory.max").write_text("100\n")
    (tmp_path / "memory.current").write_text("70\n")
    assert _group(tmp_path) == 30
    (tmp_path / "memory.stat").write_text("anon 40\nactive_file 5\ninactive_file 25\n")
    assert _group(tmp_path) == 55
    assert available_bytes() > 0
