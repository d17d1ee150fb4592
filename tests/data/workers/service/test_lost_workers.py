"""However workers are lost, every element comes once, and in its place."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset
from drumline.data.workers.remote import cluster as session
from drumline.data.workers.remote import cluster as trouble
from drumline.errors import WorkerDiedError
from tests.data.plans import bits, build, lengths, steps
from tests.data.workers.service.fake_cluster import FakeCluster, die, distributed

# Each example compiles its functions once for every worker.
few = settings(max_examples=settings().max_examples // 8)
fates = st.lists(st.sampled_from([None, None, "before", "after"]), max_size=30)
N = 60


@pytest.fixture
def patient(monkeypatch):
    """Nobody takes an element for the cause of deaths."""
    monkeypatch.setattr(trouble, "DEATHS", 10**9)


def outcomes(iterator: Any) -> list[Any]:
    """Elements, and errors in their places."""
    found: list[Any] = []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except LookupError as error:
            found.append((type(error), str(error), error.element_index))


def treated(v: Any) -> Any:
    """Runs as Python and fails now and then."""
    if int(v) % 11 == 5:
        raise LookupError(f"no {int(v)}")
    return np.int64(int(v) * 3)


def small_dataset() -> Dataset:
    return Dataset.range(N).shuffle(20, seed=3).map(treated).filter(lambda v: int(v) % 2 == 0)


@few
@given(lengths, steps, st.integers(1, 3), fates)
def test_any_plan_is_as_without_workers(patient, n, plan, workers, deaths):
    plain, cluster = build(n, plan), FakeCluster(workers, deaths)
    found = distributed(build(n, plan), cluster)
    for _ in range(2):
        assert bits(list(found)) == bits(list(plain))
    cluster.stop()


@few
@given(st.integers(1, 3), fates, st.integers(0, N), st.integers(1, 3))
def test_any_state_goes_on_anywhere(patient, workers, deaths, stop, others):
    expected = outcomes(iter(small_dataset()))
    iterator = iter(distributed(small_dataset(), FakeCluster(workers, deaths)))
    found = []
    while len(found) < min(stop, len(expected)):
        try:
            found.append(next(iterator))
        except LookupError as error:
            found.append((type(error), str(error), error.element_index))
    state = json.loads(json.dumps(iterator.state()))
    iterator.close()
    again = iter(distributed(small_dataset(), FakeCluster(others, deaths[::-1])))
    again.restore(state)
    assert found + outcomes(again) == expected


@few
@given(st.sampled_from(["off", "static"]), st.integers(1, 3), fates, st.integers(0, 2 * N))
def test_shards_by_turns(patient, mode, workers, deaths, stop):
    expected = outcomes(iter(Dataset.range(N).map(treated)))
    if mode == "off":
        expected = [item for item in expected for _ in range(workers)]

    def start(cluster: FakeCluster) -> Any:
        return iter(distributed(Dataset.range(N).map(treated), cluster, mode, workers))

    iterator = start(FakeCluster(workers, deaths))
    assert outcomes(iterator) == expected
    iterator, found = start(FakeCluster(workers, deaths)), []
    while len(found) < min(stop, len(expected)):
        try:
            found.append(next(iterator))
        except LookupError as error:
            found.append((type(error), str(error), error.element_index))
    again = start(FakeCluster(workers, deaths[::-1]))
    again.restore(json.loads(json.dumps(iterator.state())))
    assert found + outcomes(again) == expected


def test_random_draws_are_the_same():
    def plan() -> Dataset:
        random.seed(1)
        floats = Dataset.range(50, output_type="float32").map(drawn)
        return floats.shuffle(9, seed=1).map(drawn)

    def drawn(v: Any) -> Any:
        return v + dl.random.uniform((2,))

    plain = plan()
    found = distributed(plan(), FakeCluster(1, [None, "after"]))
    for _ in range(2):
        np.testing.assert_array_equal(list(found), list(plain))


def deadly(v: Any) -> Any:
    if int(v) == 37:
        die()
    return np.int64(int(v))


@pytest.mark.parametrize("shuffled", [False, True])
def test_an_element_that_workers_die_of(shuffled):
    source = Dataset.range(N).shuffle(1, seed=0) if shuffled else Dataset.range(N)
    cluster = FakeCluster(2)
    iterator = iter(distributed(source.map(deadly), cluster))
    assert [int(next(iterator)) for _ in range(37)] == list(range(37))
    with pytest.raises(
        WorkerDiedError, match="is lost: it died.*Each worker that computes"
    ) as caught:
        next(iterator)
    assert caught.value.element_index == 37
    assert len(cluster.started) <= 2 + 2 + trouble.DEATHS
    assert [int(v) for v in iterator] == list(range(38, N))


def test_what_cannot_be_made_without_that_element():
    filtered = Dataset.range(N).map(deadly).filter(lambda v: v >= 0)
    iterator = iter(distributed(filtered, FakeCluster(2)))
    assert [int(next(iterator)) for _ in range(37)] == list(range(37))
    for _ in range(3):
        with pytest.raises(WorkerDiedError, match="of split"):
            next(iterator)


def test_no_room_for_another_worker(monkeypatch):
    monkeypatch.setattr(session, "_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(session, "_RETRY_SECONDS", 0.0)
    for room, deaths in ((1, []), (2, ["before"]), (3, ["after", None, "before"])):
        cluster = FakeCluster(2, deaths)
        cluster.room = room
        found = distributed(Dataset.range(N).map(treated), cluster)
        assert len(outcomes(iter(found))) == N
    cluster = FakeCluster(1, ["before"])
    cluster.room = 1
    with pytest.raises(RuntimeError, match="no room"):
        list(distributed(Dataset.range(N).map(treated), cluster))
