"""States are small and refuse what they are not for."""

import gc
import json
import threading

import numpy as np
import pytest

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


def test_a_state_of_another_dataset_is_refused():
    state = iter(Dataset.range(5).batch(2)).state()
    with pytest.raises(ValueError, match="another dataset"):
        iter(Dataset.range(5).batch(3)).restore(state)
    with pytest.raises(ValueError, match="another dataset"):
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
