"""Typical mistakes raise at once, and the message says what to do."""

import copy

import numpy as np
import pytest

from drumline.data import Dataset

PAIRS = Dataset.range(3).enumerate()

MISTAKES = {
    "no function": (lambda: Dataset.range(3).map(3), "map takes a function, got 3"),
    "no predicate": (lambda: Dataset.range(3).filter(None), "filter takes a function, got None"),
    "no reducer": (lambda: Dataset.range(3).reduce(np.int64(0), None), "reduce takes a function"),
    "no dataset": (lambda: Dataset.range(3).concatenate([1]), "concatenate takes a dataset"),
    "a float for a number": (lambda: Dataset.range(3.5), "range takes integers"),
    "a float for a start": (lambda: Dataset.range(3).enumerate(0.5), "enumerate: start must be"),
    "a float for a seed": (lambda: Dataset.range(3).shuffle(2, seed=0.5), "shuffle: seed must be"),
    "no length": (lambda: len(Dataset.range(3).repeat()), "take"),
    "unknown length": (lambda: len(Dataset.range(3).filter(lambda v: v > 1)), "assert_cardinality"),
    "past the end": (lambda: Dataset.range(3).index(3), "no element 3, the dataset has 3"),
    "before the start": (lambda: Dataset.range(3).index(-4), "no element -4"),
    "synchronous and parallel": (
        lambda: Dataset.range(3).map(lambda v: v, 2, synchronous=True),
        "exclude each other",
    ),
    "a state without parts": (
        lambda: iter(Dataset.range(3)).restore({"version": 2}),
        "lacks .*'plan'",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake):
    call, text = MISTAKES[mistake]
    with pytest.raises((TypeError, ValueError, IndexError), match=text):
        call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: PAIRS.map(lambda pair: pair), "is called with 2 arguments"),
        (lambda: Dataset.range(3).map(lambda a, b: a), "is called with one argument"),
        (lambda: PAIRS.flat_map(lambda pair: Dataset.range(3)), "is called with 2 arguments"),
        (lambda: PAIRS.scan(np.int64(0), lambda state: state), "is called with 2 arguments"),
    ],
)
def test_a_function_of_another_number_of_arguments(call, text):
    with pytest.raises(TypeError) as caught:
        call()
    assert text in caught.value.__notes__[0]


def test_a_type_error_of_the_functions_own_has_no_such_note():
    with pytest.raises(TypeError) as caught:
        Dataset.range(3).map(lambda v: v + None)
    assert "called with" not in "".join(caught.value.__notes__)


def test_deep_copies_count_their_own_epochs():
    ds = Dataset.range(9).map(lambda v: v + 1).shuffle(9, seed=4)
    first = list(ds)
    again = copy.deepcopy(ds)
    assert list(again) == list(ds) != first


def test_iterators_show_what_they_yield():
    assert "epoch=0" in repr(iter(Dataset.range(3)))
    assert "int64" in repr(iter(Dataset.range(3)))
