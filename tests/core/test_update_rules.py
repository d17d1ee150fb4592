"""UpdateRule and read_rows against numpy in float32, which rounds each operation as they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline._core import DistinctRows, TableRows, UpdateRule, read_rows

F = np.float32
Slots = Sequence[np.ndarray]
Formula = Callable[[Any, Slots, Any, Any, int], tuple[Any, Slots]]


def sgd(value: Any, slots: Slots, gradient: Any, rate: Any, step: int) -> tuple[Any, Slots]:
    return value - gradient * rate, []


def nesterov(value: Any, slots: Slots, gradient: Any, rate: Any, step: int) -> tuple[Any, Slots]:
    velocity = slots[0] * F(0.9) - gradient * rate
    return value + (velocity * F(0.9) - gradient * rate), [velocity]


def adagrad(value: Any, slots: Slots, gradient: Any, rate: Any, step: int) -> tuple[Any, Slots]:
    total = slots[0] + gradient * gradient
    return value - rate * gradient / np.sqrt(total + F(1e-7)), [total]


def amsgrad(value: Any, slots: Slots, gradient: Any, rate: Any, step: int) -> tuple[Any, Slots]:
    first = slots[0] + (gradient - slots[0]) * F(1 - 0.9)
    second = slots[1] + (gradient * gradient - slots[1]) * F(1 - 0.99)
    most = np.maximum(slots[2], second)
    powers = F(0.9) ** F(step + 1), F(0.99) ** F(step + 1)
    alpha = rate * np.sqrt(F(1) - powers[1]) / (F(1) - powers[0])
    return value - first * alpha / (np.sqrt(most) + F(1e-7)), [first, second, most]


def rmsprop(value: Any, slots: Slots, gradient: Any, rate: Any, step: int) -> tuple[Any, Slots]:
    velocity = F(0.9) * slots[0] + F(1 - 0.9) * (gradient * gradient)
    moved = F(0.5) * slots[1] + rate * gradient / np.sqrt(velocity + F(1e-7))
    return value - moved, [velocity, moved]


def ftrl(value: Any, slots: Slots, gradient: Any, rate: Any, step: int) -> tuple[Any, Slots]:
    total = slots[0] + gradient * gradient
    roots = np.sqrt(total), np.sqrt(slots[0])
    linear = slots[1] + (gradient - (roots[0] - roots[1]) / rate * value)
    clipped = np.clip(linear, F(-0.1), F(0.1))
    return (clipped - linear) / (roots[0] / rate), [total, linear]


RULES: dict[str, tuple[list[float], Formula]] = {
    "sgd": ([], sgd),
    "momentum": ([0.9, 1], nesterov),
    "adagrad": ([1e-7], adagrad),
    "adam": ([0.9, 0.99, 1e-7, 1], amsgrad),
    "rmsprop": ([0.9, 0.5, 1e-7, 0], rmsprop),
    "ftrl": ([-0.5, 0.1, 0, 0, 0], ftrl),
}


@given(st.sampled_from(list(RULES)), st.integers(0, 40), st.integers(0, 20), st.integers(0, 99))
def test_rows_of_tables_change_as_the_formula_says(
    name: str, rows: int, width: int, seed: int
) -> None:
    constants, formula = RULES[name]
    rule, rng, rate = UpdateRule(name, constants), np.random.default_rng(seed), F(0.05)
    updates, expected, given_arrays = [], [], []
    for table in range(3):
        shape = (1 + rule.slots, rows, width)
        arrays = [array.copy() for array in rng.uniform(0.1, 2, shape).astype(F)]
        ids = rng.permutation(rows)[: rng.integers(0, rows + 1)].astype(
            [np.int32, np.int64][table % 2]
        )
        gradient = rng.normal(size=(len(ids), width)).astype(F)
        new, slots = formula(
            arrays[0][ids], [slot[ids] for slot in arrays[1:]], gradient, rate, table
        )
        after = [array.copy() for array in arrays]
        for array, changed in zip(after, [new, *slots], strict=True):
            array[ids] = changed
        updates.append((arrays, DistinctRows(ids, rows), gradient, table))
        expected.append(after)
        given_arrays.append(arrays)
    rule.update_rows(updates, float(rate))
    for arrays, after in zip(given_arrays, expected, strict=True):
        for array, wanted in zip(arrays, after, strict=True):
            # Powers alone may differ, in the last place.
            np.testing.assert_allclose(array, wanted, rtol=1e-6 if name == "adam" else 0, atol=1e-6)


@given(st.integers(1, 30), st.integers(0, 9), st.data())
def test_rows_of_tables_are_read(rows: int, width: int, data: st.DataObject) -> None:
    tables = np.random.default_rng(rows).integers(0, 256, (2, rows, width), dtype=np.uint8)
    ids = np.array(data.draw(st.lists(st.integers(0, rows - 1))), np.int32)
    outs = [np.empty((len(ids), width), np.uint8), np.empty((rows, width), np.uint8)]
    chosen = [TableRows(ids, rows), TableRows(np.arange(rows), rows)]
    read_rows(list(zip(tables, chosen, outs, strict=True)))
    np.testing.assert_array_equal(outs[0], tables[0][ids])
    np.testing.assert_array_equal(outs[1], tables[1])
    assert len(chosen[0]) == len(ids)


def test_rows_outside_are_named() -> None:
    for bad in (5, -1):
        with pytest.raises(IndexError, match=rf"ids\[1\] is {bad}"):
            TableRows(np.array([0, bad]), 5)


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"value": np.zeros((4, 2), F)}, ValueError, r"shape \[4, 2\] instead of \[5, 2\]"),
        ({"value": np.zeros((5, 2))}, TypeError, "float32"),
        ({"value": np.zeros((5, 4), F)[:, ::2]}, ValueError, "contiguous"),
        ({"gradient": np.zeros((2, 2), F)}, ValueError, r"shape \[2, 2\] instead of \[3, 2\]"),
        ({"slots": 1}, ValueError, "given 1 arrays; it needs a value and 1 slots"),
        ({"overlap": True}, ValueError, "share memory"),
        ({"twice": True}, ValueError, "overlaps an array"),
    ],
)
def test_arguments_that_do_not_fit_change_nothing(
    change: dict[str, Any], kind: type[Exception], text: str
) -> None:
    good = [np.ones((5, 2), F), np.ones((5, 2), F)]
    value = change.get("value", np.ones((5, 2), F))
    arrays = [value, np.ones((5, 2), F)][: change.get("slots", 2)]
    gradient = change.get("gradient", np.ones((3, 2), F))
    if "overlap" in change:
        memory = bytearray(40)
        arrays[0] = np.frombuffer(memory, F).reshape(5, 2)
        gradient = np.frombuffer(memory, F, 6).reshape(3, 2)
    if "twice" in change:
        arrays[1] = value
    rows = DistinctRows(np.arange(3), 5)
    rule = UpdateRule("adagrad", [1e-7])
    with pytest.raises(kind, match=text):
        rule.update_rows([(good, rows, np.ones((3, 2), F), 0), (arrays, rows, gradient, 0)], 0.1)
    np.testing.assert_array_equal(good, np.ones((2, 5, 2)))


def test_rules_that_there_are_not() -> None:
    for name, constants in (("lion", []), ("adam", [0.9])):
        with pytest.raises(ValueError, match=f'no rule "{name}" with {len(constants)} constants'):
            UpdateRule(name, constants)
