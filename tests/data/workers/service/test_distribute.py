"""What ``distribute`` has workers do, and what it refuses."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset
from drumline.data._dataset.placement import distribution
from drumline.data.operations.ordering.order import SHARD_HINT
from drumline.data.workers.remote.packing import options_for_workers
from drumline.data.workers.service import ShardingPolicy
from drumline.data.workers.service.ray_service import RayService
from tests.data.plans import bits
from tests.data.workers.service.fake_cluster import FakeCluster, distributed
from tests.image.samples import encoded

HERE = threading.get_ident()


def where(v: Any) -> Any:
    """As Python; which thread runs it shows."""
    return np.asarray(v), np.bool_(threading.get_ident() == HERE)


@pytest.fixture(scope="module")
def files(tmp_path_factory: Any) -> list[str]:
    """Lines "0 0", "0 1", ... of five files, whose lengths differ."""
    folder: Path = tmp_path_factory.mktemp("files")
    for i in range(5):
        (folder / f"{i}.txt").write_text("".join(f"{i} {j}\n" for j in range(3 * i + 1)))
    return [str(folder / f"{i}.txt") for i in range(5)]


def number(line: bytes) -> Any:
    first, second = line.split()
    return np.int64(int(first) * 100 + int(second))


def test_functions_run_on_workers_and_shuffles_here():
    plain = Dataset.range(40).map(where).shuffle(9, seed=1).map(lambda v, _: where(v)).batch(3)
    found = distributed(plain, FakeCluster(2))
    elements = list(found)
    assert all(not here.any() for _, here in elements)
    assert [v.tolist() for v, _ in elements] == [v.tolist() for v, _ in plain]
    text = found.explain()
    optimized = text[text.index("optimized") :]
    order = [optimized.index(name) for name in ("batch", "on_workers", "shuffle", "range")]
    assert order == sorted(order) and optimized.count("on_workers") == 2


@pytest.mark.parametrize("reads", [None, 2])
@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_files(files, reads, mode):
    plain = dl.data.TextLineDataset(files, num_parallel_reads=reads).map(number)
    found = [int(v) for v in distributed(plain, FakeCluster(2), mode, 2)]
    expected = [int(v) for v in plain]
    assert sorted(found) == sorted(expected)
    if mode == "dynamic":
        assert found == expected
    else:
        # Files 0, 2 and 4 of one worker, 1 and 3 of the other.
        assert found[:4] == ([0, 100, 200, 300] if reads else [0, 100, 200, 101])


def test_files_by_turns(files):
    plain = Dataset.from_tensor_slices(files).interleave(
        lambda path: dl.data.TextLineDataset(path).map(number), cycle_length=3, block_length=2
    )
    found = distributed(plain, FakeCluster(2, [None, "after", "before"]))
    assert "3 splits by turns" in found.explain()
    assert list(found) == list(plain)


@pytest.mark.parametrize(
    "plain",
    [
        Dataset.from_generator(lambda: range(30), output_signature=dl.TensorSpec((), np.int64)).map(
            where
        ),
        Dataset.from_tensor_slices({"a": np.arange(12).reshape(6, 2), "b": [b"x", b"yy"] * 3})
        .batch(4)
        .map(lambda e: {**e, "a": e["a"] + 1})
        .unbatch(),
        Dataset.range(5).ragged_batch(2).map(lambda v: v).cache(),
        Dataset.range(0).map(where),
        Dataset.range(3).map(where).repeat(3).enumerate(),
        Dataset.zip(Dataset.range(5).map(where), Dataset.range(5).shuffle(3, seed=1).map(where)),
    ],
    ids=["generator", "batches", "ragged", "empty", "repeated", "zip"],
)
def test_sources(plain):
    def values(dataset: Dataset) -> list[Any]:
        leaves = (np.asarray(leaf) for e in dataset for leaf in _leaves(e) if leaf.dtype != bool)
        return bits([(leaf,) for leaf in leaves])

    assert values(distributed(plain, FakeCluster(2))) == values(plain)


def _leaves(element: Any) -> list[Any]:
    if isinstance(element, dict):
        element = tuple(element.values())
    if not isinstance(element, tuple):
        return [np.asarray(element)]
    return [leaf for part in element for leaf in _leaves(part)]


def test_hints():
    plain = Dataset.range(7).shard(SHARD_HINT, SHARD_HINT).map(where).repeat(2)
    found = distributed(plain, FakeCluster(2), ShardingPolicy.HINT, 2)
    shares = zip([0, 2, 4, 6, 0, 2], [1, 3, 5, 1, 3, 5], strict=True)
    assert [int(v) for v, _ in found] == [v for pair in shares for v in pair] + [4, 6]


def test_what_a_function_reads_is_as_it_was():
    scaled = Dataset.range(4)
    for factor in (2, 3):
        scaled = scaled.map(lambda v: v * factor)
    assert [int(v) for v in distributed(scaled, FakeCluster(1))] == [0, 6, 12, 18]
    table = np.arange(4)
    looked_up = Dataset.range(4).map(lambda i: i + table[2])
    table[2] = 50
    with pytest.raises(RuntimeError, match="another program"):
        list(distributed(looked_up, FakeCluster(1)))


def test_a_vocabulary_is_as_it_was():
    words = [b"a", b"b", b"c"]

    def number(word: Any) -> Any:
        return dl.strings.StaticVocabularyTable(words, 1).lookup(word)

    numbered = Dataset.from_tensor_slices([b"c", b"a"]).map(number)
    assert list(distributed(numbered, FakeCluster(1))) == [2, 0]
    words.reverse()
    with pytest.raises(RuntimeError, match="another program"):
        list(distributed(numbered, FakeCluster(1)))


def test_refusals(files):
    ds = Dataset.range(4).map(where)
    cluster = FakeCluster(1)
    with pytest.raises(ValueError, match="ShardingPolicy or one of off"):
        distributed(ds, cluster, "sideways")
    with pytest.raises(ValueError, match="needs workers="):
        distributed(ds, cluster, "static")
    with pytest.raises(ValueError, match="reads none"):
        distributed(ds, cluster, ShardingPolicy.FILE, 2)
    lines = dl.data.TextLineDataset(files)
    with pytest.raises(ValueError, match="a file for each of 6"):
        distributed(lines, cluster, ShardingPolicy.FILE, 6)
    with pytest.raises(ValueError, match="counts or pairs"):
        distributed(lines.take(3), cluster, ShardingPolicy.FILE, 2)
    with pytest.raises(ValueError, match="SHARD_HINT"):
        distributed(ds, cluster, ShardingPolicy.HINT, 2)
    with pytest.raises(ValueError, match="put it after distribute"):
        list(distributed(ds.cache(), cluster, "off", 2))
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"lock \(a _thread.lock\) of map\("):
        list(distributed(Dataset.range(4).map(lambda v: (lock.locked(), where(v))), cluster))


def test_cardinality():
    ds = Dataset.range(4).map(where)
    assert distributed(ds, FakeCluster(2)).cardinality() == 4
    assert distributed(ds, FakeCluster(2), "static", 3).cardinality() == 4
    assert distributed(ds, FakeCluster(2), "off", 3).cardinality() == 12


def test_no_thread_is_left():
    cluster = FakeCluster(2)
    dataset = distributed(Dataset.range(1000).map(where), cluster)
    for _ in range(3):
        # Given up in the middle: what it had begun must not keep others from workers.
        assert int(next(iter(dataset))[0]) == 0
    assert len(list(dataset)) == 1000
    del dataset
    for worker in cluster.started:
        worker.join()


def test_as_tensorflow_spells_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    service = dl.data.experimental.service
    for mode in ("parallel_epochs", service.ShardingPolicy.OFF):
        found = Dataset.range(3).apply(service.distribute(mode, "10.0.0.1:6379", workers=2))
        assert found._plan.service == RayService("10.0.0.1:6379", 2, 1)
        assert found.cardinality() == 6
        # Whatever follows is built without connecting to anything.
        assert found.map(lambda v: v + 1).batch(2).cardinality() == 3


def test_native_operations_on_workers():
    """Images of several sizes, and one that is none."""
    pixels = np.arange(12 * 20 * 3, dtype=np.uint8).reshape(12, 20, 3)
    files = [encoded(pixels), encoded(pixels[:, :9]), b"no image", encoded(pixels[3:])]

    def plain() -> Dataset:
        images = Dataset.from_tensor_slices(files).map(dl.image.decode_jpeg)
        return images.map(lambda image: dl.image.resize(image, (4, 4)) / 255.0)

    found = distributed(plain(), FakeCluster(2, [None, "after"]))
    assert "decode_jpeg" in plain().explain() and "on_workers" in found.explain()
    np.testing.assert_array_equal(list(found.ignore_errors()), list(plain().ignore_errors()))
    with pytest.raises(ValueError, match="not a JPEG") as caught:
        list(found)
    assert caught.value.element_index == 2


def test_without_ray(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'drumline\[ray\]'"):
        Dataset.range(3).distribute()


class Unreachable:
    def connect(self) -> FakeCluster:
        raise RuntimeError("there is no cluster")

    def describe(self) -> str:
        return "far away"


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_explain_does_not_connect(mode):
    plan = Dataset.range(10).filter(lambda v: v >= 0).map(where)._plan
    found = Dataset(distribution(plan, mode, Unreachable(), 2))
    for _ in range(2):
        assert "far away" in found.repeat(2).explain()
    with pytest.raises(RuntimeError, match="no cluster"):
        iter(found)


def test_options_hold_on_workers() -> None:
    def process(v: Any) -> Any:
        return np.asarray(v), np.int64(os.getpid())

    plain = Dataset.range(20).map(process, num_parallel_calls=2)
    options = dl.data.Options()
    options.python_workers = "processes"
    options.autotune.cpu_budget = 3
    options.experimental_statistics = dl.data.experimental.Statistics("all")
    there = options_for_workers(options)
    assert (there.autotune.cpu_budget, there.experimental_statistics) == (1, None)
    assert options.autotune.cpu_budget == 3
    for chosen, elsewhere in ((dl.data.Options(), False), (options, True)):
        found = list(distributed(plain, FakeCluster(2)).with_options(chosen))
        assert [int(v) for v, _ in found] == list(range(20))
        assert all((int(pid) != os.getpid()) is elsewhere for _, pid in found)
