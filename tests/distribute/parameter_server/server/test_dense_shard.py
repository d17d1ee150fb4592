"""Dense parts are updated as one device updates a variable, and read whole."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from drumline.distribute.parameter_server.wire.codec import Message

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "nadam": lambda: keras.optimizers.Nadam(0.01),
    "schedule": lambda: keras.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.5, 2, 0.5)
    ),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_are_those_of_keras(client, name, known):
    rng = np.random.default_rng(0)
    value = rng.normal(size=(5, 3)).astype("float32")
    variable, optimizer = keras.Variable(value), OPTIMIZERS[name]()
    optimizer.build([variable])
    client.create("v/0", value)
    client.attach("v/0", OPTIMIZERS[name](), formula=known)
    for step in range(4):
        gradient = rng.normal(size=(5, 3)).astype("float32")
        if step != 2:  # a read makes the next update leave the old value's memory alone
            before = client.read("v/0").copy()
            kept = client.read("v/0")
        optimizer.apply([keras.ops.convert_to_tensor(gradient)])
        client.push("v/0", "dense", gradient)
        np.testing.assert_allclose(client.read("v/0"), np.asarray(variable.value), rtol=2e-6)
        np.testing.assert_array_equal(kept, before)


class SharedLane:
    """A connection both of whose sides see its memory."""

    number, peer = 1, "a test"

    def __init__(self):
        self.made = []

    def empties(self, forms):
        return [np.empty(*form) for form in forms]

    def shared(self, shape, dtype):
        self.made.append(np.empty(shape, dtype))
        return self.made[-1]


@pytest.mark.parametrize("size", [10, 20_000])
@pytest.mark.parametrize("known", [True, False])
def test_a_pulled_value_is_that_of_its_version(client, known, size):
    client.create("v/0", np.zeros(size, "float32"))
    client.attach("v/0", keras.optimizers.SGD(1.0), formula=known)
    lane, pulled = SharedLane(), []
    header = {"push": [{"name": "v/0", "kind": "dense"}], "pull": [{"name": "v/0", "version": -1}]}
    for _ in range(4):
        gradient = np.full(size, -1, "float32")
        push_pull = client.server.handlers()["push_pull"]
        (value,) = push_pull(Message(header, [gradient], lane)).arrays
        pulled.append(value)
    for updates, value in enumerate(pulled, 1):
        np.testing.assert_array_equal(value, np.full(size, updates))
    assert len(lane.made) == (4 if size * 4 > 16384 else 0)  # others travel with the message


def test_a_learning_rate_holds_for_the_updates_after_it(client):
    client.create("v/0", np.zeros(2, "float32"))
    client.attach("v/0", keras.optimizers.SGD(1.0))
    client.push("v/0", "dense", np.ones(2, "float32"))
    client.ask("set_hyperparameters", {"update": "r", "values": {"learning_rate": 0.25}})
    client.push("v/0", "dense", np.ones(2, "float32"))
    np.testing.assert_array_equal(client.read("v/0"), [-1.25, -1.25])


def test_a_value_is_pulled_when_it_has_changed(client):
    client.create("v/0", np.zeros(2, "int64"))
    pull = {"pull": [{"name": "v/0", "version": -1}]}
    first = client.ask("push_pull", pull)
    assert first.header["changed"] == [True]
    (version,) = first.header["versions"]
    pull["pull"][0]["version"] = version
    assert client.ask("push_pull", pull).header["changed"] == [False]
    assert len(client.ask("push_pull", pull).arrays) == 0
    client.push("v/0", "add", np.array([2**40, 1]))
    second = client.ask("push_pull", pull)
    assert second.header["versions"][0] > version
    np.testing.assert_array_equal(second.arrays[0], [2**40, 1])


@pytest.mark.parametrize("shape", [(), (3,), (0, 2)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint32", "bool"])
def test_values_of_any_shape_and_dtype_are_kept(client, shape, dtype):
    value = np.asarray(keras.ops.convert_to_numpy(keras.ops.ones(shape, dtype)))
    client.create("v/0", value)
    found = client.read("v/0")
    assert (found.shape, found.dtype) == (value.shape, value.dtype)
    np.testing.assert_array_equal(found, value)


def test_half_precision_is_updated_and_read(client):
    value = keras.ops.convert_to_numpy(keras.ops.full((70,), 1.5, "bfloat16"))
    client.create("v/0", value)
    client.attach("v/0", keras.optimizers.SGD(0.5))
    client.push("v/0", "dense", value)
    found = client.read("v/0")
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found.astype("float32"), np.full(70, 0.75, "float32"))


def test_rows_of_a_value_are_read_and_written(client):
    client.create("v/0", np.arange(6.0).reshape(3, 2))
    before = client.read("v/0", 1, 3)
    client.ask("write", {"name": "v/0", "start": 1, "stop": 2}, [np.full((1, 2), 9.0)])
    np.testing.assert_array_equal(client.read("v/0"), [[0, 1], [9, 9], [4, 5]])
    np.testing.assert_array_equal(before, [[2, 3], [4, 5]])


def test_a_slot_is_read_and_written(client):
    client.create("v/0", np.zeros(2, "float32"))
    client.attach("v/0", keras.optimizers.SGD(1.0, momentum=0.5))
    (name,) = client.slots("v/0")
    client.ask("write", {"name": "v/0", "slot": name}, [np.full(2, 8, "float32")])
    client.push("v/0", "dense", np.ones(2, "float32"))
    np.testing.assert_array_equal(client.slots("v/0")[name], [3, 3])
    np.testing.assert_array_equal(client.read("v/0"), [3, 3])
