"""Iterators that Ctrl-C meets at work, and that are used on."""

import numpy as np
import pytest

from drumline.data import Dataset, TensorSpec


def interrupted(at):
    """The number it is given; the first time that it is ``at``, what Ctrl-C raises."""
    pending = [at]

    def same(v):
        if int(np.asarray(v)) in pending:
            pending.clear()
            raise KeyboardInterrupt
        return np.asarray(v)

    return same


def generated(same):
    def numbers():
        for i in range(40):
            yield same(i)

    return Dataset.from_generator(numbers, output_signature=TensorSpec((), np.int64))


@pytest.mark.parametrize("goes_on", ["next", "state"])
@pytest.mark.parametrize(
    "made",
    [
        lambda same: Dataset.range(40).map(same, num_parallel_calls=2),
        lambda same: Dataset.range(40).map(same, num_parallel_calls=2).batch(3).unbatch(),
        lambda same: generated(same).map(lambda v: v + 0),
    ],
    ids=["parallel map", "batch", "generator"],
)
def test_an_interrupt_loses_no_element(made, goes_on):
    iterator = iter(made(interrupted(17)))
    found = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(map(int, iterator))
    if goes_on == "state":
        iterator.restore(iterator.state())
    assert found + [int(v) for v in iterator] == list(range(40))


def test_an_interrupt_while_restoring_leaves_the_iterator_where_it_was():
    same = interrupted(-1)
    iterator = iter(generated(lambda v: same(v)))
    first = iterator.state()
    for _ in range(20):
        next(iterator)
    later = iterator.state()
    iterator.restore(first)
    same = interrupted(5)
    with pytest.raises(KeyboardInterrupt):
        iterator.restore(later)
    assert iterator.state() == first
    assert [int(v) for v in iterator] == list(range(40))
