"""Numbers far beyond what there is: nothing is allocated, opened or read for them in advance."""

import threading

import numpy as np
import pytest

from drumline.data import AUTOTUNE, Dataset, TensorSpec

HUGE = 10**12
ENOUGH = 60
ROWS = 50


def stream():
    spec = TensorSpec((), np.int64)
    return Dataset.from_generator(lambda: iter(range(ROWS)), output_signature=spec)


def python(v):
    return np.int64(int(v) + 1)


def inner(v):
    return Dataset.range(3 + v % 2)


OPERATIONS = {
    "batch": lambda ds, n: ds.batch(n),
    "batch, dropping": lambda ds, n: ds.batch(n, drop_remainder=True),
    "batches ahead": lambda ds, n: ds.batch(7, num_parallel_calls=n),
    "padded_batch": lambda ds, n: ds.padded_batch(n),
    "ragged_batch": lambda ds, n: ds.ragged_batch(n),
    "rebatch": lambda ds, n: ds.batch(4).rebatch(n),
    "rebatch by turns": lambda ds, n: ds.batch(4).rebatch([3, n]),
    "shuffle": lambda ds, n: ds.shuffle(n, seed=1),
    "prefetch": lambda ds, n: ds.prefetch(n),
    "prefetch_to_device": lambda ds, n: ds.batch(7).prefetch_to_device("cpu:0", n),
    "window": lambda ds, n: ds.window(n).flat_map(lambda w: w),
    "window, far apart": lambda ds, n: ds.window(3, shift=n).flat_map(lambda w: w),
    "window, wide": lambda ds, n: ds.window(3, stride=n).flat_map(lambda w: w),
    "window, all": lambda ds, n: ds.window(n, n, n, drop_remainder=True).flat_map(lambda w: w),
    "take": lambda ds, n: ds.take(n),
    "skip": lambda ds, n: ds.skip(n),
    "repeat": lambda ds, n: ds.repeat(n).take(ROWS),
    "shard": lambda ds, n: ds.shard(n, 3),
    "enumerate": lambda ds, n: ds.enumerate(n).map(lambda i, v: (np.int64(int(i) - n), v)),
    "group_by_window": lambda ds, n: ds.group_by_window(python, lambda k, w: w.batch(n), n),
    "map": lambda ds, n: ds.map(python, num_parallel_calls=n),
    "interleave": lambda ds, n: ds.interleave(inner, cycle_length=n),
    "interleave, whole": lambda ds, n: ds.interleave(inner, 2, block_length=n),
    "interleave, ahead": lambda ds, n: ds.interleave(inner, n, num_parallel_calls=n),
    "interleave, tuned": lambda ds, n: ds.interleave(inner, n, num_parallel_calls=AUTOTUNE),
}


def listed(dataset):
    return [[np.asarray(leaf).tolist() for leaf in np.atleast_1d(e)] for e in dataset]


@pytest.mark.parametrize("source", [stream, lambda: Dataset.range(ROWS)], ids=["stream", "range"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_huge_number_is_as_good_as_one_that_is_large_enough(name, source):
    dataset = OPERATIONS[name](source(), HUGE)
    assert listed(dataset) == listed(OPERATIONS[name](source(), ENOUGH))
    assert dataset.explain()


@pytest.mark.parametrize("calls", [None, HUGE, AUTOTUNE])
def test_an_endless_input_is_opened_as_far_as_needed(calls):
    opened = []

    def counted(v):
        opened.append(v)
        return Dataset.range(2)

    numbers = Dataset.range(HUGE).interleave(counted, HUGE, num_parallel_calls=calls)
    assert list(numbers.take(30)) == [0] * 30
    assert len(opened) < 400 and threading.active_count() < 400


def test_numbers_that_no_machine_can_count_to_are_refused():
    for make in (Dataset.batch, Dataset.shuffle, Dataset.prefetch, Dataset.take):
        with pytest.raises(ValueError, match=f"{make.__name__}: .* less than 2"):
            make(Dataset.range(3), 2**63)
