"""A snapshot is what was there when it began, whatever changes between its pieces."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from drumline.distribute.parameter_server.server import shard

ROWS = 40
ONES = np.ones((ROWS, 2), "float32")


def some_rows(client):
    ids = np.random.default_rng(0).permutation(ROWS)[:30]
    header = {"push": [{"name": "t/0", "kind": "rows", "update": "rows"}]}
    client.ask("push_pull", header, [ids, ONES[:30]])


def whole(client, rule):
    header = {"push": [{"name": "t/0", "kind": "dense", "update": rule}]}
    client.ask("push_pull", header, [ONES])


CHANGES = {
    "rows": some_rows,
    "whole gradient by the rule for rows": lambda client: whole(client, "rows"),
    "whole gradient": lambda client: whole(client, "whole"),
    "add": lambda client: client.push("t/0", "add", ONES),
    "assign": lambda client: client.push("t/0", "assign", ONES),
    "write": lambda client: client.ask(
        "write", {"name": "t/0", "start": 3, "stop": 33}, [ONES[3:33]]
    ),
    "write of a slot": lambda client: client.ask(
        "write", {"name": "t/0", "slot": next(iter(client.slots("t/0")))}, [ONES * 3]
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_do_not_show(client, monkeypatch, change):
    monkeypatch.setattr(shard, "PIECE_BYTES", 160)
    table = np.arange(ROWS * 2, dtype="float32").reshape(ROWS, 2)
    client.create("like/0", table)
    client.attach("like/0", keras.optimizers.SGD(1.0, momentum=0.5), rule="whole")
    client.create("t/0", table, table=True)
    client.attach("t/0", keras.optimizers.SGD(1.0, momentum=0.5), rule="rows")
    client.ask("attach", {"name": "t/0", "update": "whole"})
    some_rows(client)
    part = client.server._shards.get("t/0")
    expected = {"t/0": client.read("t/0")}
    expected |= {f"t/0#{name}": each for name, each in client.slots("t/0").items()}
    with part.lock:
        snapshots = part.begin_snapshot()
    found = dict.fromkeys(expected, b"")
    pieces = 0
    for snapshot in snapshots:
        for name, piece in snapshot.pieces():
            found[name] += piece.tobytes()
            pieces += 1
            CHANGES[change](client)
    with part.lock:
        part.end_snapshot()
    assert pieces > 2 * len(expected)
    assert not np.array_equal(client.read("t/0"), table) or change == "write of a slot"
    for name, value in expected.items():
        np.testing.assert_array_equal(
            np.frombuffer(found[name], "float32").reshape(value.shape), value, err_msg=name
        )
    some_rows(client)
