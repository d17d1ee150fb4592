"""``interleave`` against its rules written down element by element, resumed anywhere."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drumline.data import Dataset

FAILING = 7


def reference(inner, cycle_length, block_length):
    """What tf.data's iterator does; an error is an element in its place."""
    slots, found, slot, used, opened = [None] * cycle_length, [], 0, 0, 0
    while opened < len(inner) or any(items is not None for items in slots):
        if slots[slot] is None and opened < len(inner):
            slots[slot] = list(inner[opened])
            opened += 1
        elif slots[slot]:
            found.append(slots[slot].pop(0))
            used += 1
            if used == block_length:
                slot, used = (slot + 1) % cycle_length, 0
        else:
            slots[slot] = None
            slot, used = (slot + 1) % cycle_length, 0
    return found


def checked(value):
    if value % 10 == FAILING:
        raise ValueError(str(value))
    return value


def outcomes(iterator, count=None):
    found = []
    while count is None or len(found) < count:
        try:
            found.append(int(next(iterator)))
        except StopIteration:
            break
        except ValueError as error:
            found.append(int(str(error)))
    return found


@given(
    st.lists(st.integers(0, 40), max_size=9),
    st.integers(1, 5),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.integers(0, 100),
)
def test_interleave(lengths, cycle_length, block_length, fails, reads_in_order, stop):
    starts = [1000 * i for i in range(len(lengths))]

    def inner(n):
        ds = Dataset.range(starts[n], starts[n] + lengths[n]) if lengths else Dataset.range(0)
        ds = ds.map(lambda v: np.int64(checked(int(v)))) if fails else ds
        return ds.skip(0).prefetch(3) if reads_in_order else ds

    ds = Dataset.range(len(lengths)).interleave(inner, cycle_length, block_length)
    expected = reference(
        [range(s, s + n) for s, n in zip(starts, lengths, strict=True)], cycle_length, block_length
    )
    iterator = iter(ds)
    head = outcomes(iterator, stop)
    state = json.loads(json.dumps(iterator.state()))
    assert head == expected[:stop]
    assert outcomes(iterator) == expected[stop:]
    again = iter(ds)
    again.restore(state)
    assert outcomes(again) == expected[stop:]
