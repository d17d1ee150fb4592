"""Tables: an update changes the rows it names, as the formula does in float64, and no others."""

from __future__ import annotations

import threading

import keras
import numpy as np
import pytest

from drumline.distribute.parameter_server.errors import (
    RepeatedRowError,
    RequestError,
    RowIndexError,
    ShardMismatchError,
    UpdateMismatchError,
)
from drumline.distribute.parameter_server.server import optimizer_updates
from drumline.distribute.parameter_server.server.embedding_shard import EmbeddingShard


def sgd(value, slots, gradient, step):
    return value - 0.1 * gradient, slots


def momentum(value, slots, gradient, step):
    velocity = 0.9 * slots[0] - 0.1 * gradient
    return value + velocity, [velocity]


def adagrad(value, slots, gradient, step):
    accumulator = slots[0] + gradient**2
    return value - 0.1 * gradient / np.sqrt(accumulator + 1e-7), [accumulator]


def adam(value, slots, gradient, step):
    first = slots[0] + (gradient - slots[0]) * 0.1
    second = slots[1] + (gradient**2 - slots[1]) * 0.001
    rate = 0.1 * np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
    return value - rate * first / (np.sqrt(second) + 1e-7), [first, second]


def rmsprop(value, slots, gradient, step):
    velocity = 0.9 * slots[0] + 0.1 * gradient**2
    return value - 0.1 * gradient / np.sqrt(velocity + 1e-7), [velocity]


def ftrl(value, slots, gradient, step):
    accumulator, linear = slots
    grown = accumulator + gradient**2
    linear = linear + gradient - (np.sqrt(grown) - np.sqrt(accumulator)) / 0.1 * value
    return -linear / (np.sqrt(grown) / 0.1), [grown, linear]


CASES = {
    "sgd": (lambda: keras.optimizers.SGD(0.1), sgd, []),
    "momentum": (lambda: keras.optimizers.SGD(0.1, momentum=0.9), momentum, [0.0]),
    "adagrad": (lambda: keras.optimizers.Adagrad(0.1), adagrad, [0.1]),
    "adam": (lambda: keras.optimizers.Adam(0.1), adam, [0.0, 0.0]),
    "rmsprop": (lambda: keras.optimizers.RMSprop(0.1), rmsprop, [0.0]),
    "ftrl": (lambda: keras.optimizers.Ftrl(0.1), ftrl, [0.1, 0.0]),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_updates_are_those_of_the_formula_on_their_rows(client, name, known):
    optimizer, formula, initial = CASES[name]
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 3))
    slots = [np.full(table.shape, each) for each in initial]
    client.create("t/0", table.astype("float32"), table=True)
    client.attach("t/0", optimizer(), formula=known)
    assert (client.server._updates.get("r").native is not None) == known
    for step in range(4):
        ids = rng.choice(200, [5, 100, 1, 37][step], replace=False)
        gradient = rng.normal(size=(len(ids), 3))
        value, new = formula(table[ids], [each[ids] for each in slots], gradient, step)
        table[ids] = value
        for slot, rows in zip(slots, new, strict=True):
            slot[ids] = rows
        client.push("t/0", "rows", ids.astype("int32"), gradient.astype("float32"))
    np.testing.assert_allclose(client.read("t/0"), table, rtol=1e-4, atol=1e-5)
    kept = {key: each for key, each in client.slots("t/0").items() if each.size}
    for slot, found in zip(slots, kept.values(), strict=True):
        np.testing.assert_allclose(found, slot, rtol=1e-4, atol=1e-5)


def test_an_update_in_pieces_is_that_of_the_whole(client, monkeypatch):
    monkeypatch.setattr(optimizer_updates, "_PIECE_BYTES", 64 * 8)
    monkeypatch.setattr(optimizer_updates, "_SMALL", 16)
    rng = np.random.default_rng(1)
    table, gradient = rng.normal(size=(2, 500, 2)).astype("float32")
    ids = rng.permutation(500)
    client.create("t/0", table, table=True)
    client.attach("t/0", keras.optimizers.Nadam(0.1))  # it has a slot that all rows share
    client.create("v/0", table)
    client.attach("v/0", keras.optimizers.Nadam(0.1), rule="dense")
    for _ in range(3):
        client.push("t/0", "rows", ids, gradient[ids])
        client.push("v/0", "dense", gradient)
    np.testing.assert_allclose(client.read("t/0"), client.read("v/0"), rtol=1e-6)
    for mine, other in zip(client.slots("t/0").values(), client.slots("v/0").values(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)


@pytest.mark.parametrize("count", [*range(1, 40), 1000, 1500, 5120, 5121, 40_000])
def test_pieces_cover_all_rows_with_little_padding(count):
    found = list(optimizer_updates.pieces(count, 8192))
    assert [start for start, _, _ in found] == [0, *(stop for _, stop, _ in found[:-1])]
    assert found[-1][1] == count
    assert all(stop - start <= size <= 8192 for start, stop, size in found)
    assert all(size & (size - 1) == 0 for _, _, size in found)
    padding = sum(size for _, _, size in found) - count
    assert padding <= max(count // 3, 1024)


def test_a_gather_gives_rows_in_the_order_of_its_ids(client):
    table = np.arange(12, dtype="float32").reshape(6, 2)
    client.create("t/0", table, table=True)
    ids = np.array([5, 0, 5, 3], "int32")
    np.testing.assert_array_equal(client.gather("t/0", ids), table[ids])
    assert client.gather("t/0", np.zeros(0, "int64")).shape == (0, 2)


def test_a_whole_gradient_and_one_of_rows_share_slots(client):
    client.create("t/0", np.zeros((4, 2), "float32"), table=True)
    client.attach("t/0", keras.optimizers.SGD(1.0, momentum=0.5), rule="rows")
    ones = np.ones((4, 2), "float32")
    client.push("t/0", "rows", np.arange(4), ones)
    dense_rule(client, "t/0", keras.optimizers.SGD(1.0, momentum=0.5), "whole")
    client.push("t/0", "dense", ones)
    header = {"push": [{"name": "t/0", "kind": "rows", "update": "rows"}]}
    client.ask("push_pull", header, [np.arange(4), ones])
    np.testing.assert_array_equal(client.read("t/0"), -ones * (1 + 1.5 + 1.75))
    with pytest.raises(UpdateMismatchError, match="'whole', which updates whole"):
        client.push("t/0", "rows", np.arange(4), ones)


def dense_rule(client, part, optimizer, rule):
    client.create("like/0", np.zeros_like(client.read(part)))
    client.attach("like/0", optimizer, rule=rule)
    client.ask("attach", {"name": part, "update": rule})


@pytest.mark.parametrize(
    ("ids", "kind", "text"),
    [
        ([0, 6], RowIndexError, r"'t/0' has the rows \[0, 6\): ids\[1\] is 6"),
        ([0, -1], RowIndexError, r"ids\[1\] is -1.*row 30 of the whole"),
        ([4, 2, 4], RepeatedRowError, r"ids\[2\] is 4.*Sum the gradients"),
        ([0.5], RequestError, "float64"),
    ],
)
def test_ids_that_cannot_be_are_named_and_change_nothing(client, ids, kind, text):
    table = np.arange(12, dtype="float32").reshape(6, 2)
    client.create("t/0", table, table=True, start=30)
    client.attach("t/0", keras.optimizers.SGD(1.0))
    with pytest.raises(kind, match=text):
        client.push("t/0", "rows", ids, np.ones((len(ids), 2), "float32"))
    np.testing.assert_array_equal(client.read("t/0"), table)
    if kind is not RepeatedRowError:
        with pytest.raises(kind, match=text):
            client.gather("t/0", ids)


def test_a_failed_update_leaves_the_table_and_later_updates_as_they_were(client, monkeypatch):
    client.create("t/0", np.zeros((6, 2), "float32"), table=True)
    client.attach("t/0", keras.optimizers.SGD(1.0), formula=False)
    ids, ones = np.array([1, 2]), np.ones((2, 2), "float32")
    client.push("t/0", "rows", ids, ones)
    update = client.server._updates.get("r").row_update

    def fail(*arrays):
        for array in arrays[:-3]:
            array.delete()
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(update, "_compiled", fail)
        with pytest.raises(MemoryError):
            client.push("t/0", "rows", ids, ones, closure="a:1")
    assert client.push("t/0", "rows", ids, ones, closure="a:1")
    np.testing.assert_array_equal(client.read("t/0")[:, 0], [0, -2, -2, 0, 0, 0])


@pytest.mark.parametrize("known", [True, False])
def test_tables_of_one_rule_are_updated_at_once(client, known):
    """They share the memory in which rows are updated."""
    names = [f"t/{number}" for number in range(3)]
    for name in names:
        client.create(name, np.zeros((500, 8), "float32"), table=True)
        client.attach(name, keras.optimizers.SGD(1.0, momentum=0.5), formula=known)
        client.push(name, "rows", np.arange(400), np.zeros((400, 8), "float32"))

    def push(number):
        gradient = np.full((400, 8), number + 1, "float32")
        for step in range(30):
            ids = np.random.default_rng(step).permutation(500)[:400]
            client.push(names[number], "rows", ids, gradient)

    threads = [threading.Thread(target=push, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = client.read("t/0")
    assert first.any()
    for number in (1, 2):
        np.testing.assert_allclose(client.read(names[number]), first * (number + 1), rtol=1e-5)


@pytest.mark.parametrize("known", [True, False])
def test_tables_of_one_exchange_take_each_push_once(client, known):
    names = ["a/0", "b/0", "c/0"]
    for name in names:
        client.create(name, np.zeros((4, 2), "float32"), table=True)
        client.attach(name, keras.optimizers.SGD(1.0, momentum=0.5), formula=known)

    def push(closure, *pushed):
        header = {"closure": closure, "push": [{"name": name, "kind": "rows"} for name in pushed]}
        arrays = [each for _ in pushed for each in (np.array([2, 0]), np.ones((2, 2), "float32"))]
        return client.ask("push_pull", header, arrays).header["applied"]

    assert push("s:1", "b/0", "a/0") == [True, True]
    assert push("s:1", "c/0", "b/0") == [True, False]
    assert push("s:1", "a/0", "b/0", "c/0") == [False] * 3
    assert push("s:2", "b/0", "b/0", "c/0", "b/0") == [True] * 4
    for name, updates in zip(names, (1, 4, 2), strict=True):
        value, velocity = 0.0, 0.0
        for _ in range(updates):
            velocity = 0.5 * velocity - 1
            value += velocity
        np.testing.assert_array_equal(client.read(name)[:, 1], [value, 0, value, 0])
        assert client.ask("slots", {"name": name}).header["iteration"] == updates


def test_a_table_has_rows(client):
    with pytest.raises(ShardMismatchError, match="scalar"):
        client.create("t/0", np.float32(1), table=True)
    assert "t/0" not in client.server._shards


def test_rows_of_two_bytes_and_of_none(client):
    bfloat16 = keras.ops.convert_to_numpy(keras.ops.ones((4, 3), "bfloat16"))
    client.create("h/0", bfloat16, table=True)
    client.attach("h/0", keras.optimizers.SGD(0.5))
    client.push("h/0", "rows", np.array([3, 1]), bfloat16[:2])
    np.testing.assert_array_equal(client.read("h/0")[:, 0].astype(float), [1, 0.5, 1, 0.5])
    client.create("e/0", np.zeros((4, 0), "float32"), table=True)
    assert client.gather("e/0", np.array([1, 2])).shape == (2, 0)
    assert isinstance(client.server._shards.get("e/0"), EmbeddingShard)
