"""Synchronous rounds: one update with the sum of all gradients, in whatever order they come."""

from __future__ import annotations

import threading

import keras
import numpy as np
import pytest

from drumline.distribute.parameter_server.errors import (
    RequestError,
    RoundAbandonedError,
    RoundError,
)


@pytest.fixture
def parts(client):
    client.create("v/0", np.zeros(3, "float32"))
    client.create("t/0", np.zeros((5, 2), "float32"), table=True)
    client.create("n/0", np.int64(0))
    client.attach("v/0", keras.optimizers.Adagrad(1.0), rule="v")
    client.attach("t/0", keras.optimizers.Adagrad(1.0), rule="t")
    return client


def push(client, closure, number, of, mean=False, scale=1.0):
    rng = np.random.default_rng(int(closure.partition(":")[2]))
    gradient = (rng.normal(size=3) * scale).astype("float32")
    ids = rng.permutation(5)[:3]
    rows = rng.normal(size=(3, 2)).astype("float32")
    header = {
        "closure": closure,
        "push": [
            {"name": "v/0", "kind": "dense"},
            {"name": "t/0", "kind": "rows"},
            {"name": "n/0", "kind": "add"},
        ],
        "pull": [{"name": "v/0", "version": -1}],
        "sync": {"round": number, "of": of, "mean": mean},
    }
    arrays = [gradient, ids, rows, np.int64(1)]
    return client.start("push_pull", header, arrays), gradient, ids, rows


@pytest.mark.parametrize("mean", [False, True])
def test_a_round_is_one_update_with_the_sum(parts, mean):
    started = [push(parts, f"s:{number}", 7, 3, mean) for number in range(2)]
    assert not any(future.done() for future, *_ in started)
    started.append(push(parts, "s:2", 7, 3, mean))
    replies = [future.result(0) for future, *_ in started]
    divisor = 3 if mean else 1
    gradient = sum(each[1].astype(float) for each in started) / divisor
    expected = -gradient / np.sqrt(0.1 + gradient**2 + 1e-7)
    np.testing.assert_allclose(parts.read("v/0"), expected, rtol=1e-5)
    for reply in replies:
        assert list(reply.header["applied"]) == [True] * 3
        np.testing.assert_array_equal(reply.arrays[0], parts.read("v/0"))
    table = np.zeros((5, 2))
    for _, _, ids, rows in started:
        table[ids] += rows / divisor
    touched = np.unique(np.concatenate([each[2] for each in started]))
    rows = table[touched]
    expected = np.zeros((5, 2))
    expected[touched] = -rows / np.sqrt(0.1 + rows**2 + 1e-7)
    np.testing.assert_allclose(parts.read("t/0"), expected, rtol=1e-4)
    assert parts.read("n/0") == 3


def test_the_order_of_arrival_does_not_show(make_client):
    values = set()
    for order in ((0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)):
        client = make_client(0)
        client.create("v/0", np.zeros(3, "float32"))
        client.attach("v/0", keras.optimizers.SGD(1.0))
        for number in order:
            gradient = np.full(3, [1e8, 1.0, -1e8, 0.5][number], "float32")
            header = {
                "closure": f"s:{number}",
                "push": [{"name": "v/0", "kind": "dense"}],
                "sync": {"round": 0, "of": 4},
            }
            client.start("push_pull", header, [gradient])
        values.add(client.read("v/0").tobytes())
    assert len(values) == 1


def test_a_closure_that_runs_again_counts_once(parts):
    first, *_ = push(parts, "s:1", 0, 2)
    again, *_ = push(parts, "s:1", 0, 2)
    assert not first.done() and not again.done()
    last, *_ = push(parts, "s:2", 0, 2)
    assert [each.result(0).header["applied"][0] for each in (first, again, last)] == [
        True,
        False,
        True,
    ]
    assert parts.read("n/0") == 2
    late, *_ = push(parts, "s:1", 0, 2)
    assert list(late.result(0).header["applied"]) == [False] * 3
    assert parts.read("n/0") == 2


def test_a_round_leaves_out_what_was_applied_before(parts):
    """As after a checkpoint that was written between two parts of a round."""
    parts.push("n/0", "add", np.int64(1), closure="s:1")
    parts.push("n/0", "add", np.int64(1), closure="s:2")
    before = parts.read("v/0")
    push(parts, "s:1", 0, 2)
    future, *_ = push(parts, "s:2", 0, 2)
    future.result(0)
    assert parts.read("n/0") == 2
    assert (parts.read("v/0") != before).all()


def test_an_abandoned_round_fails_and_changes_nothing(parts):
    waiting = [push(parts, f"s:{number}", 3, 3)[0] for number in range(2)]
    assert parts.ask("abandon", {"round": 3}).header["waiting"] == 2
    for future in waiting:
        with pytest.raises(RoundAbandonedError, match="2 of its 3"):
            future.result(0)
    np.testing.assert_array_equal(parts.read("v/0"), [0, 0, 0])
    for number in range(2):
        future, *_ = push(parts, f"s:{number}", 3, 2)
    assert list(future.result(0).header["applied"]) == [True] * 3
    assert parts.read("n/0") == 2


def test_what_comes_late_to_a_round_that_is_given_up_is_refused(parts):
    assert parts.ask("abandon", {"round": 3, "final": True}).header["waiting"] == 0
    with pytest.raises(RoundError, match="Round 3 is over"):
        push(parts, "s:1", 3, 2)
    push(parts, "s:1", 4, 2)


def test_a_former_chiefs_closures_change_nothing(parts):
    parts.ask("begin", {"session": "s"})
    push(parts, "s:1", 0, 1)
    before = parts.read("v/0")
    parts.ask("begin", {"session": "t"})
    with pytest.raises(RequestError, match="another one has followed"):
        push(parts, "s:2", 1, 1)
    np.testing.assert_array_equal(parts.read("v/0"), before)
    push(parts, "t:1", 0, 1)
    assert (parts.read("v/0") != before).all()


def test_rounds_that_do_not_take_a_push_say_so(parts):
    push(parts, "s:1", 0, 1)
    with pytest.raises(RoundError, match="Round 0 is over without the closure 's:2'"):
        push(parts, "s:2", 0, 1)
    push(parts, "s:2", 1, 2)
    with pytest.raises(RoundError, match="of 2 closures"):
        push(parts, "s:3", 1, 3)
    with pytest.raises(RequestError, match="closure's name"):
        parts.start("push_pull", {"sync": {"round": 5, "of": 1}})


def test_a_worker_with_nothing_to_push_takes_part(parts):
    future, *_ = push(parts, "s:1", 0, 2)
    header = {"closure": "s:2", "sync": {"round": 0, "of": 2}}
    for _ in range(2):
        assert list(parts.start("push_pull", header).result(0).header["applied"]) == []
    assert list(future.result(0).header["applied"]) == [True] * 3


def test_workers_that_push_at_once_are_all_counted(parts):
    def work(number):
        for step in range(20):
            future, *_ = push(parts, f"s:{step * 4 + number}", step, 4)
            future.result(10)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert parts.read("n/0") == 80
    assert parts.ask("slots", {"name": "v/0"}).header["iteration"] == 20
