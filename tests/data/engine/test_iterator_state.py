"""States are small and refuse what they are not for."""

import gc
import json
import threading

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset, Options, TensorSpec


def make():
    rows = np.arange(200_000, dtype=np.float32).reshape(50_000, 4)
    return Dataset.from_tensor_slices(rows).shuffle(50_000, seed=1).map(lambda x: x * 2).batch(32)


def test_a_state_is_small_and_restores_by_position():
    iterator = iter(make())
    for _ in range(1000):
        next(iterator)
    state = iterator.state()
    assert len(json.dumps(state)) < 1000
    again = iter(make())
    again.restore(state)
    np.testing.assert_array_equal(next(again), next(iterator))


def test_a_state_after_the_end():
    ds = Dataset.range(5).batch(2)
    iterator = iter(ds)
    list(iterator)
    again = iter(ds)
    again.restore(iterator.state())
    assert list(again) == []


def unseeded(kept: bool) -> Dataset:
    drawn = Dataset.range(60).shuffle(20).map(lambda v: (v, dl.random.uniform(())))
    return (drawn.cache() if kept else drawn).shuffle(8).batch(7)


@pytest.mark.parametrize("kept", [False, True])
def test_seeds_that_were_not_given_are_part_of_the_state(kept):
    iterator = iter(unseeded(kept))
    for _ in range(4):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    rest = list(iterator)
    ds = unseeded(kept)
    own = list(ds)
    again = iter(ds)
    again.restore(state)
    assert again.state()["seeds"] == state["seeds"]
    for found in (list(again), rest):
        for ours, theirs in zip(found, rest, strict=True):
            np.testing.assert_array_equal(ours[0], theirs[0])
            np.testing.assert_array_equal(ours[1], theirs[1])
    # The dataset's other iterators have its own seeds, and what it has in a cache.
    for ours, theirs in zip(list(ds), own, strict=True):
        assert (set(ours[0].tolist()) == set(theirs[0].tolist())) is False
    if kept:
        draws = [np.sort(np.concatenate([batch[1] for batch in epoch])) for epoch in (own, ds)]
        np.testing.assert_array_equal(*draws)


def test_a_state_of_another_dataset_is_refused():
    state = iter(Dataset.range(5).batch(2)).state()
    with pytest.raises(ValueError, match=r"another dataset: its operation 2, batch, has other arg"):
        iter(Dataset.range(5).batch(3)).restore(state)
    with pytest.raises(ValueError, match=r"operation 2 is batch, where this one's is shuffle"):
        iter(Dataset.range(5).shuffle(2).batch(2)).restore(state)
    with pytest.raises(ValueError, match=r"operation 3 is nothing, where this one's is prefetch"):
        iter(Dataset.range(5).batch(2).prefetch(1)).restore(state)
    with pytest.raises(ValueError, match="operation 2, shuffle, has other arguments, elements or"):
        iter(Dataset.range(5).shuffle(3, seed=1)).restore(
            iter(Dataset.range(5).shuffle(3, seed=2)).state()
        )
    with pytest.raises(ValueError, match="not a dataset iterator's state"):
        iter(Dataset.range(5)).restore({"position": 3})


def test_a_dropped_iterator_stops_its_threads():
    before = set(threading.enumerate())
    iterator = iter(Dataset.range(10**9).map(lambda v: v + 1).batch(10).prefetch(2))
    next(iterator)
    started = set(threading.enumerate()) - before
    assert "drumline-prefetch" in {thread.name for thread in started}
    del iterator
    gc.collect()
    for thread in started:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in started)


def test_a_closed_iterator_yields_nothing_more():
    iterator = iter(Dataset.range(10).map(lambda v: v + 1))
    next(iterator)
    iterator.close()
    assert list(iterator) == []


def test_options_reject_unknown_names():
    options = Options()
    with pytest.raises(AttributeError, match="no option 'treading'"):
        options.treading = 3
    with pytest.raises(AttributeError, match="private_threadpool_size"):
        options.threading.private_threadpool = 3


def test_explain_shows_what_options_change():
    options = Options()
    options.experimental_optimization.apply_default_optimizations = False
    plain = make().with_options(options).explain()
    assert "optimized" not in plain
    assert "threads" not in plain
    options = Options()
    options.threading.private_threadpool_size = 3
    assert "3 threads, in order" in make().with_options(options).explain()


def test_explain_says_why_python_runs():
    text = Dataset.range(3).map(lambda v: int(v)).explain()
    assert "runs as Python, since ConcretizationTypeError" in text
    spec = TensorSpec((), np.int64)
    assert "generator" in Dataset.from_generator(lambda: iter([1]), output_signature=spec).explain()


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_a_state_fits_a_machine_of_any_number_of_cores(monkeypatch, cores):
    def on(count):
        monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(count)), raising=False)
        kept = Dataset.range(300).filter(lambda v: v % 3 > 0)
        return iter(kept.map(lambda v: v * 2).skip(0).batch(4).map(lambda v: v + 1))

    iterator = on(cores)
    for _ in range(7):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    rest = [batch.tolist() for batch in iterator]
    for others in (1, 2, 8):
        again = on(others)
        again.restore(state)
        assert [batch.tolist() for batch in again] == rest
