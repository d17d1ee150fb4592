"""What every resumable iterator promises, and what those without a position are refused."""

import itertools
import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline._resumable import (
    NoPositionError,
    OneWayIterator,
    Resumable,
    ResumableIterator,
    as_resumable,
)
from drumline.data.engine.iterator import DatasetIterator
from drumline.distribute.input import sharded_input as lockstep_module
from drumline.distribute.input.distributed_dataset_from_function import ZippedReplicaIterators
from drumline.distribute.input.distributed_iterator import DevicePrefetcher, DistributedIterator
from drumline.distribute.input.process_input import LocalBatchSplitter
from drumline.distribute.input.sharded_input import LockstepInputIterator, Step

BATCHES = 7


def batches():
    return iter(dl.data.Dataset.range(4 * BATCHES - 1).shuffle(9, seed=3).batch(4))


def prefetcher(source):
    return DevicePrefetcher(source, source, lambda step: step, 3)


def splitter(source):
    two_by_two = SimpleNamespace(num_processes=2, local_replica_devices=[0, 1])
    return LocalBatchSplitter(source, two_by_two)


def lockstep(source):
    strategy = SimpleNamespace(local_replica_devices=[0])
    steps = ([batch] for batch in source)
    return LockstepInputIterator(source, steps, strategy, lambda: np.zeros(0, np.int64))


def lockstep_of_two(source):
    strategy = SimpleNamespace(local_replica_devices=[0, 1])
    return LockstepInputIterator(source, source, strategy, lambda: np.zeros(0, np.int64))


def distributed(source):
    return DistributedIterator(source, source, lambda step: step)


WRAPPERS = {
    "dataset": batches,
    "prefetcher": lambda: prefetcher(batches()),
    "distributed": lambda: distributed(batches()),
    "splitter": lambda: splitter(batches()),
    "pipelines": lambda: ZippedReplicaIterators([batches(), batches()]),
    "lockstep": lambda: lockstep(batches()),
    "prefetched pipelines": lambda: prefetcher(ZippedReplicaIterators([batches()])),
    "prefetched splitter": lambda: distributed(prefetcher(splitter(batches()))),
    "prefetched lockstep": lambda: prefetcher(lockstep_of_two(splitter(batches()))),
}


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    monkeypatch.setattr(lockstep_module, "all_gather_host", lambda strategy, value: value[None])


def values(element):
    """An element's arrays as lists."""
    batches = element.batches if isinstance(element, Step) else element
    return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(batches)]


def rest_of(iterator):
    return list(map(values, iterator))


@pytest.mark.parametrize("name", WRAPPERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(taken=st.integers(0, 2 * BATCHES + 1), further=st.integers(0, 3))
def test_what_follows_a_restored_state_is_what_followed(name, taken, further):
    iterator = WRAPPERS[name]()
    assert isinstance(iterator, ResumableIterator)
    for _ in itertools.islice(iterator, taken):
        pass
    state = json.loads(json.dumps(iterator.state()))
    expected = rest_of(iterator)
    # A new iterator, and one that has read ahead, go on alike.
    for passed in (0, further):
        other = WRAPPERS[name]()
        for _ in itertools.islice(other, passed):
            pass
        other.restore(state)
        again = WRAPPERS[name]()
        again.restore(other.state())
        assert rest_of(other) == rest_of(again) == expected


@pytest.mark.parametrize("name", WRAPPERS)
def test_closing_ends_the_source(name, monkeypatch):
    closed = []
    close = DatasetIterator.close
    monkeypatch.setattr(DatasetIterator, "close", lambda it: (closed.append(it), close(it))[1])
    iterator = WRAPPERS[name]()
    next(iterator)
    iterator.close()
    assert closed


def numbers():
    yield from (np.arange(3), np.arange(3, 5))


@pytest.mark.parametrize(
    "make",
    [
        lambda: prefetcher(numbers()),
        lambda: distributed(numbers()),
        lambda: ZippedReplicaIterators([numbers()]),
        lambda: prefetcher(ZippedReplicaIterators([numbers()])),
        lambda: prefetcher(lockstep(numbers())),
        lambda: lockstep(ZippedReplicaIterators([numbers()])),
    ],
)
def test_generators_are_read_and_their_position_is_refused(make):
    with pytest.raises(NoPositionError, match="from a generator, which has no `state`.*Dataset"):
        make().restore({"pipelines": [0]})
    iterator = make()
    first = next(iterator)
    with pytest.raises(NoPositionError, match="cannot be saved"):
        iterator.state()
    assert [values(first), *rest_of(iterator)] in (
        [[[0, 1, 2]], [[3, 4]]],
        [[0, 1, 2], [3, 4]],
    )


def test_a_checkpoint_of_an_iterator_over_a_generator_is_refused(tmp_path):
    strategy = dl.distribute.OneDeviceStrategy("cpu:0")
    options = dl.distribute.InputOptions(experimental_per_replica_buffer_size=2)
    iterator = iter(strategy.experimental_distribute_dataset([np.arange(3)] * 4, options))
    next(iterator)
    with pytest.raises(TypeError, match="which has no `state` and `restore`"):
        dl.train.Checkpoint(iterator=iterator).save(tmp_path / "checkpoint")


def test_what_is_resumable():
    assert not isinstance(numbers(), Resumable)
    assert as_resumable(source := batches()) is source
    assert isinstance(as_resumable(numbers()), OneWayIterator)
    assert not isinstance(dl.data.Dataset.range(3), ResumableIterator)
