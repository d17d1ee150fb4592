"""``Dataset.fingerprint``: the same for the same dataset, another for any other."""

import functools
import os
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest
from hypothesis import given, settings

import drumline as dl
from drumline.data import Dataset
from tests.data.plans import bits, build, lengths, steps

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)
FACTOR = 3


def of_globals(i):
    return np.asarray(i) * FACTOR


def helped(i):
    return of_globals(int(i))


class Tenth:
    def __init__(self, shift):
        self.shift = shift

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return np.int64(index * 10 + self.shift)


def closure(number):
    return lambda i: np.int64(int(i) + number)


def letters(text):
    def generate():
        yield from text

    return generate


def called_back(number):
    result = jax.ShapeDtypeStruct((), np.int64)
    return lambda i: jax.pure_callback(
        lambda v: np.asarray(v) + number, result, i, vmap_method="sequential"
    )


def looked_up(letters):
    return dl.strings.StaticVocabularyTable(list(letters), 1).lookup


def bucketed(boundaries):
    rows = dl.RaggedArray.from_rows([[1], [2, 3], [4, 5, 6, 7, 8]])
    return Dataset.from_tensor_slices(rows).bucket_by_sequence_length(len, boundaries, [1, 1, 1])


DATASETS = {
    "range": lambda: Dataset.range(6),
    "range of another type": lambda: Dataset.range(6, output_type=np.int32),
    "rows": lambda: Dataset.from_tensor_slices(ROWS),
    "other rows": lambda: Dataset.from_tensor_slices(ROWS + 1),
    "text": lambda: Dataset.from_tensor_slices(["a", "bc"]),
    "other text": lambda: Dataset.from_tensor_slices(["ab", "c"]),
    "ragged": lambda: Dataset.from_tensor_slices(dl.RaggedArray.from_rows([[1], [2, 3]])),
    "other ragged": lambda: Dataset.from_tensor_slices(dl.RaggedArray.from_rows([[1, 2], [3]])),
    "named": lambda: Dataset.from_tensor_slices({"a": ROWS}),
    "compiled": lambda: Dataset.range(6).map(lambda i: i + 1),
    "another program": lambda: Dataset.range(6).map(lambda i: i - 1),
    "another constant": lambda: Dataset.range(6).map(lambda i: i + 2),
    "another array": lambda: Dataset.range(6).map(lambda i: i + np.array([1, 2])),
    "yet another array": lambda: Dataset.range(6).map(lambda i: i + np.array([1, 3])),
    "python": lambda: Dataset.range(6).map(closure(1)),
    "another variable": lambda: Dataset.range(6).map(closure(2)),
    "globals": lambda: Dataset.range(6).map(helped),
    "partial": lambda: Dataset.range(6).map(functools.partial(lambda k, i: int(i) + k, 4)),
    "another partial": lambda: Dataset.range(6).map(functools.partial(lambda k, i: int(i) + k, 5)),
    "filter": lambda: Dataset.range(6).filter(lambda i: i > 2),
    "another filter": lambda: Dataset.range(6).filter(lambda i: i > 3),
    "take": lambda: Dataset.range(6).take(2),
    "skip": lambda: Dataset.range(6).skip(2),
    "seed": lambda: Dataset.range(6).shuffle(3, seed=1),
    "another seed": lambda: Dataset.range(6).shuffle(3, seed=2),
    "any seed": lambda: Dataset.range(6).shuffle(3),
    "drawn": lambda: Dataset.range(6).map(lambda i: i + dl.random.uniform((), 0, 9, np.int64)),
    "order": lambda: Dataset.range(6).shuffle(3, seed=1).take(2),
    "another order": lambda: Dataset.range(6).take(2).shuffle(3, seed=1),
    "batch": lambda: Dataset.range(6).batch(4),
    "full batch": lambda: Dataset.range(6).batch(4, drop_remainder=True),
    "zip": lambda: Dataset.zip((Dataset.range(6), Dataset.range(6, 12))),
    "zip the other way": lambda: Dataset.zip((Dataset.range(6, 12), Dataset.range(6))),
    "scan": lambda: Dataset.range(6).scan(np.int64(0), lambda s, i: (s + i, s)),
    "another scan": lambda: Dataset.range(6).scan(np.int64(0), lambda s, i: (s - i, s)),
    "scan from 1": lambda: Dataset.range(6).scan(np.int64(1), lambda s, i: (s + i, s)),
    "flat map": lambda: Dataset.range(6).flat_map(lambda i: Dataset.range(i)),
    "another flat map": lambda: Dataset.range(6).flat_map(lambda i: Dataset.range(i + 1)),
    "windows": lambda: Dataset.range(6).group_by_window(
        lambda i: i % 2, lambda k, w: w.batch(2), 2
    ),
    "other windows": lambda: Dataset.range(6).group_by_window(
        lambda i: i % 2, lambda k, w: w.batch(2), 3
    ),
    "generator": lambda: Dataset.from_generator(letters("ab"), output_types=str, output_shapes=()),
    "another one": lambda: Dataset.from_generator(
        letters("abc"), output_types=str, output_shapes=()
    ),
    "callback": lambda: Dataset.range(6).map(called_back(1)),
    "another callback": lambda: Dataset.range(6).map(called_back(2)),
    "vocabulary": lambda: Dataset.from_tensor_slices(["a", "b"]).map(looked_up("ab")),
    "another vocabulary": lambda: Dataset.from_tensor_slices(["a", "b"]).map(looked_up("ba")),
    "buckets": lambda: bucketed([2, 4]),
    "other buckets": lambda: bucketed([2, 5]),
    "sequence": lambda: Dataset.from_sequence(Tenth(1)),
    "another sequence": lambda: Dataset.from_sequence(Tenth(2)),
}


@pytest.fixture(scope="module")
def fingerprints():
    return {name: make().fingerprint() for name, make in DATASETS.items()}


def test_made_again_they_are_the_same(fingerprints):
    assert {name: make().fingerprint() for name, make in DATASETS.items()} == fingerprints
    assert all(type(number) is np.uint64 for number in fingerprints.values())


def test_others_differ(fingerprints):
    assert len(set(fingerprints.values())) == len(DATASETS)


def test_what_changes_no_element_does_not_count():
    plain = Dataset.range(6).map(lambda i: i + 1).batch(2)
    dressed = Dataset.range(6, name="r").map(lambda i: i + 1, num_parallel_calls=2, name="m")
    dressed = dressed.prefetch(3).batch(2, num_parallel_calls=2).prefetch(dl.data.AUTOTUNE)
    options = dl.data.Options()
    options.deterministic = False
    assert dressed.with_options(options).fingerprint() == plain.fingerprint()


def test_a_variable_that_changed(monkeypatch):
    before = Dataset.range(6).map(helped).fingerprint()
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 4)
    assert Dataset.range(6).map(helped).fingerprint() != before


def test_what_cannot_be_told_is_named():
    lock = threading.Lock()

    def locked(i):
        with lock:
            return np.int64(int(i))

    with pytest.raises(TypeError, match=r"the variable 'lock', the function .*locked.*thread.lock"):
        Dataset.range(6).map(locked).fingerprint()


def test_values_that_contain_themselves():
    def count(i):
        return np.int64(0) if int(i) == 0 else count(int(i) - 1) + 1

    def count_twice(i):
        return np.int64(0) if int(i) == 0 else count_twice(int(i) - 1) + 2

    loop = [1]
    loop.append(loop)
    found = {
        Dataset.range(6).map(function).fingerprint()
        for function in (count, count_twice, lambda i: np.int64(int(i) + loop[0]))
    }
    assert len(found) == 3


@settings(max_examples=10)
@given(lengths, steps, lengths, steps)
def test_equal_fingerprints_are_of_equal_datasets(n, plan, m, other):
    first, second = build(n, plan), build(m, other)
    assert first.fingerprint() == build(n, plan).fingerprint()
    if first.fingerprint() == second.fingerprint():
        assert bits(list(first)) == bits(list(second))


@pytest.mark.thorough
def test_they_are_the_same_in_another_process(fingerprints):
    code = """
from tests.data.plan.test_fingerprints import DATASETS
for make in DATASETS.values():
    print(make().fingerprint())
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [str(number) for number in fingerprints.values()]
