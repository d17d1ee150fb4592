"""``Dataset.save`` with ``checkpoint_args``: interrupted anywhere, it goes on where it was."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset

N = 40


def working(folder):
    """Fails once at each element that a file in ``folder`` is named after, and lists its work."""

    def work(i):
        mark = os.path.join(folder, str(int(i)))
        with open(os.path.join(folder, "log"), "a") as log:
            log.write(f"{int(i)} ")
        if os.path.exists(mark):
            os.remove(mark)
            raise LookupError(mark)
        return {"x": np.float32(i) / 3, "name": b"n" * int(i)}

    return work


def dataset(folder):
    """Elements of several kinds, in an order of their own."""
    ragged = dl.RaggedArray.from_rows([np.arange(i % 4) for i in range(N)])
    worked = Dataset.range(N).shuffle(7, seed=1).map(working(folder))
    return Dataset.zip((worked, Dataset.from_tensor_slices(ragged)))


def files(path):
    """All files below a path with their contents."""
    path = Path(path)
    found = (file for file in sorted(path.rglob("*")) if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


def arguments(tmp_path, **others):
    return {"directory": tmp_path / "checkpoints", **others}


@settings(max_examples=settings().max_examples // 6)
@given(
    st.lists(st.integers(0, N - 1), max_size=2, unique=True),
    st.sampled_from([1, 6, None]),
    st.sampled_from([None, "GZIP", "SNAPPY"]),
    st.booleans(),
)
def test_interrupted_saves_are_as_others(tmp_path_factory, stops, interval, packing, sharded):
    folder, place = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("a") / "stored"
    shard_func = (lambda element, row: row.shape[0] % 2) if sharded else None
    dataset(str(folder)).save(place.with_name("whole"), packing, shard_func)
    for stop in stops:
        (folder / str(stop)).touch()
    keep = arguments(folder, checkpoint_interval=interval)
    for _ in stops:
        with pytest.raises(LookupError):
            dataset(str(folder)).save(place, packing, shard_func, keep)
        assert not place.exists()
    (folder / "log").unlink()
    dataset(str(folder)).save(place, packing, shard_func, keep)
    if stops and interval == 1:
        assert len((folder / "log").read_text().split()) <= N
    assert files(place) == files(place.with_name("whole"))
    assert sorted(os.listdir(place.parent)) == ["stored", "whole"]
    assert files(folder / "checkpoints") == {}


def test_an_order_that_was_drawn_goes_on_in_another_dataset(tmp_path):
    (tmp_path / "33").touch()
    for _ in range(2):
        drawn = Dataset.range(N).shuffle(N).map(working(str(tmp_path)))
        with contextlib.suppress(LookupError):
            drawn.save(tmp_path / "a", checkpoint_args=arguments(tmp_path, checkpoint_interval=1))
    names = [len(element["name"]) for element in Dataset.load(str(tmp_path / "a"))]
    assert sorted(names) == list(range(N))


def test_elements_before_a_checkpoint_are_not_made_again(tmp_path):
    (tmp_path / "33").touch()
    made = Dataset.range(N).map(working(str(tmp_path)))
    for _ in range(2):
        (tmp_path / "log").unlink(missing_ok=True)
        try:
            made.save(tmp_path / "a", checkpoint_args=arguments(tmp_path, checkpoint_interval=10))
        except LookupError:
            assert os.listdir(tmp_path / "checkpoints") == ["ckpt-3.json"]
    assert (tmp_path / "log").read_text().split() == [str(i) for i in range(30, N)]


class Counter:
    def __init__(self):
        self.value = 0

    def assign_add(self, delta):
        self.value += delta


def test_names_numbers_and_a_counter(tmp_path):
    (tmp_path / "39").touch()
    counter = Counter()
    keep = arguments(
        tmp_path,
        checkpoint_interval=5,
        max_to_keep=2,
        checkpoint_name="at",
        step_counter=counter,
    )
    source = dataset(str(tmp_path)).map(lambda work, row: work["x"])
    with pytest.raises(LookupError):
        source.save(tmp_path / "a", checkpoint_args=keep)
    names = sorted(os.listdir(tmp_path / "checkpoints"))
    assert len(names) == 2 and all(name.startswith("at-") for name in names)
    last = json.loads((tmp_path / "checkpoints" / names[-1]).read_text())
    assert last["written"]["length"] % 5 == 0
    before = last["written"]["length"]
    counter.value = 0
    source.save(tmp_path / "a", checkpoint_args=keep)
    assert counter.value == N - before
    assert list(Dataset.load(tmp_path / "a")) == list(source)


def test_what_cannot_be_resumed_is_refused(tmp_path):
    def save(source, name="a", **others):
        source.save(tmp_path / name, checkpoint_args=arguments(tmp_path, **others))

    (tmp_path / "7").touch()
    with pytest.raises(LookupError):
        save(dataset(str(tmp_path)), checkpoint_interval=1)
    with pytest.raises(ValueError, match="ckpt-.*is of another save"):
        save(dataset(str(tmp_path)).take(20))
    with pytest.raises(ValueError, match="is of another save"):
        save(dataset(str(tmp_path)), "b")
    (unfinished,) = tmp_path.glob("a.resumable-*")
    descriptor = os.open(unfinished, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(RuntimeError, match="another process is writing"):
        save(dataset(str(tmp_path)))
    os.close(descriptor)
    os.truncate(unfinished / "0.values.npy", 100)
    with pytest.raises(ValueError, match=r"0.values.npy is shorter"):
        save(dataset(str(tmp_path)))
    (checkpoint,) = (tmp_path / "checkpoints").iterdir()
    checkpoint.write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        save(dataset(str(tmp_path)))
    checkpoint.unlink()
    save(dataset(str(tmp_path)))
    assert Dataset.load(tmp_path / "a").cardinality() == N


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"checkpoint": 1}, ValueError, "must not have 'checkpoint'"),
        ({}, ValueError, "needs 'directory'"),
        ({"directory": "d", "init_fn": list}, ValueError, "has 'init_fn'; it may have 'directory'"),
        ({"directory": "d", "max_to_keep": 0}, ValueError, "max_to_keep must be a positive"),
        ({"directory": "d", "step_counter": 3}, TypeError, "must be a variable, got int"),
        ({"directory": "gs://d"}, ValueError, "local file system"),
    ],
)
def test_arguments_are_checked(tmp_path, given, error, message):
    with pytest.raises(error, match=message):
        Dataset.range(3).save(tmp_path / "a", checkpoint_args=given)
    assert os.listdir(tmp_path) == []


@pytest.mark.thorough
def test_a_killed_process(tmp_path):
    program = """
        import os, signal, sys
        import numpy as np
        from drumline.data import Dataset

        def work(i):
            with open("log", "a") as log:
                log.write(f"{int(i)} ")
            if int(i) == 300 and not os.path.exists("killed"):
                open("killed", "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return np.float32(i) / 3

        source = Dataset.range(500).shuffle(50, seed=1).map(work)
        keep = {"directory": "checkpoints", "checkpoint_interval": 20}
        source.save("a", checkpoint_args=keep)
    """
    lines = [line[8:] for line in program.splitlines()]
    (tmp_path / "program.py").write_text("\n".join(lines))
    codes, logs = [], []
    for _ in range(2):
        command = [sys.executable, "program.py"]
        codes.append(subprocess.run(command, cwd=tmp_path, check=False).returncode)
        logs.append((tmp_path / "log").read_text().split())
        (tmp_path / "log").unlink()
    assert codes == [-signal.SIGKILL, 0]
    expected = [np.float32(i) / 3 for i in Dataset.range(500).shuffle(50, seed=1)]
    assert list(Dataset.load(tmp_path / "a")) == expected
    assert len(logs[0]) + len(logs[1]) < 500 + 100
