"""Sequences of exchanges leave what a plain model in numpy says, whatever is repeated."""

from __future__ import annotations

import threading
from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.distribute.parameter_server.errors import (
    RequestError,
    ShardMismatchError,
    UnknownShardError,
    UnknownUpdateError,
    UpdateMismatchError,
)
from drumline.distribute.parameter_server.server.push import IntervalSet, PushLog

ROWS, WIDTH = 6, 2
PARTS = {"t/0": (ROWS, WIDTH), "u/0": (ROWS, WIDTH), "v/0": (3,), "n/0": ()}


@st.composite
def exchanges(draw):
    pushes = draw(
        st.lists(
            st.sampled_from(
                [("t/0", "rows"), ("t/0", "dense"), ("v/0", "dense"), ("v/0", "assign")]
                + [("n/0", "add"), ("t/0", "add"), ("u/0", "rows"), ("u/0", "rows")]
            ),
            max_size=6,
        )
    )
    return {
        "closure": draw(st.sampled_from([None, "s:1", "s:2", "other"])),
        "pushes": pushes,
        "seed": draw(st.integers(0, 1000)),
        "gather": draw(st.lists(st.integers(0, ROWS - 1), max_size=4)),
        "together": draw(st.booleans()),
        "finish": draw(st.sampled_from([None, None, "s:1", "other"])),
    }


class Model:
    """What the parts should hold, with SGD at a learning rate of 1."""

    def __init__(self):
        self.values = {name: np.zeros(shape) for name, shape in PARTS.items()}
        self.applied: set[Any] = set()
        self.finished: set[str] = set()

    def push(self, closure, ordinal, name, kind, arrays):
        key = (closure, name, ordinal)
        if closure in self.finished or (closure is not None and key in self.applied):
            return False
        self.applied.add(key)
        value = self.values[name]
        if kind == "rows":
            value[arrays[0]] -= arrays[1]
        elif kind == "assign":
            self.values[name] = np.array(arrays[0], float)
        else:
            self.values[name] = value + (arrays[0] if kind == "add" else -arrays[0])
        return True

    def finish(self, closure):
        if closure.startswith("s:"):
            self.finished.add(closure)
        self.applied = {key for key in self.applied if key[0] != closure}


def arrays_of(rng, name, kind):
    if kind == "rows":
        ids = rng.permutation(ROWS)[: rng.integers(0, ROWS)]
        return [ids, rng.integers(-8, 8, (len(ids), WIDTH)).astype("float32")]
    return [rng.integers(-8, 8, PARTS[name]).astype("float32")]


@given(st.lists(exchanges(), max_size=6))
def test_sequences_are_those_of_the_model(make_client, sequence):
    client, model = make_client(0), Model()
    for name, shape in PARTS.items():
        client.create(name, np.zeros(shape, "float32"), table=name in ("t/0", "u/0"))
    for name, rule in (("t/0", "t"), ("u/0", "t"), ("v/0", "v")):
        client.attach(name, keras.optimizers.SGD(1.0), rule=rule)
    for exchange in sequence:
        check_one(client, model, exchange)
    for name in PARTS:
        np.testing.assert_array_equal(client.read(name), model.values[name])


def with_ids_together(header, arrays):
    """The arrays with all ids in the last, of which the header's entries tell the numbers."""
    left, values, ids = iter(arrays), [], []
    for entry in [*header["push"], *header["gather"]]:
        if entry.get("kind", "rows") == "rows":
            ids.append(next(left))
            entry["ids"] = len(ids[-1])
        if "kind" in entry:
            values.append(next(left))
    return [*values, np.concatenate(ids, dtype="int32")]


def check_one(client, model, exchange):
    rng = np.random.default_rng(exchange["seed"])
    arrays, expected, counts = [], [], {}
    for name, kind in exchange["pushes"]:
        mine = arrays_of(rng, name, kind)
        arrays += mine
        ordinal = counts.get(name, 0)
        counts[name] = ordinal + 1
        expected.append(model.push(exchange["closure"], ordinal, name, kind, mine))
    ids = np.array(exchange["gather"], "int64")
    again = ids[::-1].astype("int32")
    header = {
        "closure": exchange["closure"],
        "push": [{"name": name, "kind": kind} for name, kind in exchange["pushes"]],
        "gather": [{"name": "t/0"}, {"name": "u/0"}, {"name": "t/0"}],
        "pull": [{"name": "v/0", "version": -1}, {"name": "t/0", "version": -1}],
    }
    arrays += [ids, ids, again]
    if exchange["together"]:
        arrays = with_ids_together(header, arrays)
    reply = client.ask("push_pull", header, arrays)
    assert reply.header["applied"] == expected
    rows, others, reversed_rows, dense, table = reply.arrays
    np.testing.assert_array_equal(rows, model.values["t/0"][ids])
    np.testing.assert_array_equal(others, model.values["u/0"][ids])
    np.testing.assert_array_equal(reversed_rows, rows[::-1])
    np.testing.assert_array_equal(dense, model.values["v/0"])
    np.testing.assert_array_equal(table, model.values["t/0"])
    if exchange["finish"]:
        client.ask("finished", {"closures": [exchange["finish"]]})
        model.finish(exchange["finish"])


ROWS_OF_T = {"name": "t/0", "kind": "rows"}
ONE = np.ones(1, "int32")


@pytest.mark.parametrize(
    ("push", "arrays", "kind", "text"),
    [
        ({"name": "x/0", "kind": "dense"}, [np.ones(3, "f")], UnknownShardError, "'x/0'"),
        ({"name": "v/0", "kind": "dense"}, [np.ones(2, "f")], ShardMismatchError, "(2,)"),
        ({"name": "v/0", "kind": "dense"}, [np.ones(3)], ShardMismatchError, "float64"),
        ({"name": "v/0", "kind": "dense"}, [], RequestError, "too few"),
        ({"name": "v/0", "kind": "dense"}, [np.ones(3, "f")] * 2, RequestError, "of 2"),
        ({"name": "v/0", "kind": "sum"}, [np.ones(3, "f")], RequestError, "'sum'"),
        ({"kind": "dense"}, [np.ones(3, "f")], RequestError, "'push[1].name'"),
        ({"name": 3, "kind": "dense"}, [np.ones(3, "f")], RequestError, "a text"),
        (
            {"name": "v/0", "kind": "rows"},
            [np.arange(3), np.ones((3,), "f")],
            ShardMismatchError,
            "no table",
        ),
        (
            {"name": "v/0", "kind": "dense", "update": "other"},
            [np.ones(3, "f")],
            UnknownUpdateError,
            "'other'",
        ),
        ({"name": "n/0", "kind": "dense"}, [np.float32(1)], UnknownUpdateError, "attach"),
        (ROWS_OF_T | {"ids": 2}, [np.ones((2, 2), "f"), ONE], RequestError, "[0, 2)"),
        (ROWS_OF_T | {"ids": -1}, [np.ones((2, 2), "f"), ONE], RequestError, "[0, -1)"),
        (ROWS_OF_T | {"ids": 0}, [np.ones((0, 2), "f"), ONE], RequestError, "1 ids"),
        (ROWS_OF_T | {"ids": 1}, [np.ones((1, 2), "f"), ONE, ONE], RequestError, "of 3"),
        (
            ROWS_OF_T | {"ids": 1},
            [np.ones((1, 2), "f"), ONE[None]],
            RequestError,
            "(1, 1)",
        ),
    ],
)
def test_a_push_that_cannot_be_changes_nothing_of_its_message(client, push, arrays, kind, text):
    client.create("v/0", np.zeros(3, "float32"))
    client.create("n/0", np.float32(0))
    client.create("t/0", np.zeros((3, 2), "float32"), table=True)
    client.attach("v/0", keras.optimizers.SGD(1.0))
    client.attach("t/0", keras.optimizers.SGD(1.0), rule="rows")
    header = {"closure": "s:1", "push": [{"name": "n/0", "kind": "add"}, push]}
    with pytest.raises(kind) as raised:
        client.ask("push_pull", header, [np.float32(1), *arrays])
    assert text in str(raised.value)
    assert client.read("n/0") == 0
    np.testing.assert_array_equal(client.read("v/0"), [0, 0, 0])
    assert client.push("n/0", "add", np.float32(1), closure="s:1")


def test_a_rule_may_be_sent_again_but_not_another_by_its_name(client):
    client.create("v/0", np.zeros(3, "float32"))
    part = client.server._shards.get("v/0")
    client.send_rule("adam", part, keras.optimizers.Adam(0.1))
    client.send_rule("adam", part, keras.optimizers.Adam(0.2))
    for other in (keras.optimizers.Adam(0.1, beta_1=0.5), keras.optimizers.SGD(0.1)):
        with pytest.raises(UpdateMismatchError, match="another name"):
            client.send_rule("adam", part, other)


def test_a_rule_without_a_learning_rate_is_refused(client):
    client.create("v/0", np.zeros(3, "float32"))
    client.send_rule("r", client.server._shards.get("v/0"), keras.optimizers.SGD(1.0))
    client.ask("attach", {"name": "v/0", "update": "r"})
    with pytest.raises(UnknownUpdateError, match="'set_hyperparameters'"):
        client.push("v/0", "dense", np.ones(3, "f"))
    with pytest.raises(RequestError, match="momentum"):
        client.ask("set_hyperparameters", {"update": "r", "values": {"momentum": 1}})


def test_creating_a_part_again_keeps_it(client):
    client.create("v/0", np.zeros(3, "float32"))
    client.push("v/0", "add", np.ones(3, "float32"))
    client.create("v/0", np.zeros(3, "float32"))
    np.testing.assert_array_equal(client.read("v/0"), [1, 1, 1])
    with pytest.raises(ShardMismatchError, match="'v/0' exists with shape"):
        client.create("v/0", np.zeros(4, "float32"))


def test_versions_of_a_server_that_was_started_again_are_larger(make_client, monkeypatch):
    versions = []
    for now in (1_800_000_000, 1_800_000_001):
        monkeypatch.setattr("time.time", lambda now=now: now)
        client = make_client(0)
        client.create("v/0", np.zeros(1))
        for _ in range(3):
            client.push("v/0", "add", np.ones(1))
        pull = {"pull": [{"name": "v/0", "version": -1}]}
        versions += client.ask("push_pull", pull).header["versions"]
    assert versions[0] < versions[1] < 2**53


def test_readers_see_whole_updates_while_others_push(client):
    """Every update changes all elements alike, so half of one would show."""
    client.create("v/0", np.zeros(200_000, "float32"))
    client.create("t/0", np.zeros((400, 512), "float32"), table=True)
    client.attach("v/0", keras.optimizers.SGD(1.0), rule="v")
    client.attach("t/0", keras.optimizers.SGD(1.0), rule="t")
    ids = np.arange(400)
    done, failures = threading.Event(), []

    def push(number):
        for step in range(25):
            header = {
                "closure": f"s:{number * 25 + step}",
                "push": [{"name": "v/0", "kind": "dense"}, {"name": "t/0", "kind": "rows"}],
            }
            arrays = [np.full(200_000, -1, "float32"), ids, np.full((400, 512), -1, "float32")]
            client.ask("push_pull", header, arrays)
            if step % 5 == 0:
                client.ask("push_pull", header, arrays)

    def read():
        kept = []
        while not done.is_set():
            pull = {"pull": [{"name": "v/0", "version": -1}], "gather": [{"name": "t/0"}]}
            rows, value = client.ask("push_pull", pull, [ids]).arrays
            kept = [*kept[-3:], (rows, rows[0, 0], value, value[0])]
            for old_rows, row, old_value, first in kept:
                if not ((old_rows == row).all() and (old_value == first).all()):
                    failures.append((row, first))

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=push, args=(number,)) for number in range(3)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert not failures
    assert (client.read("v/0") == 75).all()
    assert (client.read("t/0") == 75).all()


@given(st.lists(st.integers(0, 30)))
def test_a_number_set_is_a_set(numbers):
    mine, theirs = IntervalSet(), set()
    for number in numbers:
        mine.add(number)
        theirs.add(number)
    assert [each for each in range(-1, 32) if each in mine] == sorted(theirs)
    assert all(
        end < start for (_, end), (start, _) in zip(mine.ranges, mine.ranges[1:], strict=False)
    )
    assert IntervalSet(mine.ranges).ranges == mine.ranges


def test_late_pushes_of_finished_closures_take_no_memory():
    applied = PushLog()
    for number in range(1000):
        applied.add(f"s:{number}", [("v/0", 0)])
        applied.finish([f"s:{number}"])
    assert len(applied) == 0
    assert applied.finished == {"s": [(0, 1000)]}
    assert applied.contains("s:999", "v/0", 0)
    assert not applied.contains("s:1000", "v/0", 0)
    assert not applied.contains("t:0", "v/0", 0)
