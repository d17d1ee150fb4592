"""Generators are asked for nothing too early; caches keep what they should."""

import numpy as np
import pytest

from drumline.data import Dataset, TensorSpec

SCALAR = TensorSpec((), np.int64)


def counted(n=10**9):
    pulled = []

    def generator():
        for i in range(n):
            pulled.append(i)
            yield i

    return pulled, Dataset.from_generator(generator, output_signature=SCALAR)


def test_a_generator_is_not_read_ahead():
    pulled, ds = counted()
    iterator = iter(ds)
    assert pulled == []
    for i in range(20):
        assert next(iterator) == i
        assert len(pulled) == i + 1
    pulled.clear()
    assert [int(v) for v in ds.map(lambda v: v * 2).take(5)] == [0, 2, 4, 6, 8]
    assert len(pulled) == 5
    pulled.clear()
    next(iter(ds.batch(4)))
    assert len(pulled) == 4


def test_a_prefetch_reads_ahead_as_far_as_it_says():
    pulled, ds = counted(100)
    assert [int(v) for v in ds.prefetch(3).take(2)] == [0, 1]
    assert 2 <= len(pulled) <= 6


def test_each_epoch_runs_the_generator_anew():
    pulled, ds = counted(3)
    assert [int(v) for v in ds] == [int(v) for v in ds] == [0, 1, 2]
    assert pulled == [0, 1, 2, 0, 1, 2]


def test_a_generator_that_fails_ends_after_its_error():
    def generator():
        yield 1
        raise RuntimeError("lost connection")

    iterator = iter(Dataset.from_generator(generator, output_signature=SCALAR))
    assert next(iterator) == 1
    with pytest.raises(RuntimeError, match="lost connection") as caught:
        next(iterator)
    assert caught.value.element_index == 1
    assert list(iterator) == []


def test_nested_values_and_lists():
    spec = {"a": (TensorSpec((2,), np.float32), TensorSpec((), str))}
    ds = Dataset.from_generator(lambda: iter([{"a": ([1, 2], "x")}]), output_signature=spec)
    ((element),) = list(ds)
    assert element["a"][1] == b"x"
    assert element["a"][0].tolist() == [1.0, 2.0]


def test_the_first_element_computes_no_more_than_itself():
    calls = []

    def slow(v):
        calls.append(int(v))
        return np.int64(v)

    ds = Dataset.range(100_000).map(slow)
    calls.clear()
    iterator = iter(ds)
    next(iterator)
    assert calls == [0]
    calls.clear()
    list(ds.take(1))
    assert calls == [0]


def test_a_cache_is_filled_once_and_serves_every_later_pass():
    pulled, ds = counted(5)
    cached = ds.cache()
    runs = [[int(v) for v in cached.map(lambda v: v + 1)] for _ in range(3)]
    assert runs == [[1, 2, 3, 4, 5]] * 3
    assert pulled == [0, 1, 2, 3, 4]


def test_an_unfinished_pass_fills_nothing():
    pulled, ds = counted(5)
    cached = ds.cache()
    assert [int(v) for v in cached.take(2)] == [0, 1]
    assert [int(v) for v in cached] == [0, 1, 2, 3, 4]
    assert pulled == [0, 1] + [0, 1, 2, 3, 4]


def test_a_pass_with_an_error_is_not_kept():
    attempts = []

    def flaky(v):
        attempts.append(int(v))
        if v == 1 and attempts.count(1) < 2:
            raise OSError("once")
        return np.int64(v)

    cached = Dataset.range(3).map(flaky).cache()
    iterator = iter(cached)
    next(iterator)
    with pytest.raises(OSError, match="once"):
        next(iterator)
    list(iterator)
    assert [int(v) for v in cached] == [0, 1, 2]


def test_what_a_cache_holds_does_not_depend_on_the_epoch_that_fills_it():
    def make():
        return Dataset.range(30).shuffle(30, seed=1).cache()

    one, other = make(), make()
    for _ in range(3):
        next(iter(other))
    assert [int(v) for v in one] == [int(v) for v in other]


def test_cached_batches_with_a_short_last_one():
    cached = Dataset.range(7).batch(3).cache()
    for _ in range(2):
        assert [b.tolist() for b in cached] == [[0, 1, 2], [3, 4, 5], [6]]


def test_resuming_from_a_cached_epoch_in_another_process_fills_the_cache_first():
    def make():
        return Dataset.range(40).map(lambda v: v * 3).cache().shuffle(40, seed=2).batch(7)

    ds = make()
    list(ds)
    iterator = iter(ds)
    next(iterator)
    state = iterator.state()
    rest = [b.tolist() for b in iterator]
    fresh = iter(make())
    fresh.restore(state)
    assert [b.tolist() for b in fresh] == rest
