"""``Dataset.snapshot``: written by the first pass, read by later ones, never half."""

import itertools
import json
import os
import pickle
import random
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.data import Dataset, TextLineDataset
from drumline.data._dataset.sharing import (
    file_share,
    set_next_epoch,
    set_shuffle_seeds,
    shuffle_seeds,
)


def counted(log):
    """Adds one, and a letter to the file ``log`` each time it is called."""

    def add_one(i):
        with open(log, "a") as file:
            file.write("x")
        return np.int64(int(i) + 1)

    return add_one


def calls(log):
    return len(log.read_text()) if log.exists() else 0


def build(tmp_path, n=5, **arguments):
    mapped = Dataset.range(n).map(counted(str(tmp_path / "log")))
    (tmp_path / "log").unlink(missing_ok=True)
    return mapped.snapshot(tmp_path / "snaps", **arguments)


def test_the_first_pass_writes_and_later_ones_read(tmp_path):
    log = tmp_path / "log"
    dataset = build(tmp_path)
    assert [int(i) for i in dataset] == [1, 2, 3, 4, 5]
    assert calls(log) == 5
    assert list(dataset) == [1, 2, 3, 4, 5] and calls(log) == 5
    later = build(tmp_path)
    assert list(later.repeat(2)) == [1, 2, 3, 4, 5] * 2
    assert calls(log) == 0
    assert later.cardinality() == 5 and later.index(3) == 4
    assert len(os.listdir(tmp_path / "snaps")) == 1


def test_an_interrupted_pass_keeps_nothing(tmp_path):
    dataset = build(tmp_path)
    iterator = iter(dataset)
    assert [next(iterator), next(iterator)] == [1, 2]
    (unfinished,) = os.listdir(tmp_path / "snaps")
    # What a killed process leaves behind.
    left = tmp_path / "snaps" / f"{unfinished}0"
    shutil.copytree(tmp_path / "snaps" / unfinished, left)
    iterator.close()
    assert os.listdir(tmp_path / "snaps") == [left.name]
    assert list(build(tmp_path)) == [1, 2, 3, 4, 5]
    assert calls(tmp_path / "log") == 5 and left.exists()


def test_what_killed_processes_left_is_deleted(tmp_path):
    dataset = build(tmp_path)
    writing = iter(dataset)
    next(writing)
    (unfinished,) = (tmp_path / "snaps").iterdir()
    left, stored = (unfinished.with_name(f"{unfinished.name}{i}") for i in range(2))
    shutil.copytree(unfinished, left)
    shutil.copytree(unfinished, stored)
    (stored / "dataset.json").touch()
    for path in (unfinished, left, stored):
        os.utime(path, (0, 0))
    next(iter(build(tmp_path)))
    assert unfinished.exists() and stored.exists() and not left.exists()
    assert list(writing) == [2, 3, 4, 5]
    writing.close()
    (complete,) = (path for path in (tmp_path / "snaps").iterdir() if path != stored)
    assert complete.name == unfinished.name.split(".")[0]


def test_errors_keep_nothing(tmp_path):
    def fails(i):
        if i == 2:
            raise KeyError("two")
        return np.int64(int(i))

    for _ in range(2):
        iterator = iter(Dataset.range(4).map(fails).snapshot(tmp_path))
        assert [next(iterator), next(iterator)] == [0, 1]
        with pytest.raises(KeyError, match="two"):
            next(iterator)
        assert list(iterator) == [3]
        assert os.listdir(tmp_path) == []


def test_another_pipeline_writes_anew(tmp_path):
    def plus(k):
        return Dataset.range(4).map(lambda i: i + k).snapshot(tmp_path)

    assert list(plus(1)) == [1, 2, 3, 4]
    assert list(plus(2)) == [2, 3, 4, 5]
    assert list(plus(1)) == [1, 2, 3, 4]
    assert len(os.listdir(tmp_path)) == 2


def test_any_order_will_do_where_no_seed_was_given(tmp_path):
    first = list(Dataset.range(50).shuffle(50).snapshot(tmp_path))
    assert list(Dataset.range(50).shuffle(50).snapshot(tmp_path)) == first
    assert list(Dataset.range(50).shuffle(50, seed=3).snapshot(tmp_path)) != first


def test_readers_and_shards(tmp_path):
    def read(shards):
        assert shards.element_spec.element_spec == Dataset.range(1).element_spec
        return shards.enumerate().flat_map(lambda i, shard: shard.map(lambda v: v + 0).take(3 - i))

    ds = Dataset.range(10).snapshot(
        tmp_path, shard_func=lambda i: i % 3, reader_func=read, compression="GZIP"
    )
    assert list(ds) == list(range(10))
    assert list(ds) == list(ds) == [0, 3, 6, 1, 4, 2]
    (stored,) = tmp_path.iterdir()
    assert sorted(p.name for p in stored.iterdir()) == ["0-0", "1-0", "2-0", "dataset.json"]
    assert [p.name for p in (stored / "1-0").iterdir() if p.suffix == ".gz"] == ["0.values.npy.gz"]


def test_a_reader_may_shuffle_anew_in_each_epoch(tmp_path):
    ds = Dataset.range(30).snapshot(
        tmp_path,
        shard_func=lambda i: i // 5,
        reader_func=lambda shards: shards.shuffle(6).flat_map(lambda shard: shard),
    )
    epochs = [list(ds) for _ in range(4)]
    assert epochs[0] == list(range(30))
    assert all(sorted(epoch) == list(range(30)) for epoch in epochs)
    assert [epoch[i] % 5 for epoch in epochs for i in range(30)] == [0, 1, 2, 3, 4] * 24
    assert len({tuple(epoch) for epoch in epochs}) == 4


@settings(max_examples=settings().max_examples * 3 // 5)
@given(
    st.integers(0, 23),
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from(["AUTO", "GZIP"]),
    st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=3),
)
def test_interrupted_runs_go_on_exactly(tmp_path_factory, n, shards, reads, packing, stops):
    def make(path):
        random.seed(5)
        ids = np.arange(n)
        ds = Dataset.from_tensor_slices((ids, ids % max(1, shards))).shuffle(4, seed=1)
        # A function that only chooses is not compiled.
        shard = (lambda i, shard: shard) if shards else None
        read = (lambda d: d.shuffle(9).interleave(lambda s: s, 2, 3)) if reads else None
        return ds.snapshot(path, packing, read, shard).repeat(3)

    whole = make(tmp_path_factory.mktemp("whole"))
    expected = [int(i) for i, _ in itertools.chain(whole, whole)]
    path = tmp_path_factory.mktemp("interrupted")
    dataset = make(path)
    found: list[int] = []
    iterator = iter(dataset)
    for count, lost in stops:
        found += [int(i) for i, _ in itertools.islice(iterator, count)]
        state = json.loads(json.dumps(iterator.state()))
        iterator.close()
        if lost:
            # Its thread may be busy deleting what it had written.
            shutil.rmtree(path, ignore_errors=True)
        dataset = make(path)
        iterator = iter(dataset)
        iterator.restore(state)
    found += [int(i) for i, _ in itertools.chain(iterator, dataset)]
    assert found == expected


def test_a_pickled_dataset_has_the_same_snapshot(tmp_path):
    dataset = Dataset.range(6).shuffle(6).snapshot(tmp_path, shard_func=lambda i: i % 2)
    assert sorted(dataset) == list(range(6))
    again = pickle.loads(pickle.dumps(dataset))
    assert list(again) == list(dataset)
    assert len(os.listdir(tmp_path)) == 1 and again.fingerprint() == dataset.fingerprint()


def test_each_process_has_a_snapshot_of_its_files(tmp_path):
    files = []
    for name in "ab":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
        files.append(str(tmp_path / name))
    dataset = TextLineDataset(files).snapshot(tmp_path / "snaps")
    for _ in range(2):
        shares = [file_share(dataset, 2, index) for index in range(2)]
        assert [list(share) for share in shares] == [[b"a1", b"a2"], [b"b1", b"b2"]]
    assert len(os.listdir(tmp_path / "snaps")) == 2


def test_other_seeds_make_another_snapshot(tmp_path):
    def make(seed):
        ds = Dataset.range(40).shuffle(40, seed=seed)
        return ds.snapshot(tmp_path, reader_func=lambda d: d.flat_map(lambda s: s.shuffle(40)))

    first, second = make(1), make(2)
    orders = [list(first) for _ in range(2)]
    set_shuffle_seeds(second, shuffle_seeds(first))
    assert len(shuffle_seeds(first)) == 2
    set_next_epoch(second, 1)
    assert list(second) == orders[1]
    assert list(make(1)) != orders[0] and list(make(2)) != orders[0]
    assert len(os.listdir(tmp_path)) == 2
