"""Maps over large elements: whole batches computed into recycled memory, the same bits always."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline import config
from drumline._memory import address_of
from drumline.data import AUTOTUNE, Dataset, Options
from drumline.data.elements import precision
from drumline.data.elements.block import Block
from drumline.data.functions import compiled
from drumline.data.functions.programs import gathered_rows

# Of 64 bytes a row is a multiple (64 x 64), or is not.
SHAPES = [(64, 64, 3), (37, 41, 3), (1000,), (17,)]
FUNCTIONS = {
    "one rounding": lambda a: a / 255.0,
    "sums": lambda a: (a - a.astype(jnp.float32).mean())[::-1],
    "several": lambda a: (a.astype(jnp.float32) * 2.5, a, {"y": (a / 3.0, a.sum())}),
}


def rows(n, shape):
    return np.random.default_rng(n).integers(0, 256, (n, *shape), np.uint8)


def program_of(ds):
    (node,) = [n for n in ds._plan.walk() if n.name == "map"]
    return node.function.run


def computed_at_once(ds, data):
    """What the map computes, block by block of the length that it is compiled for."""
    function = program_of(ds)
    length = function.block_length
    parts = [
        function(Block([data[i : i + length]], len(data[i : i + length])), lambda row: row).columns
        for i in range(0, len(data), length)
    ]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def serial(ds):
    options = Options()
    options.autotune.enabled = False
    options.autotune.cpu_budget = 1
    return ds.with_options(options)


@settings(max_examples=25, deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    name=st.sampled_from(sorted(FUNCTIONS)),
    n=st.integers(0, 150),
    size=st.integers(1, 70),
    workers=st.sampled_from([None, 1, 3, AUTOTUNE]),
    drop=st.booleans(),
    streamed=st.booleans(),
    stop=st.integers(0, 5),
)
def test_batches_have_the_same_bits_however_they_are_made(
    shape, name, n, size, workers, drop, streamed, stop
):
    data = rows(n, shape)
    source = Dataset.from_tensor_slices(data)
    if streamed:
        source = source.batch(7).unbatch()
    ds = source.map(FUNCTIONS[name], num_parallel_calls=workers)
    wanted = computed_at_once(ds, data) if n else []
    batched = ds.batch(size, drop_remainder=drop)
    if workers is None:
        batched = serial(batched)
    iterator = iter(batched)
    held = [batch for _, batch in zip(range(stop), iterator, strict=False)]
    copies = [jax.tree.map(np.array, batch) for batch in held]
    again = iter(batched)
    again.restore(iterator.state())
    held += list(again)
    for batch, copy in zip(held, copies, strict=False):
        jax.tree.map(np.testing.assert_array_equal, batch, copy)
    lengths = [len(jax.tree.leaves(batch)[0]) for batch in held]
    assert lengths == [size] * (n // size) + [n % size] * (n % size > 0 and not drop)
    for leaf, column in enumerate(wanted):
        leaves = [jax.tree.leaves(batch)[leaf] for batch in held]
        assert not any(array.flags.writeable for array in leaves)
        if leaves:
            found = np.concatenate(leaves)
            assert found.dtype == column.dtype
            np.testing.assert_array_equal(found, column[: len(found)])


@pytest.mark.skipif(sys.platform != "linux", reason="XLA's allocations are routed on Linux alone")
def test_results_are_written_where_batches_have_them(monkeypatch):
    ds = Dataset.from_tensor_slices(rows(64, (64, 64, 3))).map(lambda a: (a / 255.0 * a, a * a))
    function = program_of(ds)
    found = []
    run = compiled._Program._run

    def noted(self, inputs, places):
        values, failed = run(self, inputs, places)
        found.append([address_of(v) == address_of(p) for v, p in zip(values, places, strict=True)])
        return values, failed

    monkeypatch.setattr(compiled._Program, "_run", noted)
    before = config.reuses_large_buffers()
    config.set_large_buffer_reuse(True)
    try:
        list(ds.batch(32))
    finally:
        config.set_large_buffer_reuse(before)
    assert found and all(map(all, found))
    assert function.block_length <= 64


def test_results_that_lie_in_each_others_places_are_not_lost(monkeypatch):
    data = rows(64, (64, 64, 3))
    ds = Dataset.from_tensor_slices(data).map(lambda a: (a / 255.0, a / 3.0))
    function = program_of(ds)
    run = compiled._Program._run

    def swapped(self, inputs, places):
        values, failed = run(self, inputs, [])
        for place, value in zip(places, reversed(values), strict=True):
            place[:] = value.reshape(-1).view(np.uint8)
        there = [p.view(v.dtype).reshape(v.shape) for p, v in zip(places, values, strict=True)]
        return there[::-1], failed

    length = function.block_length
    block = Block([data[:length]], length)
    wanted = [column.copy() for column in function(block, lambda row: row).columns]
    monkeypatch.setattr(compiled._Program, "_run", swapped)
    for found, column in zip(function(block, lambda row: row).columns, wanted, strict=True):
        np.testing.assert_array_equal(found, column)


def test_memory_that_an_interrupted_program_may_still_write_is_not_used_again(monkeypatch):
    data = rows(64, (64, 64, 3))
    function = program_of(Dataset.from_tensor_slices(data).map(lambda a: a / 255.0))
    block = Block([data[: function.block_length]], function.block_length)
    function(block, lambda row: row)
    (program,) = function._programs
    whole = program._compiled
    asked = []

    def interrupted(*inputs):
        asked.append(True)
        raise KeyboardInterrupt

    monkeypatch.setattr(compiled, "_abandoned", [])
    program._compiled = interrupted
    with pytest.raises(KeyboardInterrupt):
        function(block, lambda row: row)
    (lost,) = compiled._abandoned
    program._compiled = whole
    later = [function(block, lambda row: row).columns[0] for _ in range(3)]
    assert asked and not any(np.shares_memory(lost, column) for column in later)


def test_how_many_threads_xla_has_shows_in_no_sum(monkeypatch):
    data = np.random.default_rng(0).standard_normal((2, 1 << 20), np.float32)
    found = set()
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("PJRT_NPROC", threads)
        precision.calling_thread.cache_clear()
        ds = Dataset.from_tensor_slices(data).map(lambda a: a.mean())
        found.add(np.array(list(ds)).tobytes())
    precision.calling_thread.cache_clear()
    assert len(found) == 1


def test_a_program_that_cannot_run_in_the_calling_thread_runs_elsewhere():
    data = rows(8, (1000,))
    function = program_of(Dataset.from_tensor_slices(data).map(lambda a: a / 255.0))
    (program,) = function._programs
    whole = program._compiled

    def refused(*inputs):
        if jax.config.jax_default_device is not None and program._device is not None:
            raise ValueError("incompatible devices")
        return whole(*inputs)

    program._compiled = refused
    (column,) = function(Block([data], 8), lambda row: row).columns
    np.testing.assert_array_equal(column, np.asarray(jax.jit(lambda a: a / 255.0)(data)))
    assert program._device is None


@pytest.mark.parametrize(
    ("size", "length", "nbytes", "rows"),
    [
        (32, 4, 752_640, 32),  # a batch of photographs
        (64, 64, 61_440, 64),
        (256, 512, 4860, 512),  # two batches fill a block
        (256, 512, 3888, 1024),  # two blocks are one task
        (50, 128, 24_576, 250),  # five fill two, nearly
        (3, 1, 1 << 20, 3),
        (100, 1, 1 << 20, 1),  # a batch is too large
        (7, 1024, 800, 1024),  # few straddle two blocks
        (1, 1024, 800, 1024),
        (5000, 1024, 800, 5000),
    ],
)
def test_tasks_are_whole_batches_where_that_wastes_little(size, length, nbytes, rows):
    assert gathered_rows(size, length, nbytes) == rows


def twice(values):
    return np.asarray(values, np.float32) * 2


def test_a_program_that_calls_python_runs_on_a_device_of_jax():
    def doubled(row):
        spec = jax.ShapeDtypeStruct(row.shape, np.float32)
        return jax.jit(lambda v: jax.pure_callback(twice, spec, v, vmap_method="expand_dims"))(row)

    data = rows(20, (17,))
    ds = Dataset.from_tensor_slices(data).map(doubled)
    (program,) = program_of(ds)._programs
    assert program._device is None
    np.testing.assert_array_equal(np.concatenate(list(ds.batch(6))), data * np.float32(2))
