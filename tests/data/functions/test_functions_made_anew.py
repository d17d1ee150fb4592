"""Functions that are defined for each element again are compiled once, unless they differ."""

import numpy as np

from drumline.data import Dataset
from drumline.data.functions import build as build_module
from drumline.data.functions import recurrence

SCALES = {"a": 3}


class Holder:
    value = 0


def scaled(value):
    return value * SCALES["a"] + 1


def ints(dataset):
    return [int(v) for v in dataset]


def traces_of(monkeypatch, ds):
    """The elements, and how often a function was traced for them."""
    traced = []

    def count(user, source):
        traced.append(user.name)
        return original(user, source)

    original = build_module.trace
    monkeypatch.setattr(build_module, "trace", count)
    return ints(ds), len(traced)


def test_the_same_function_is_traced_once(monkeypatch):
    ds = Dataset.range(9).flat_map(lambda n: Dataset.range(n, n + 2).map(scaled))
    elements, traces = traces_of(monkeypatch, ds)
    assert elements == [3 * v + 1 for n in range(9) for v in (n, n + 1)]
    assert traces == 1


def test_values_of_the_outer_element_become_arguments(monkeypatch):
    ds = Dataset.range(6).flat_map(lambda n: Dataset.range(2).map(lambda v, k=n * 2: v + k))
    elements, traces = traces_of(monkeypatch, ds)
    assert elements == [v + n * 2 for n in range(6) for v in range(2)]
    # Once with a constant, for the types of its results, and once with an argument.
    assert traces == 2


def test_values_that_cannot_be_arguments_are_constants(monkeypatch):
    def of(n):
        even, size = bool(n % 2 == 0), int(n) % 2 + 1

        def function(v):
            return (v + n if even else v - n) + np.arange(3)[:size].sum()

        return Dataset.range(2).map(function)

    elements, traces = traces_of(monkeypatch, Dataset.range(12).flat_map(of))
    expected = [
        (v + n if n % 2 == 0 else v - n) + sum(range(n % 2 + 1)) for n in range(12) for v in (0, 1)
    ]
    assert elements == expected
    # For each of two pairs: constants, all arguments, the number alone, the size as well.
    assert traces == 8


def test_what_changes_between_elements_is_seen():
    holder, numbers = Holder(), [0]

    def of_an_object(n):
        holder.value = int(n)
        return Dataset.range(2).map(lambda v: v + holder.value)

    def of_a_list(n):
        numbers[0] = int(n)
        return Dataset.range(2).map(lambda v: v + numbers[0])

    def of_a_global(n):
        SCALES["a"] = int(n)
        return Dataset.range(2).map(scaled)

    def of_an_array(n):
        array = np.full(3, n)
        return Dataset.range(2).map(lambda v: v + array.sum() // 3)

    expected = [n + v for n in range(4) for v in range(2)]
    for function in (of_an_object, of_a_list, of_an_array):
        assert ints(Dataset.range(4).flat_map(function)) == expected
    assert ints(Dataset.range(4).flat_map(of_a_global)) == [1, 1, 1, 2, 1, 3, 1, 4]
    SCALES["a"] = 3


def test_a_reduce_of_each_window_is_compiled_once(monkeypatch):
    traced = []
    original = recurrence.trace

    def count(user, spec):
        traced.append(user.name)
        return original(user, spec)

    monkeypatch.setattr(recurrence, "trace", count)
    sums = (
        Dataset.range(60)
        .window(2)
        .map(lambda window: window.reduce(np.int64(0), lambda total, v: total + v))
    )
    assert ints(sums) == [4 * i + 1 for i in range(30)]
    # One for the element with which the map was tried, one for all others.
    assert len(traced) == 2
