"""Where values lie: aligned, once in memory, and unchanged under those who read them."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from drumline._memory import resident_bytes
from drumline.distribute.parameter_server.compiler.initializer import export_initializer
from drumline.distribute.parameter_server.errors import ShardMismatchError
from drumline.distribute.parameter_server.server import memory
from drumline.distribute.parameter_server.server.dense_shard import CowArray

LARGE = 3 << 20


@pytest.mark.parametrize("shape", [(), (0,), (5, 3), (LARGE,)])
def test_arrays_are_aligned_and_zero(shape):
    array = memory.zeros(shape, np.dtype(np.float32))
    assert array.shape == shape and array.flags.writeable
    assert array.ctypes.data % memory.ALIGNMENT == 0 or not array.size
    assert not array.any()


def test_large_arrays_take_memory_when_they_are_written():
    before = resident_bytes()
    array = memory.zeros((64 << 20,), np.dtype(np.uint8))
    assert resident_bytes() - before < 16 << 20
    array[:] = 1
    assert resident_bytes() - before > 48 << 20


def test_a_large_initial_value_stays_where_it_was_computed():
    array = memory.on_cpu(np.ones(LARGE, "float32"))
    taken = memory.taken_over(array)
    assert taken.ctypes.data == array.unsafe_buffer_pointer()
    del array
    taken += 1
    np.testing.assert_array_equal(taken[[0, -1]], [2, 2])


@pytest.mark.parametrize("size", [4, 10_000, LARGE])
def test_memory_of_jax_is_its_own(size):
    source = memory.zeros((size,), np.dtype(np.float32))
    array = memory.on_cpu(source)
    assert array.unsafe_buffer_pointer() != source.ctypes.data
    source += 1
    assert not np.asarray(array).any()


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("rows", [10, 300_000])
def test_initial_values_are_computed_on_the_server(client, table, rows):
    initializer = keras.initializers.RandomNormal(seed=3)
    program = export_initializer(initializer, (rows, 8), "float32", 2, rows, platforms=("cpu",))
    header = {"name": "t/0", "shape": [rows - 2, 8], "dtype": "float32", "table": table}
    program = np.frombuffer(program, np.uint8)
    client.ask("create", {**header, "start": 2, "is_program": True}, [program])
    whole = np.asarray(keras.initializers.RandomNormal(seed=3)((rows, 8)))
    np.testing.assert_allclose(client.read("t/0"), whole[2:], rtol=1e-6, atol=1e-8)
    client.ask("write", {"name": "t/0"}, [whole[2:] + 1])
    np.testing.assert_array_equal(client.read("t/0", 5, 6), whole[7:8] + 1)
    with pytest.raises(ShardMismatchError, match="initial value of shape"):
        client.ask(
            "create", {**header, "name": "u/0", "shape": [3, 8], "is_program": True}, [program]
        )


def test_memory_of_jax_is_used_again_only_when_nobody_reads_it():
    held = CowArray(np.zeros(8, "float32"))
    assert not held.is_spare  # numpy's memory
    held.replace(memory.on_cpu(np.ones(8, "float32")))
    assert held.is_spare
    view = held.view[2:4]
    assert not held.is_spare
    assert not view.flags.writeable
    del view
    assert held.is_spare


@pytest.mark.parametrize("of_jax", [False, True])
def test_a_value_is_changed_where_it_is_unless_somebody_reads_it(of_jax):
    held = CowArray(np.zeros(8, "float32"))
    if of_jax:
        held.replace(memory.on_cpu(np.zeros(8, "float32")))
    first = held.writable()
    first += 1
    assert held.writable() is first
    part = held.view[2:4]
    second = held.writable()
    second += 1
    np.testing.assert_array_equal(part, [1, 1])
    np.testing.assert_array_equal(held.view, np.full(8, 2))
    assert held.writable() is second
    del part
    whole = held.view
    third = held.writable()
    assert third is first  # whose readers are gone
    third += 1
    np.testing.assert_array_equal(whole, np.full(8, 2))
    np.testing.assert_array_equal(held.view, np.full(8, 3))


def test_values_given_to_a_server_are_copied(client):
    value = np.zeros(4, "float32")
    for name, table in (("v/0", False), ("t/0", True)):
        value[:] = 0
        client.create(name, value, table=table)
        value[:] = 5
        np.testing.assert_array_equal(client.read(name), np.zeros(4))
    client.ask("write", {"name": "v/0"}, [value])
    value[:] = 7
    np.testing.assert_array_equal(client.read("v/0"), [5] * 4)


def test_what_was_done_is_counted(client):
    client.create("t/0", np.zeros((10, 4), "float32"), table=True)
    client.attach("t/0", keras.optimizers.Adagrad(0.1))
    for _ in range(2):
        client.push("t/0", "rows", np.arange(3), np.ones((3, 4), "float32"), closure="s:1")
    client.gather("t/0", np.arange(5))
    found = client.ask("stats", {}).header
    assert {name: found[name] for name in ("pushes", "repeated_pushes", "exchanges")} == {
        "pushes": 1,
        "repeated_pushes": 1,
        "exchanges": 3,
    }
    assert (found["rows_updated"], found["rows_gathered"]) == (3, 5)
    assert (found["bytes_in"], found["bytes_out"]) == (2 * 48, 80)
    assert (found["shards"], found["shard_bytes"], found["open_closures"]) == (1, 320, 1)
    assert found["resident_bytes"] > 1 << 20
    assert found["seconds"]["push"] > 0 and found["seconds"]["read"] > 0
    client.ask("finished", {"closures": ["s:1"]})
    assert client.ask("stats", {}).header["open_closures"] == 0
