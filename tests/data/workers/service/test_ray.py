"""``distribute`` on a Ray cluster of several nodes, actors and nodes of which are killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset
from drumline.errors import WorkerDiedError
from tests.processes import gone

pytest.importorskip("ray", reason="needs Ray, which the extra drumline[ray] has")

# Ray's own modules leave sockets and files to the garbage collector, and fork.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
]

N = 400
PATIENCE = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head node without CPUs, and two nodes with two."""
    import ray
    from ray.cluster_utils import Cluster

    with contextlib.ExitStack() as stack:
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        stack.callback(made.shutdown)
        stack.callback(ray.shutdown)
        for _ in range(2):
            made.add_node(num_cpus=2)
        made.wait_for_nodes()
        yield made


def slow(v: Any) -> Any:
    time.sleep(0.005)
    return np.int64(int(v) * 3), np.int64(os.getpid())


def plan() -> Dataset:
    return Dataset.range(N).shuffle(50, seed=3).map(slow)


def values(elements: Any) -> list[int]:
    return [int(v) for v, _ in elements]


def test_two_workers_each_element_once_in_order(cluster):
    dataset = plan().distribute(address=cluster.address, workers=2)
    for epoch in range(2):
        elements = list(dataset)
        assert len({int(pid) for _, pid in elements}) == 2
        expected = plan()
        expected._next_epoch = epoch
        assert values(elements) == values(expected)


def test_killed_actors(cluster):
    """Every now and then the one whose element came last."""
    iterator = iter(plan().distribute(address=cluster.address, workers=2))
    found, killed = [], set()
    for i, (v, pid) in enumerate(iterator):
        found.append(int(v))
        if i % 130 == 100:
            killed.add(int(pid))
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    assert len(killed) == 3
    assert found == values(plan())


def test_an_element_that_kills_its_worker(cluster):
    here = os.getpid()

    def deadly(v: Any) -> Any:
        if int(v) == 17 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.int64(int(v))

    iterator = iter(Dataset.range(30).map(deadly).distribute(address=cluster.address, workers=2))
    found = [int(next(iterator)) for _ in range(17)]
    with pytest.raises(WorkerDiedError) as caught:
        next(iterator)
    assert caught.value.element_index == 17
    assert found + [int(v) for v in iterator] == [v for v in range(30) if v != 17]


def test_a_killed_node(cluster):
    """With a worker on it, and what that had made."""
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    dataset = plan().distribute(address=cluster.address, workers=3)
    iterator = iter(dataset)
    first = [next(iterator) for _ in range(60)]
    pids = {int(pid) for _, pid in first}
    cluster.remove_node(node, allow_graceful=False)
    state = json.loads(json.dumps(iterator.state()))
    rest = values(iterator)
    assert values(first) + rest == values(plan())
    assert any(map(gone, pids))
    del dataset, iterator
    again = iter(plan().distribute(address=cluster.address, workers=1))
    again.restore(state)
    assert values(again) == rest


def test_compiled_maps_and_columns_of_bytes(cluster):
    def dataset() -> Dataset:
        rows = np.random.default_rng(0).normal(size=(2000, 30)).astype("float32")
        names = [b"%d" % i for i in range(2000)]
        source = Dataset.from_tensor_slices({"x": rows, "name": names})
        return source.map(lambda e: {**e, "x": dl.random.uniform((30,), seed=7) + e["x"]})

    found = list(dataset().distribute(address=cluster.address, workers=2).batch(100))
    for mine, expected in zip(found, dataset().batch(100), strict=True):
        np.testing.assert_array_equal(mine["x"], expected["x"])
        assert mine["name"].tolist() == expected["name"].tolist()


def test_errors_come_in_their_places(cluster):
    def fails(v: Any) -> Any:
        if int(v) == 7:
            raise LookupError("no seven")
        return np.int64(int(v))

    iterator = iter(Dataset.range(12).map(fails).distribute(address=cluster.address, workers=1))
    assert [int(next(iterator)) for _ in range(7)] == list(range(7))
    with pytest.raises(LookupError, match="no seven") as caught:
        next(iterator)
    assert caught.value.element_index == 7
    assert [int(v) for v in iterator] == list(range(8, 12))


@pytest.mark.parametrize("how", ["OutOfMemoryError", "NodeDiedError", "LocalRayletDiedError"])
def test_however_ray_says_that_a_worker_is_lost(monkeypatch, how):
    import ray
    from ray import exceptions

    from drumline.data.workers.remote.cluster import WorkerLost
    from drumline.data.workers.service.ray_cluster import RayAnswer, RayWorker

    def get(reference: Any) -> Any:
        raise getattr(exceptions, how)("the machine")

    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(RayWorker, "check_begun", lambda worker: None)
    worker = RayWorker.__new__(RayWorker)
    with pytest.raises(WorkerLost):
        RayAnswer(worker, None).result()


def test_too_many_workers(cluster):
    with pytest.raises(RuntimeError, match="free CPUs of"):
        iter(Dataset.range(3).map(slow).distribute(address=cluster.address, workers=50))


def test_workers_end_with_the_dataset(cluster):
    dataset = plan().distribute(address=cluster.address, workers=2)
    pids = {int(pid) for _, pid in dataset}
    del dataset
    wait_for_end(pids)


def test_an_interrupt_leaves_nothing_behind(cluster):
    program = textwrap.dedent(
        f"""
        import os, time
        import numpy as np
        from drumline.data import Dataset

        def slow(v):
            time.sleep(0.01)
            return np.int64(os.getpid() + 0 * int(v))

        dataset = Dataset.range(100_000).map(slow)
        for i, pid in enumerate(dataset.distribute(address={cluster.address!r}, workers=2)):
            if i < 50:
                print(int(pid), flush=True)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(50)]
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert all(lines), stderr
    assert process.returncode != 0 and "KeyboardInterrupt" in stderr
    pids = set(map(int, lines))
    wait_for_end(pids)


def wait_for_end(pids: set[int]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not all(map(gone, pids)):
        assert time.monotonic() < deadline, pids
        time.sleep(0.1)
