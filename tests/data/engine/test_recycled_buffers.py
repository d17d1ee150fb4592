"""Memory is used again only when nobody can see it any more."""

import gc

import jax
import numpy as np
import pytest

from drumline._memory import ALIGNMENT, BufferPool
from drumline.data import Dataset


def big(n=4000):
    rows = np.arange(n, dtype=np.float32)[:, None] * np.ones(256, np.float32)
    return Dataset.from_tensor_slices(rows)


def test_arrays_that_are_held_never_change():
    held, copies = [], []
    for i, batch in enumerate(big().shuffle(4000, seed=1).batch(100)):
        if i % 3 == 0:
            held.append(batch[10:20])
            copies.append(batch[10:20].copy())
    for view, copy in zip(held, copies, strict=True):
        np.testing.assert_array_equal(view, copy)


def test_what_jax_aliases_never_changes():
    step = jax.jit(lambda x: (x @ x.T).sum())
    values, expected = [], []
    device = []
    for batch in big().shuffle(4000, seed=1).batch(128):
        values.append(step(batch))
        device.append(jax.device_put(batch))
        expected.append(batch.copy())
    for value, on_device, copy in zip(values, device, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(on_device), copy)
        np.testing.assert_allclose(float(value), float(step(copy)), rtol=1e-6)


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
