"""States that were changed are refused by name, and the iterator goes on where it was."""

import copy
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset, TensorSpec


def python(v):
    return np.int64(int(v) * 3)


PLANS = [
    Dataset.range(40).shuffle(9, seed=1).batch(3).prefetch(2),
    Dataset.range(40).interleave(lambda v: Dataset.range(3), 4, 2).map(python).repeat(2),
    Dataset.range(40).group_by_window(python, lambda key, window: window.batch(2), 2).unbatch(),
    Dataset.range(40).window(3, shift=2).flat_map(lambda w: w).scan(0, lambda s, v: (s, python(v))),
    Dataset.from_generator(lambda: iter(range(30)), output_signature=TensorSpec((), np.int64)),
    Dataset.sample_from_datasets([Dataset.range(20).skip(1).map(python)] * 2, seed=1),
]


def places(value, path=()):
    """The paths of all parts of a nested value."""
    if path:
        yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, part in value.items() if isinstance(value, dict) else ():
        yield from places(part, (*path, key))


def changed(state, path, change):
    """A copy of the state in which one part was changed or left out."""
    state = copy.deepcopy(state)
    *above, last = path
    holder = state
    for key in above:
        holder = holder[key]
    if change is LEFT_OUT:
        del holder[last]
    else:
        holder[last] = change
    return state


LEFT_OUT = object()
# States depend on timing in their details: how long they are must not decide what is drawn.
NUMBERS = st.integers(0, 10_000)
CHANGES = st.sampled_from([LEFT_OUT, None, -1, 2**70, "x", [], {}, 0.5, True, b"", object()])


@settings(max_examples=60)
@given(st.sampled_from(PLANS), st.integers(0, 12), NUMBERS, CHANGES)
def test_a_changed_state_is_refused_and_nothing_lost(plan, position, which, change):
    iterator = iter(copy.copy(plan))
    for _ in range(position):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    paths = list(places(state))
    damaged = changed(state, paths[which % len(paths)], change)
    if damaged != state:
        with pytest.raises(dl.errors.IteratorStateError):
            iterator.restore(damaged)
    after = str(next(iterator))
    iterator.restore(state)
    assert str(next(iterator)) == after


@given(NUMBERS, st.integers(1, 127))
def test_a_flipped_byte_is_found(which, flip):
    iterator = iter(copy.copy(PLANS[1]))
    next(iterator)
    text = bytearray(json.dumps(iterator.state()).encode())
    text[which % len(text)] ^= flip
    try:
        read = json.loads(bytes(text))
    except ValueError:
        return
    if read != iterator.state():
        with pytest.raises(dl.errors.IteratorStateError):
            iterator.restore(read)


def test_an_input_that_fails_leaves_the_iterator_where_it_was():
    lengths = [8]
    spec = TensorSpec((), np.int64)
    source = Dataset.from_generator(lambda: iter(range(lengths[0])), output_signature=spec)
    plan = source.interleave(lambda v: Dataset.range(100), 2)
    iterator = iter(plan)
    early = iterator.state()
    for _ in range(10):
        next(iterator)
    late = iterator.state()
    iterator.restore(early)
    next(iterator)
    lengths[0] = 1
    with pytest.raises(ValueError, match="its source is not what it was"):
        iterator.restore(late)
    assert int(next(iterator)) == 1
