"""Datasets as bytes: for processes that are spawned, and for frameworks that send objects."""

import copy
import importlib.metadata
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset, Options, TensorSpec
from drumline.data._dataset import storing
from tests.data.plans import bits

OFFSET = 3
WEIGHTS = np.arange(4, dtype=np.float32)


def locked():
    lock = threading.Lock()

    def held(v):
        with lock:
            return v + 1

    return held


HELD = locked()


def numbers():
    return Dataset.range(12)


DATASETS = {
    "compiled": lambda: numbers().map(lambda v: v * OFFSET).filter(lambda v: v % 2 == 0),
    "python": lambda: numbers().map(lambda v: np.int64(int(v) + OFFSET), num_parallel_calls=2),
    "arrays": lambda: Dataset.from_tensor_slices(WEIGHTS).map(lambda x: x * WEIGHTS).batch(3),
    "draws": lambda: numbers().map(lambda v: v + dl.random.uniform(())).shuffle(5, seed=1),
    "scan": lambda: numbers().scan(np.int64(1), lambda s, v: (s + v, s * OFFSET)),
    "python scan": lambda: numbers().scan(np.int64(1), lambda s, v: (np.int64(int(s) + 1), v)),
    "nested": lambda: numbers().window(4).flat_map(lambda w: w.map(lambda v: v + OFFSET)),
    "groups": lambda: numbers().group_by_window(lambda v: v % 3, lambda k, w: w.batch(2), 2),
    "generator": lambda: Dataset.from_generator(
        lambda: iter(range(OFFSET)), output_signature=TensorSpec((), np.int64)
    ),
    "kept": lambda: numbers().cache().ignore_errors().prefetch(2),
}


@pytest.mark.parametrize("name", DATASETS)
def test_a_copy_has_the_same_elements_and_states(name):
    dataset = DATASETS[name]()
    iter(dataset)
    again = pickle.loads(pickle.dumps(dataset))
    iterator, other = iter(dataset), iter(again)
    next(iterator)
    other.restore(iterator.state())
    assert bits([(e,) for e in iterator]) == bits([(e,) for e in other])


def test_options_go_along_and_a_shallow_copy_shares_the_plan():
    options = Options()
    options.threading.private_threadpool_size = 3
    dataset = numbers().cache().with_options(options)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.options().threading.private_threadpool_size == 3
    assert copy.copy(dataset)._plan is dataset._plan is not again._plan


@pytest.mark.parametrize(
    ("dataset", "named"),
    [
        (lambda: numbers().map(HELD), r"lock \(a _thread.lock\) of map\(held"),
        (lambda: numbers().scan(0, lambda s, v: (s, HELD(v))), r"HELD.lock \(.* of scan\("),
        (
            lambda: numbers().flat_map(lambda v: Dataset.range(2).map(HELD)),
            r"HELD.lock \(.* of flat_map\(",
        ),
        (lambda: numbers().prefetch_to_device("cpu:0"), "device of prefetch_to_device"),
    ],
)
def test_what_cannot_be_pickled_is_named(dataset, named):
    with pytest.raises(TypeError, match=f"dataset cannot be pickled: .*{named}.*in the process"):
        pickle.dumps(dataset())


def test_an_iterator_says_what_to_pickle_instead():
    with pytest.raises(TypeError, match="pickle the dataset and iterator.state"):
        pickle.dumps(iter(numbers()))


@pytest.mark.thorough
def test_another_process_reads_it(tmp_path):
    path = tmp_path / "dataset"
    path.write_bytes(pickle.dumps(DATASETS["compiled"]()))
    program = f"import pickle; print(*pickle.load(open({str(path)!r}, 'rb')))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.split() == [str(v) for v in DATASETS["compiled"]()], run.stderr


def test_a_pickle_of_another_version_is_refused_with_both_named(monkeypatch):
    content = pickle.dumps(numbers().map(lambda v: v + 1))
    monkeypatch.setattr(storing, "_version", lambda: "99.0")
    here = importlib.metadata.version("drumline")
    with pytest.raises(pickle.UnpicklingError, match=rf"by drumline {here}, .* drumline 99\.0: "):
        pickle.loads(content)
    assert list(pickle.loads(pickle.dumps(numbers().take(2)))) == [0, 1]


def test_a_pickle_without_a_version_is_of_another_one():
    restore, arguments = numbers().__reduce__()[:2]
    with pytest.raises(pickle.UnpicklingError, match="pickles of datasets hold within one version"):
        restore(*arguments[:-1])
