"""``name=``, which every operation takes and ``explain()`` shows."""

import threading

import numpy as np
import pytest

from drumline.data import Dataset

METHODS = {
    "batch": lambda ds: ds.batch(2, name="mine"),
    "unbatch": lambda ds: ds.batch(2).unbatch(name="mine"),
    "map": lambda ds: ds.map(lambda v: v + 1, name="mine"),
    "filter": lambda ds: ds.filter(lambda v: v > 1, name="mine"),
    "shuffle": lambda ds: ds.shuffle(3, seed=1, name="mine"),
    "repeat": lambda ds: ds.repeat(2, name="mine"),
    "take": lambda ds: ds.take(2, name="mine"),
    "skip": lambda ds: ds.skip(2, name="mine"),
    "shard": lambda ds: ds.shard(2, 1, name="mine"),
    "prefetch": lambda ds: ds.prefetch(2, name="mine"),
    "padded_batch": lambda ds: ds.batch(2).padded_batch(2, name="mine"),
    "ragged_batch": lambda ds: ds.ragged_batch(2, name="mine"),
    "rebatch": lambda ds: ds.batch(2).rebatch(3, name="mine"),
    "pack": lambda ds: ds.batch(2).pack(4, name="mine"),
    "take_while": lambda ds: ds.take_while(lambda v: v < 3, name="mine"),
    "scan": lambda ds: ds.scan(np.int64(0), lambda s, e: (s + e, s), name="mine"),
    "unique": lambda ds: ds.unique(name="mine"),
    "ignore_errors": lambda ds: ds.ignore_errors(name="mine"),
    "assert_cardinality": lambda ds: ds.assert_cardinality(5, name="mine"),
    "counter": lambda ds: Dataset.counter(name="mine"),
    "random": lambda ds: Dataset.random(name="mine"),
    "prefetch_to_device": lambda ds: ds.prefetch_to_device("cpu:0", name="mine"),
    "enumerate": lambda ds: ds.enumerate(name="mine"),
    "concatenate": lambda ds: ds.concatenate(ds, name="mine"),
    "zip": lambda ds: Dataset.zip(ds, ds, name="mine"),
    "from_tensors": lambda ds: Dataset.from_tensors(1, name="mine"),
    "from_tensor_slices": lambda ds: Dataset.from_tensor_slices([1], name="mine"),
    "range": lambda ds: Dataset.range(3, name="mine"),
    "from_generator": lambda ds: Dataset.from_generator(
        lambda: [1], output_types=np.int32, output_shapes=(), name="mine"
    ),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_name_is_shown_and_changes_nothing(method):
    named = METHODS[method](Dataset.range(5))
    assert sum("'mine'" in line for line in named._plan.describe(titles=True).split("\n")) == 1
    assert "'mine'" not in named._plan.describe()


def test_explain_shows_names():
    assert "range(start=0, step=1, length=4, dtype=int64) 'ids'" in (
        Dataset.range(4, name="ids").explain()
    )


def test_batches_made_ahead_are_the_same():
    ds = Dataset.range(7).batch(2, num_parallel_calls=3, deterministic=False)
    assert [b.tolist() for b in ds] == [[0, 1], [2, 3], [4, 5], [6]]
    assert "prefetch 3 (one thread)" in ds.explain()
    with pytest.raises(ValueError, match="num_parallel_calls"):
        Dataset.range(7).batch(2, num_parallel_calls=0)
    with pytest.raises(TypeError, match="num_parallel_calls must be an integer, got 'many'"):
        Dataset.range(7).batch(2, num_parallel_calls="many")
    with pytest.raises(TypeError, match="deterministic must be a bool"):
        Dataset.range(7).batch(2, num_parallel_calls=2, deterministic="no")


@pytest.mark.parametrize(("calls", "ahead"), [(None, 0), (3, 3)])
def test_so_many_batches_are_made_ahead(calls, ahead):
    made = threading.Semaphore(0)

    def noted(i):
        made.release()
        return np.int64(int(i))

    dataset = Dataset.range(100).map(noted).batch(2, num_parallel_calls=calls)
    while made.acquire(blocking=False):
        continue
    iterator = iter(dataset)
    next(iterator)
    for _ in range(2 * (1 + ahead)):
        assert made.acquire(timeout=30)
    # One more may be under way, which waits for room.
    assert sum(made.acquire(timeout=0.1) for _ in range(3)) <= (2 if ahead else 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ds: ds.shuffle(), r"^Dataset\.shuffle\(\) missing 1 required"),
        (lambda ds: ds.map(len, batched=True), r"^Dataset\.map\(\) got an unexpected keyword"),
        (lambda ds: ds.rebatch(), r"^Dataset\.rebatch\(\) missing"),
        (lambda ds: Dataset.from_generator(), r"^Dataset\.from_generator\(\) missing"),
        (lambda ds: Dataset.zip(bad=1), r"^Dataset\.zip\(\) got an unexpected"),
    ],
)
def test_wrong_calls_are_of_dataset(call, message):
    with pytest.raises(TypeError, match=message):
        call(Dataset.range(3))


def test_every_public_method_is_named_after_dataset():
    methods = {name: getattr(Dataset, name) for name in dir(Dataset) if not name.startswith("_")}
    named = {name: getattr(method, "__qualname__", None) for name, method in methods.items()}
    assert len(named) > 60
    assert {n: q for n, q in named.items() if q not in (None, f"Dataset.{n}")} == {}
