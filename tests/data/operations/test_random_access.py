"""Global shuffles, elements by position, and copies to devices."""

import json

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import drumline as dl
from drumline.data import GLOBAL, Dataset


def numbers(ds):
    return [int(v) for v in ds]


@given(st.integers(0, 300), st.integers(0, 5), st.integers(0, 320))
def test_a_global_shuffle_is_a_permutation_that_resumes(n, seed, stop):
    ds = Dataset.range(n).shuffle(GLOBAL, seed=seed)
    first, second = numbers(ds), numbers(ds)
    assert sorted(first) == sorted(second) == list(range(n))
    assert numbers(Dataset.range(n).shuffle(GLOBAL, seed=seed)) == first
    assert [int(ds.index(i)) for i in range(min(n, 3))] == first[:3]
    iterator = iter(Dataset.range(n).shuffle(GLOBAL, seed=seed))
    for _ in range(stop):
        next(iterator, None)
    state = json.loads(json.dumps(iterator.state()))
    assert len(json.dumps(state)) < 400
    again = iter(Dataset.range(n).shuffle(GLOBAL, seed=seed))
    again.restore(state)
    assert numbers(again) == first[stop:]


def test_global_shuffles_follow_seed_epoch_and_pass():
    n = 1000
    ds = Dataset.range(n).shuffle(GLOBAL, seed=1)
    epochs = [numbers(ds), numbers(ds), numbers(Dataset.range(n).shuffle(GLOBAL, seed=2))]
    assert len(set(map(tuple, epochs))) == 3
    same = Dataset.range(n).shuffle(GLOBAL, seed=1, reshuffle_each_iteration=False).repeat(2)
    twice = numbers(same)
    assert twice[:n] == twice[n:] != sorted(twice[:n])
    passes = numbers(Dataset.range(n).shuffle(GLOBAL, seed=1).repeat(2))
    assert passes[:n] != passes[n:]
    displaced = np.abs(np.array(epochs[0]) - np.arange(n)).mean()
    assert 0.25 * n < displaced < 0.42 * n


def test_a_global_shuffle_of_more_than_fits_in_memory_is_cheap():
    ds = Dataset.range(10**15).shuffle(GLOBAL, seed=3).map(lambda v: v + 1)
    iterator = iter(ds)
    head = [int(next(iterator)) for _ in range(5)]
    assert len(set(head)) == 5 and max(head) > 10**13
    assert int(ds.index(4)) == head[4]
    again = iter(ds)
    again.restore({**iterator.state()})
    assert next(again) == next(iterator)


def test_elements_by_position():
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    ds = (
        Dataset.from_tensor_slices({"x": rows}).map(lambda e: {"x": e["x"] * 2}).skip(1).enumerate()
    )
    number, element = ds.index(1)
    assert (number, element["x"].tolist()) == (1, [8.0, 10.0])
    assert ds.index(-1)[0] == 2
    for wrong in (3, -4):
        with pytest.raises(IndexError, match=f"there is no element {wrong}"):
            ds.index(wrong)
    with pytest.raises(TypeError, match=r"padded_batch\(2"):
        ds.padded_batch(2).take(1).index(0)
    with pytest.raises(ZeroDivisionError):
        Dataset.range(3).map(lambda v: 1 // v).index(0)
    cached = Dataset.range(3).filter(lambda v: v > 0).cache()
    with pytest.raises(TypeError, match="filter"):
        cached.index(0)
    list(cached)
    assert cached.index(1) == 2


def test_a_global_shuffle_names_what_prevents_it():
    for ds, name in (
        (Dataset.range(4).window(2), "window"),
        (Dataset.range(4).batch(2).unbatch(), "unbatch"),
        (Dataset.zip(Dataset.range(4), Dataset.range(4).filter(lambda v: v > 1)), "filter"),
    ):
        with pytest.raises(TypeError, match=rf"shuffle\(GLOBAL\): elements of {name}"):
            ds.shuffle(GLOBAL)


def test_elements_get_to_a_device_ahead():
    device = jax.local_devices()[-1]
    ds = Dataset.range(10).batch(4).map(lambda b: {"x": b * 2}).prefetch_to_device(device)
    found = list(ds)
    assert [e["x"].tolist() for e in found] == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]
    assert all(isinstance(e["x"], jax.Array) and e["x"].devices() == {device} for e in found)
    assert ds.element_spec["x"].dtype == found[0]["x"].dtype == np.int32
    iterator = iter(ds)
    next(iterator)
    again = iter(ds)
    again.restore(json.loads(json.dumps(iterator.state())))
    assert [e["x"].tolist() for e in again] == [[8, 10, 12, 14], [16, 18]]
    named = Dataset.range(2).apply(dl.data.experimental.prefetch_to_device("/CPU:0", 1))
    assert next(iter(named)).devices() == {jax.local_devices(backend="cpu")[0]}


def test_elements_are_divided_along_a_sharding():
    devices = np.array(jax.local_devices()[:2])
    sharding = NamedSharding(Mesh(devices, ("batch",)), PartitionSpec("batch"))
    ds = Dataset.range(8).batch(4, drop_remainder=True).prefetch_to_device(sharding)
    first = next(iter(ds))
    assert first.sharding == sharding and first.tolist() == [0, 1, 2, 3]


def test_what_cannot_go_to_a_device_says_so():
    ds = Dataset.range(4).prefetch_to_device("cpu:0")
    for after in (
        lambda: ds.map(lambda v: v),
        lambda: ds.map(lambda v: dl.random.uniform(())),  # keys would come in between
        lambda: ds.filter(lambda v: dl.random.uniform(()) > 0.5),
        lambda: ds.scan(np.int32(0), lambda state, v: (state, dl.random.uniform(()))),
        lambda: ds.reduce(np.int32(0), lambda state, v: state + v),
        lambda: ds.flat_map(lambda v: Dataset.range(2)),
        lambda: ds.group_by_window(lambda v: v % 2, lambda key, window: window.batch(2), 2),
        lambda: ds.save("nowhere"),
        lambda: Dataset.zip(ds, ds),
        lambda: ds.batch(2),
    ):
        with pytest.raises(ValueError, match="must be the last"):
            after()
    with pytest.raises(TypeError, match="strings"):
        Dataset.from_tensor_slices(["a"]).prefetch_to_device("cpu:0")
    with pytest.raises(ValueError, match="no device 'cpu:99'"):
        Dataset.range(4).prefetch_to_device("cpu:99")
    with pytest.raises(TypeError, match="Sharding"):
        Dataset.range(4).prefetch_to_device(3)
