"""Calls of Python functions in maps that are else compiled."""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline import strings
from drumline.data import Dataset, Options, TensorSpec
from drumline.data.functions.native.apply import is_symbol
from drumline.data.functions.native.python_calls import call_in_python, ensured_shape


def of_python(function: Callable[..., Any], *values: Any, shape: Sequence[int] = ()) -> Any:
    """One result of a call, in the shape that all of them have."""
    (made,) = call_in_python(lambda *given: [function(*given)], values, "own")
    return ensured_shape(made, shape) if shape and is_symbol(made) else made


def segments(ds: Dataset) -> str:
    return next(line for line in ds.explain().splitlines() if line.strip().startswith("map "))


def in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, so that it cannot be traced."""

    def plain(*given: Any) -> Any:
        for value in given:
            if isinstance(value, jax.core.Tracer) or is_symbol(value):
                raise TypeError("not for values of a trace")
        return function(*given)

    return plain


def same(first: Dataset, second: Dataset) -> None:
    assert first.element_spec == second.element_spec
    for a, b in itertools.zip_longest(first, second):
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            x, y = np.asarray(x), np.asarray(y)
            assert (x.dtype, x.shape, x.tolist()) == (y.dtype, y.shape, y.tolist())


def test_what_is_around_a_call_is_compiled():
    def function(i):
        x = i.astype(jnp.float32) + jnp.arange(6, dtype=jnp.float32)
        return jnp.cumsum(of_python(np.sort, -x, shape=(6,)))

    ds = Dataset.range(300).map(function)
    shown = segments(ds)
    assert shown.count("compiled") == 2 and "own (Python, row by row)" in shown
    same(ds, Dataset.range(300).map(in_python(function)))


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["int64", "float64", "float32", "uint8", "bool"]), min_size=1),
    st.integers(0, 70),
    st.sampled_from([None, 3]),
)
def test_as_all_of_it_in_python(kinds: list[str], rows: int, workers: int | None) -> None:
    columns = tuple((np.arange(2.0 * rows).reshape(rows, 2) * 7).astype(kind) for kind in kinds)
    total = np.dtype("float64")

    def function(*values):
        first, *_ = values
        made = of_python(lambda *given: sum(g.astype(total) for g in given), *values, shape=(2,))
        return {"sum": made, "first": first + first, "count": of_python(np.size, first)}

    ds = Dataset.from_tensor_slices(columns)
    if not rows:
        ds = Dataset.from_tensor_slices(tuple(np.ones((3, 2), kind) for kind in kinds)).take(0)
    made = ds.map(function, num_parallel_calls=workers)
    same(made, ds.map(in_python(function)))


def test_each_element_is_given_to_the_call_once_and_in_order():
    seen: list[int] = []

    def function(i):
        def note(value):
            seen.append(int(value))
            return value

        return of_python(note, i) * 2

    ds = Dataset.range(500).map(function)
    assert "own" in segments(ds)
    seen.clear()
    iterator = iter(ds)
    assert next(iterator) == 0
    assert seen == [0]
    assert [int(x) for x in iterator] == list(range(2, 1000, 2))
    assert seen == list(range(500))


def test_strings_and_rows_of_any_length_go_in_and_come_out():
    def function(text, numbers):
        shout = of_python(lambda value: np.asarray(value[()].upper(), object), text)
        more = of_python(lambda value: np.repeat(value, 2), numbers)
        image = of_python(lambda value: np.full((len(value), 2), 1.5, np.float32), numbers)
        return strings.length(shout), shout, more, image

    def rows():
        for i in range(20):
            yield b"x" * i, np.arange(i, dtype=np.int64)

    spec = (TensorSpec((), "string"), TensorSpec((None,), np.int64))
    ds = Dataset.from_generator(rows, output_signature=spec).map(function)
    assert "strings.length" in segments(ds)
    for i, (length, shout, more, image) in enumerate(ds):
        assert (length, shout) == (i, b"X" * i)
        assert more.tolist() == np.repeat(np.arange(i), 2).tolist()
        assert image.shape == (i, 2) and image.dtype == np.float32


def test_several_results_and_no_arguments():
    counter = itertools.count()

    def function(i):
        number, half = call_in_python(
            lambda: [np.int32(next(counter)), np.float32(0.5)], [], "counted"
        )
        return i + number, half

    ds = Dataset.range(5).map(function)
    assert "counted" in segments(ds)
    first = next(counter) + 1
    assert [int(x) - i for i, (x, _) in enumerate(ds)] == list(range(first, first + 5))


def test_errors_of_a_call_come_in_their_place_and_name_the_element():
    def function(i):
        def fragile(value):
            if value == 70:
                raise KeyError("seventy")
            return value

        return of_python(fragile, i) + 1

    ds = Dataset.range(100).map(function)
    assert "own" in segments(ds)
    rows = iter(ds)
    assert [int(next(rows)) for _ in range(70)] == list(range(1, 71))
    with pytest.raises(KeyError, match="seventy") as caught:
        next(rows)
    assert any("element 70" in note for note in caught.value.__notes__)
    assert len(list(ds.ignore_errors())) == 99


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (np.zeros((2, 2), np.float32), r"own returns an array of shape \(2, 2\) and dtype float32"),
        (np.zeros(2), "own returns an array of shape .* and dtype float64, where .* dtype float32"),
        (np.zeros(3, np.float32), "3 values cannot have the shape"),
    ],
)
def test_a_result_of_another_kind_than_before_is_an_error(changed: Any, message: str) -> None:
    def function(i):
        def made(value):
            return np.zeros(2, np.float32) if value < 40 else changed

        return of_python(made, i, shape=(2,)) + 1

    ds = Dataset.range(50).map(function)
    assert "own" in segments(ds)
    rows = iter(ds)
    for _ in range(40):
        next(rows)
    with pytest.raises(ValueError, match=message):
        next(rows)


def test_a_shape_that_an_element_has_not_is_an_error():
    def function(i):
        image = of_python(lambda v: np.zeros((2 + (v > 9), 3), np.float32), i)
        return ensured_shape(image, (2, 3)) if is_symbol(image) else image

    rows = iter(Dataset.range(20).map(function))
    for _ in range(10):
        assert next(rows).shape == (2, 3)
    with pytest.raises(ValueError, match=r"has the shape \(3, 3\), and was said to have \(2, 3\)"):
        next(rows)


def test_a_shape_that_does_not_fit_is_refused():
    def function(i):
        image = of_python(lambda v: np.zeros((2, 3)), i)
        return ensured_shape(image, (2, 3, 1)) if is_symbol(image) else image

    # It then runs as Python, where there is nothing to say of shapes.
    assert "runs as Python" in segments(Dataset.range(20).map(function))


def computes_with_an_open_shape(i):
    return of_python(np.atleast_1d, i) + 1


def draws_in_the_call(i):
    return of_python(lambda value: np.float32(value) * dl.random.uniform(()), i)


def calls_for_some(i):
    return of_python(np.negative, i) if isinstance(i, jax.core.Tracer) or i > 0 else i


def reads_a_value_of_the_trace(i):
    twice = i * 2
    return of_python(lambda value: np.asarray(value + np.asarray(twice)), i)


def returns_nothing(i):
    call_in_python(lambda value: [], [i], "own")
    return i


def ranks_differ(i):
    made = of_python(lambda value: np.zeros((1,) * (int(value) % 2)), i)
    return i if is_symbol(made) or made.ndim < 2 else made


@pytest.mark.parametrize(
    "function",
    [
        computes_with_an_open_shape,
        draws_in_the_call,
        calls_for_some,
        reads_a_value_of_the_trace,
        returns_nothing,
        ranks_differ,
    ],
)
def test_what_needs_all_of_it_in_python_runs_so(function: Callable[..., Any]) -> None:
    random.seed(5)
    ds = Dataset.range(9).map(function)
    assert "runs as Python" in segments(ds)
    made = [np.asarray(x).tolist() for x in ds]
    if function is not draws_in_the_call:
        assert made == [np.asarray(function(np.int64(i))).tolist() for i in range(9)]


def test_a_call_in_a_branch_that_jax_traces_is_refused():
    def function(i):
        return jax.lax.cond(i > 3, lambda v: of_python(np.negative, v), lambda v: v, i)

    with pytest.raises(TypeError, match="own is called inside of jax.jit, cond, scan"):
        Dataset.range(9).map(function)


def test_draws_beside_a_call_are_those_of_python():
    def function(i):
        noise = dl.random.uniform((3,))
        return of_python(lambda value: value * 2, noise, shape=(3,)) + dl.random.uniform(())

    random.seed(5)
    made = Dataset.range(9).map(function)
    random.seed(5)
    python = Dataset.range(9).map(in_python_by_state(function))
    assert "own" in segments(made) and "runs as Python" in segments(python)
    for a, b in zip(made, python, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def in_python_by_state(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which a state that changes keeps from being compiled."""
    calls = itertools.count()

    def counted(i):
        return function(i) + 1e-30 * next(calls)

    return counted


def test_the_state_of_an_iterator_is_restored_between_calls():
    def function(i):
        return of_python(lambda value: np.stack([value, value * value]), i, shape=(2,)) + 1

    ds = Dataset.range(100).map(function, num_parallel_calls=2).shuffle(20, seed=3)
    rows = iter(ds)
    for _ in range(33):
        next(rows)
    state = rows.state()
    rest = [row.tolist() for row in rows]
    again = iter(Dataset.range(100).map(function, num_parallel_calls=2).shuffle(20, seed=3))
    again.restore(state)
    assert [row.tolist() for row in again] == rest
    assert ds.fingerprint() == Dataset.range(100).map(function, 2).shuffle(20, seed=3).fingerprint()


def test_processes_run_all_of_it():
    def function(i):
        return of_python(lambda value: np.int64(os.getpid()), i) + 0 * i

    options = Options()
    options.python_workers = "processes"
    ds = Dataset.range(8).map(function, num_parallel_calls=2).with_options(options)
    pids = {int(pid) for pid in ds}
    assert os.getpid() not in pids


def test_slow_calls_are_not_made_ahead_of_what_is_asked_for():
    def function(i):
        def slow(value):
            asked.wait(0.03)
            seen.append(int(value))
            return value

        return of_python(slow, i) + 1

    asked = threading.Event()
    seen: list[int] = []
    ds = Dataset.range(1000).map(function)
    assert "own" in segments(ds)
    seen.clear()
    rows = iter(ds)
    for _ in range(4):
        next(rows)
    assert len(seen) <= 8
