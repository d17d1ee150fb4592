"""Elements in directories: ``save`` and ``load``, and caches on disk."""

import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset
from drumline.data.elements.spec import flatten

Pair = collections.namedtuple("Pair", ["left", "right"])


def kinds(n=7):
    """Every kind of leaf that can be stored."""
    rng = np.random.default_rng(0)
    tree = {
        "wide": np.arange(n) + 2**41,
        "rows": rng.normal(size=(n, 2, 3)).astype(np.float32),
        "yes": np.arange(n) % 2 == 0,
        "small": np.arange(n).astype(ml_dtypes.bfloat16),
        "text": [f"täxt {i}" * i for i in range(n)],
        "pairs": Pair([[b"a", b"bc"]] * n, (np.arange(n, dtype=np.complex64) * 1j, None)),
        "ragged": dl.RaggedArray.from_rows([np.arange(i, dtype=np.int16) for i in range(n)]),
        "words": dl.RaggedArray.from_rows([[b"w%d" % j for j in range(i % 3)] for i in range(n)]),
    }
    return Dataset.from_tensor_slices(tree)


def bits(elements):
    found = []
    for element in elements:
        leaves = flatten(element)[0]
        found.append(
            [(str(np.asarray(x).dtype), np.shape(x), np.asarray(x).tolist()) for x in leaves]
        )
    return found


def test_what_was_saved_is_loaded(tmp_path):
    kinds().save(tmp_path / "a")
    loaded = Dataset.load(tmp_path / "a")
    assert bits(loaded) == bits(kinds())
    assert loaded.cardinality() == 7
    element = next(iter(loaded))
    assert type(element["pairs"]).__name__ == "Pair" and element["pairs"].right[1] is None
    assert sorted(os.listdir(tmp_path)) == ["a"]
    assert np.load(tmp_path / "a" / "0.values.npy").tolist() == [2**41 + i for i in range(7)]


def test_loaded_elements_are_at_any_position(tmp_path):
    kinds(50).save(tmp_path / "a")
    loaded = Dataset.load(tmp_path / "a")
    assert bits(loaded.shuffle(50, seed=3).take(9)) == bits(kinds(50).shuffle(50, seed=3).take(9))
    iterator = iter(loaded.shuffle(9, seed=1))
    for _ in range(20):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    rest = bits(iterator)
    again = iter(loaded.shuffle(9, seed=1))
    again.restore(state)
    assert bits(again) == rest


def test_saving_replaces_what_was_saved_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    Dataset.range(5).save(path)
    Dataset.range(3).map(lambda i: i * 2).save(path)
    assert list(Dataset.load(path)) == [0, 2, 4]
    Dataset.range(0).save(path)
    assert list(Dataset.load(path)) == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("keep")
    (tmp_path / "file").touch()
    for taken in ("mine", "file"):
        with pytest.raises(FileExistsError, match="is no stored dataset"):
            Dataset.range(3).save(tmp_path / taken)
    assert (tmp_path / "mine" / "notes").read_text() == "keep"


@pytest.mark.parametrize(
    "arguments",
    [{}, {"compression": "GZIP"}, {"checkpoint_args": True}, {"shard_func": lambda v: v % 2}],
    ids=["plain", "compressed", "resumable", "sharded"],
)
@pytest.mark.parametrize("linked", [False, True])
def test_saving_into_an_empty_directory(tmp_path, linked, arguments):
    place = Path(tempfile.mkdtemp(dir=tmp_path))
    path = tmp_path / "link" if linked else place
    if linked:
        path.symlink_to(place)
    if "checkpoint_args" in arguments:
        arguments = {"checkpoint_args": {"directory": tmp_path / "checkpoints"}}
    Dataset.range(5).save(path, **arguments)
    assert sorted(Dataset.load(path)) == [0, 1, 2, 3, 4]
    assert place.stat().st_mode & 0o777 == 0o700
    Dataset.range(2).save(path)
    assert list(Dataset.load(path)) == [0, 1]
    assert path.is_symlink() == linked


def test_a_failed_save_leaves_an_empty_directory(tmp_path):
    place = tmp_path / "a"
    place.mkdir()
    with pytest.raises(KeyError, match="three"):
        Dataset.range(6).map(fails).save(place)
    assert os.listdir(tmp_path) == ["a"] and os.listdir(place) == []


def test_paths_of_bytes(tmp_path):
    path = os.fsencode(tmp_path / "a")
    Dataset.range(3).save(path)
    assert list(Dataset.load(path)) == [0, 1, 2]
    assert list(Dataset.range(3).cache(path + b"-cache")) == [0, 1, 2]
    assert list(Dataset.range(3).snapshot(path + b"-snapshot")) == [0, 1, 2]
    with dl.io.TFRecordWriter(path + b".tfrecord") as writer:
        writer.write(b"one")
    dl.data.experimental.TFRecordWriter(path + b"2.tfrecord").write(
        Dataset.from_tensor_slices([b"two"])
    )
    names = Dataset.from_tensor_slices([path + b".tfrecord", path + b"2.tfrecord"])
    assert list(dl.data.TFRecordDataset(list(names))) == [b"one", b"two"]
    with pytest.raises(ValueError, match="gs://bucket"):
        Dataset.range(3).save(b"gs://bucket/a")
    assert sorted(os.listdir(tmp_path)) == [
        "a",
        "a-cache",
        "a-snapshot",
        "a.tfrecord",
        "a2.tfrecord",
    ]


def fails(i):
    if i == 3:
        raise KeyError("three")
    return np.asarray(i)


def test_a_failed_save_leaves_what_was_there(tmp_path):
    Dataset.range(5).save(tmp_path / "a")
    with pytest.raises(KeyError, match="three"):
        Dataset.range(6).map(fails).save(tmp_path / "a")
    assert len(Dataset.load(tmp_path / "a")) == 5
    assert os.listdir(tmp_path) == ["a"]


def test_a_cache_in_a_directory_serves_later_datasets(tmp_path):
    calls = []

    def build():
        def count(i):
            calls.append(int(i))
            return np.asarray(i) * 2

        return Dataset.range(4).map(count).cache(tmp_path / "c")

    dataset = build()
    calls.clear()
    assert list(dataset.take(2)) == [0, 2]
    assert os.listdir(tmp_path) == []
    assert list(dataset) == list(dataset) == [0, 2, 4, 6]
    assert calls == [0, 1, 0, 1, 2, 3]
    later = build()
    calls.clear()
    assert list(later.repeat(2)) == [0, 2, 4, 6] * 2
    assert not calls


def test_a_cache_of_other_elements_is_refused(tmp_path):
    assert len(list(Dataset.range(4).cache(tmp_path / "c"))) == 4
    with pytest.raises(ValueError, match="delete the directory"):
        list(Dataset.range(4, output_type=np.int8).cache(tmp_path / "c"))


def test_a_cache_that_is_filled_twice_at_once(tmp_path):
    cached = Dataset.range(300).cache(tmp_path / "c")
    first, second = iter(cached), iter(cached.map(lambda v: v))
    assert [next(first), next(second)] == [0, 0]
    assert list(first) == list(second) == list(range(1, 300))
    assert os.listdir(tmp_path) == ["c"]
    abandoned = iter(Dataset.range(300).cache(tmp_path / "d"))
    next(abandoned)
    del abandoned
    assert os.listdir(tmp_path) == ["c"]


def test_two_pipelines_that_fill_one_cache_at_once(tmp_path):
    first = iter(Dataset.range(6).cache(tmp_path / "c"))
    next(first)
    second = Dataset.range(6).map(lambda v: v * 10).cache(tmp_path / "c")
    with pytest.raises(FileExistsError, match="another pipeline of this process is filling it"):
        list(second)
    assert list(first) == [1, 2, 3, 4, 5]
    assert list(second) == [0, 1, 2, 3, 4, 5]  # A cache that is full is taken, as by tf.data.
    assert os.listdir(tmp_path) == ["c"]


@pytest.mark.parametrize("how", ["abandoned", "closed", "failed"])
def test_a_pass_that_ended_early_holds_no_cache(tmp_path, how):
    first = iter(Dataset.range(6).map(fails).cache(tmp_path / "c"))
    next(first)
    if how == "abandoned":
        del first
    elif how == "closed":
        first.close()
    else:
        with pytest.raises(KeyError):
            list(first)
    assert list(Dataset.range(6).cache(tmp_path / "c")) == [0, 1, 2, 3, 4, 5]
    assert os.listdir(tmp_path) == ["c"]


FILLS = """
import sys
from drumline.data import Dataset
path, shard = sys.argv[1], int(sys.argv[2])
filling = iter(Dataset.range(600).shard(2, shard).cache(path))
try:
    next(filling)
except FileExistsError as error:
    print(error, flush=True)
else:
    print("filling", flush=True)
    sys.stdin.read()
    print(len(list(filling)), flush=True)
"""


def test_processes_that_fill_one_cache_at_once(tmp_path):
    def started(shard):
        command = [sys.executable, "-c", FILLS, str(tmp_path / "c"), str(shard)]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
        )

    first = started(0)
    assert first.stdout.readline() == "filling\n"
    other, same = started(1), started(0)
    assert "another process fills it with elements of another pipeline" in other.communicate()[0]
    assert same.stdout.readline() == "filling\n"
    assert first.communicate()[0] == "299\n"
    assert same.communicate()[0] == "299\n"
    assert list(Dataset.range(600).cache(tmp_path / "c")) == list(range(0, 600, 2))


def test_what_a_killed_process_was_filling_holds_no_cache(tmp_path):
    command = [sys.executable, "-c", FILLS, str(tmp_path / "c"), "1"]
    killed = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert killed.stdout.readline() == "filling\n"
    killed.kill()
    killed.communicate()
    assert list(Dataset.range(3).cache(tmp_path / "c")) == [0, 1, 2]


def test_resuming_in_a_cache_on_disk(tmp_path):
    def build(name):
        return (
            Dataset.range(20)
            .map(lambda i: i + 1)
            .cache(tmp_path / name)
            .shuffle(5, seed=1)
            .repeat(2)
        )

    iterator = iter(build("a"))
    for _ in range(27):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    rest = list(iterator)
    again = iter(build("a"))
    again.restore(state)
    assert list(again) == rest


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda path: os.truncate(path / "0.values.npy", 140),
            "0.values.npy: .* it cannot be read",
        ),
        (lambda path: os.remove(path / "0.values.npy"), "0.values.npy: .* it cannot be read"),
        (
            lambda path: np.save(path / "0.values.npy", np.zeros(3)),
            r"holds float64 \(3,\).*int64 \(5,\)",
        ),
        (
            lambda path: (path / "dataset.json").write_text("{"),
            "dataset.json: .* it cannot be understood",
        ),
    ],
)
def test_damage_is_named(tmp_path, damage, message):
    Dataset.range(5).save(tmp_path / "a")
    damage(tmp_path / "a")
    with pytest.raises(ValueError, match=message):
        Dataset.load(tmp_path / "a")


def test_refusals(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Dataset.save\(path\) stores one"):
        Dataset.load(tmp_path / "nothing")
    with pytest.raises(TypeError, match="datasets and ragged arrays cannot be stored"):
        Dataset.range(4).window(2).save(tmp_path / "a")
    with pytest.raises(ValueError, match="Give a local path"):
        Dataset.range(4).save("gs://bucket/a")
    ragged = Dataset.from_generator(
        lambda: iter([]), output_signature=dl.TensorSpec((2, None), np.int8)
    )
    with pytest.raises(TypeError, match="only the first dimension"):
        ragged.cache(tmp_path / "b")
