"""Elements by position through operations that stream, as ``tf.data``'s random access has them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline import random
from drumline.data import GLOBAL, Dataset

few = st.integers(1, 4)
STEPS = st.one_of(
    st.tuples(st.just("batch"), few, st.booleans()),
    st.tuples(st.just("repeat"), few),
    st.tuples(st.just("shuffle"), few, st.booleans()),
    st.tuples(st.just("prefetch"), few),
    st.tuples(st.just("cache")),
    st.tuples(st.just("filled")),
    st.tuples(st.just("map"), few),
    st.tuples(st.just("skip"), few),
    st.tuples(st.just("draw")),
    st.tuples(st.just("count")),
)


def applied(ds, step):
    match step:
        case ("batch", size, drop):
            return ds.batch(size, drop_remainder=drop)
        case ("repeat", count):
            return ds.repeat(count)
        case ("shuffle", size, again):
            return ds.shuffle(size, seed=size, reshuffle_each_iteration=again)
        case ("prefetch", size):
            return ds.prefetch(size)
        case ("cache",):
            return ds.cache()
        case ("filled",):
            ds = ds.cache()
            for _ in ds:
                pass
            return ds
        case ("map", number):
            return ds.map(lambda v: v * 2 + number)
        case ("skip", number):
            return ds.skip(number)
        case ("draw",):
            return ds.map(lambda v: v * random.uniform(np.shape(v)).sum())
        case ("count",):
            return ds.apply(_counted)
    raise AssertionError(step)


def _counted(ds):
    from drumline.data.experimental import assert_cardinality

    return ds.apply(assert_cardinality(len([None for _ in ds])))


def made(length, steps):
    ds = Dataset.range(length).map(lambda v: v * 0.5)
    for step in steps:
        ds = applied(ds, step)
    return ds


def have_positions(steps):
    """Whether elements have positions: a map whose elements vary in shape gives them none."""
    kinds = [("vary",) if step[0] == "batch" and not step[2] else step for step in steps]
    first = kinds.index(("vary",)) if ("vary",) in kinds else len(kinds)
    return not {"map", "draw"} & {step[0] for step in kinds[first:]}


def values(elements):
    return [np.asarray(e).tolist() for e in elements]


def outcomes(following):
    """What calls give up to the end; an error is its type."""
    found = []
    while True:
        try:
            found.append(np.asarray(following(len(found))).tolist())
        except (StopIteration, IndexError):
            return found
        except ValueError as error:
            found.append(type(error).__name__)


@given(st.integers(0, 9), st.lists(STEPS, max_size=4))
def test_an_element_by_position_is_that_of_the_iteration(length, steps):
    ds = made(length, steps)
    if not have_positions(steps):
        with pytest.raises(TypeError, match="cannot be reached by position"):
            ds.index(0)
        return
    for epoch in range(2):
        iterator = iter(ds)
        expected = outcomes(lambda _, iterator=iterator: next(iterator))
        assert outcomes(lambda i, epoch=epoch: ds.index(i, epoch=epoch)) == expected


@given(st.integers(0, 9), st.lists(STEPS, max_size=3), st.integers(0, 40))
def test_a_global_shuffle_of_streams_is_a_permutation_that_resumes(length, steps, stop):
    ds = made(length, steps)
    iterator = iter(ds)
    expected = outcomes(lambda _: next(iterator))
    if not have_positions(steps):
        with pytest.raises(TypeError, match="cannot be reached by position"):
            ds.shuffle(GLOBAL, seed=4)
        return
    shuffled = ds.shuffle(GLOBAL, seed=4, reshuffle_each_iteration=False)
    iterator = iter(shuffled)
    elements = outcomes(lambda _: next(iterator))
    assert sorted(map(json.dumps, elements)) == sorted(map(json.dumps, expected))
    iterator = iter(shuffled.take(stop))
    head = outcomes(lambda _: next(iterator))
    iterator = iter(shuffled)
    for _ in head:
        outcomes_of_one(iterator)
    again = iter(shuffled)
    again.restore(json.loads(json.dumps(iterator.state())))
    if not ({"shuffle", "draw"} & {step[0] for step in steps}):
        assert head + outcomes(lambda _: next(again)) == elements


def outcomes_of_one(iterator):
    try:
        next(iterator)
    except ValueError:
        return


def test_a_shorter_last_batch_by_position():
    ds = Dataset.range(7).batch(3).prefetch(1)
    assert values(ds.index(i) for i in (2, 0, -2)) == [[6], [0, 1, 2], [3, 4, 5]]
    with pytest.raises(IndexError, match="there is no element 3, the dataset has 3"):
        ds.index(3)
    order = values(ds.shuffle(GLOBAL, seed=1))
    assert sorted(order) == [[0, 1, 2], [3, 4, 5], [6]]


def test_positions_of_endless_datasets():
    ds = Dataset.range(3).shuffle(3, seed=1).repeat()
    assert [int(ds.index(i)) for i in range(12)] == [int(v) for v in ds.take(12)]
    with pytest.raises(IndexError, match="never ends"):
        ds.index(-1)
    with pytest.raises(ValueError, match=r"shuffle\(GLOBAL\): the dataset never ends"):
        ds.shuffle(GLOBAL)
    assert sorted(int(v) for v in ds.take(6).shuffle(GLOBAL)) == [0, 0, 1, 1, 2, 2]


def test_errors_of_batches_by_position():
    ds = Dataset.range(6).map(lambda v: 6 // (v - 2)).batch(2)
    assert ds.index(0).tolist() == [-3, -6]
    with pytest.raises(ZeroDivisionError):
        ds.index(1)
    assert ds.index(2).tolist() == [3, 2]
    wrong = Dataset.range(3).assert_cardinality(4)
    with pytest.raises(ValueError, match="4 elements were expected, there are 3"):
        wrong.index(0)
