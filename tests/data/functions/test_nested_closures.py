"""Functions inside datasets' functions that read the outer element: one program for all of them."""

import functools
import itertools
import json

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.data import Dataset
from drumline.data.functions import build, recurrence
from drumline.data.functions.closures import ClosureFlattener

OUTER = {
    "int64": np.arange(-1, 4),
    "int32": np.arange(-1, 4, dtype=np.int32),
    "uint8": np.arange(5, dtype=np.uint8),
    "float32": np.linspace(-1, 2, 5, dtype=np.float32),
    "float64": np.linspace(-1, 2, 5),
    "rows": np.arange(10, dtype=np.float32).reshape(5, 2) / 7,
    "dict": {"a": np.arange(5), "b": np.linspace(0, 1, 5, dtype=np.float32)},
}
INNER = {
    "range": lambda: Dataset.range(5),
    "float32": lambda: Dataset.from_tensor_slices(np.linspace(0, 1, 5, dtype=np.float32)),
    "uint8": lambda: Dataset.from_tensor_slices(np.arange(5, dtype=np.uint8)),
    "pairs": lambda: Dataset.from_tensor_slices((np.arange(3), np.ones(3, np.float32))).map(
        lambda i, f: i * f
    ),
}


def number(x):
    """A number of an element, whatever its structure is."""
    return x["a"] if isinstance(x, dict) else x.reshape(-1)[0]


def shifted(y, by):
    return y + by


FUNCTIONS = {
    "plus": lambda x: lambda y: y + number(x),
    "both": lambda x: lambda y: (y, x),
    "default": lambda x: lambda y, x=x: y * number(x) + 1,
    "derived": lambda x: (lambda d: lambda y: y - d)(number(x) * 3),
    "python": lambda x: (lambda d: lambda y: y * d)(int(number(x))),
    "float": lambda x: (lambda d: lambda y: jnp.minimum(y, d))(float(number(x))),
    "partial": lambda x: functools.partial(shifted, by=number(x)),
    "branch": lambda x: lambda y: y + 1 if number(x) > 1 else y - 1,
    "array": lambda x: (lambda a: lambda y: y * a)(np.array([number(x), 2])),
    "tuple": lambda x: (lambda t: lambda y: jnp.where(y > t[0], y, t[1]))((number(x), 7)),
    "text": lambda x: (lambda s: lambda y: (s, y))(str(number(x)).encode()),
    "divided": lambda x: lambda y: y / number(x),
}


def leaves(element):
    parts = element if isinstance(element, tuple) else (element,)
    for part in parts:
        yield from part.values() if isinstance(part, dict) else (part,)


def same_kinds(found, wanted):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        for x, y in zip(leaves(a), leaves(b), strict=True):
            assert np.asarray(x).dtype == np.asarray(y).dtype
            if isinstance(x, bytes):
                assert x == y
            else:
                np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def program(dataset):
    run = dataset._plan.function.run
    return id(getattr(run, "compiled", run))


def bits(elements):
    return [[np.asarray(leaf).tobytes() for leaf in leaves(e)] for e in elements]


@given(
    st.sampled_from(sorted(OUTER)),
    st.sampled_from(sorted(INNER)),
    st.sampled_from(sorted(FUNCTIONS)),
    st.sampled_from(["flat_map", "interleave", "parallel"]),
    st.integers(0, 26),
)
def test_elements_are_those_of_constants(outer, inner, function, operation, position):
    def of(x):
        return INNER[inner]().map(FUNCTIONS[function](x))

    def make():
        ds = Dataset.from_tensor_slices(OUTER[outer])
        if operation == "flat_map":
            return ds.flat_map(of)
        return ds.interleave(of, 3, 2, num_parallel_calls=2 if operation == "parallel" else None)

    with np.errstate(all="ignore"):
        elements = list(make())
        if operation == "flat_map":
            # Outside of the function each is compiled by itself, with a constant.
            few = Dataset.from_tensor_slices(OUTER[outer]).take(2)
            alone = [e for x in few for e in of(x)]
            same_kinds(elements[: len(alone)], alone)
        iterator = iter(make())
        head = list(itertools.islice(iterator, position))
        again = iter(make())
        again.restore(json.loads(json.dumps(iterator.state())))
        assert bits([*head, *again]) == bits(elements)


@given(st.sampled_from(["int64", "int32", "uint8"]), st.integers(0, 30), st.booleans())
def test_filters_read_the_outer_element(outer, position, mapped):
    def of(x):
        ds = Dataset.range(4)
        return (ds.map(lambda y: y + x) if mapped else ds).filter(lambda y: (y + x) % 3 != 0)

    ds = Dataset.from_tensor_slices(OUTER[outer]).flat_map(of)
    values = [(int(x), y + int(x) * mapped) for x in OUTER[outer] for y in range(4)]
    expected = [y for x, y in values if (y + x) % 3]
    assert [int(v) for v in ds] == expected
    iterator = iter(ds)
    head = [int(v) for v in itertools.islice(iterator, position)]
    again = iter(Dataset.from_tensor_slices(OUTER[outer]).flat_map(of))
    again.restore(iterator.state())
    assert head + [int(v) for v in again] == expected


def test_one_program_for_all_outer_elements():
    seen = set()

    def of(x):
        inner = Dataset.range(3).map(lambda y: y + x)
        seen.add(program(inner))
        return inner

    ds = Dataset.range(200).flat_map(of)
    seen.clear()
    assert [int(v) for v in ds] == [x + y for x in range(200) for y in range(3)]
    assert len(seen) == 1


def test_a_value_beyond_32_bits_is_exact():
    ds = Dataset.from_tensor_slices(np.array([1, 2**40, -(2**50)])).flat_map(
        lambda x: Dataset.range(2).map(lambda y: (y + x, y + int(x)))
    )
    expected = [(v, v) for x in (1, 2**40, -(2**50)) for v in (x, x + 1)]
    assert [(int(a), int(b)) for a, b in ds] == expected


def test_errors_stay_in_their_places():
    def of(x):
        return Dataset.range(3).map(lambda y: y // x)

    iterator = iter(Dataset.from_tensor_slices(np.array([1, 0, 2])).flat_map(of))
    found = []
    while True:
        try:
            found.append(int(next(iterator)))
        except StopIteration:
            break
        except ZeroDivisionError:
            found.append("zero")
    assert found == [0, 1, 2, "zero", "zero", "zero", 0, 0, 1]


def test_windows_of_keys_are_mapped_by_one_program():
    ds = Dataset.range(40).group_by_window(
        lambda v: v % 4, lambda key, w: w.map(lambda v: v * 10 + key).batch(5), window_size=5
    )
    expected = [
        [10 * v + k for v in range(k + 20 * i, 40, 4)][:5] for i in (0, 1) for k in range(4)
    ]
    assert [batch.tolist() for batch in ds] == expected


def test_a_large_table_is_compared_by_its_content():
    table = np.arange(5000)
    traced = []

    def of(x):
        inner = Dataset.range(2).map(lambda y: jnp.asarray(table)[x + y])
        traced.append(program(inner))
        return inner

    ds = Dataset.range(30).flat_map(of)
    traced.clear()
    assert [int(v) for v in ds] == [x + y for x in range(30) for y in range(2)]
    assert len(set(traced)) == 1
    table += 1
    assert [int(v) for v in ds] == [x + y + 1 for x in range(30) for y in range(2)]


def test_draws_beside_values_of_the_outer_element():
    from drumline import random

    def make():
        return Dataset.range(6).flat_map(
            lambda x: Dataset.range(4).map(lambda y: x + random.uniform(()), name="draw")
        )

    ds = make()
    elements = [float(v) for v in ds]
    assert [int(v) for v in elements] == [x for x in range(6) for _ in range(4)]
    assert len(set(elements)) == 24


@pytest.mark.parametrize("count", range(0, 25, 3))
def test_states_do_not_depend_on_what_was_computed_together(count):
    def make():
        return Dataset.range(5).interleave(
            lambda x: Dataset.range(5).map(lambda y: 10 * x + y).shuffle(3, seed=4), 2, 2
        )

    whole = [int(v) for v in make()]
    one_by_one = iter(make())
    head = [int(next(one_by_one)) for _ in range(count)]
    again = iter(make())
    again.restore(one_by_one.state())
    assert head + [int(v) for v in again] == whole


def test_what_a_function_shares_with_others_is_no_argument():
    shared = 3

    def outer(x):
        own = x * 2
        return lambda y: y + own + shared

    closure = ClosureFlattener(outer).taken_apart(outer(np.int64(4)))
    assert [int(value.array) for value in closure.values] == [8]
    assert closure.bound({0: 5})(1) == 9


def test_an_array_of_the_outer_element_is_indexed_by_inner_ones():
    rows = np.arange(24).reshape(4, 6) * 1.5
    found = []

    def of(row):
        inner = Dataset.range(0, 5, 2).map(lambda start: row[start + np.arange(2)])
        found.append(inner._plan.function.is_python)
        return inner

    ds = Dataset.from_tensor_slices(rows).interleave(of, 2)
    found.clear()
    expected = [rows[i + j, s : s + 2].tolist() for i in (0, 2) for s in (0, 2, 4) for j in (0, 1)]
    elements = list(ds)
    assert [e.tolist() for e in elements] == expected and elements[0].dtype == rows.dtype
    # Outside of the function numpy's array is a constant, which no traced number can index.
    assert found == [False] * 4
    outside = Dataset.from_tensor_slices(rows).flat_map(
        lambda row: Dataset.range(3).map(lambda start: row[start + np.arange(5)])
    )
    iterator = iter(outside)
    next(iterator)
    next(iterator)
    with pytest.raises(IndexError):
        next(iterator)


def test_outer_functions_are_called_about_as_far_as_elements_are_asked_for():
    calls = []

    def of(x):
        calls.append(int(x))
        return Dataset.range(3).map(lambda y: y + x)

    ds = Dataset.range(1000).flat_map(of)
    calls.clear()
    assert [int(v) for v in ds.take(10)] == [x + y for x in range(4) for y in range(3)][:10]
    assert len(calls) <= 10


def test_an_array_that_is_filled_again_is_read_as_it_was():
    shared = np.zeros(2, np.int64)

    def of(x):
        own = shared
        own[:] = (x, x * 10)
        return Dataset.range(3).map(lambda y: own.sum() + y)

    def of_an_element(x):
        own = shared
        own[:] = (x, x * 10)
        return Dataset.range(3).map(lambda y: own[y % 2] + y)

    numbers = range(20)
    assert [int(v) for v in Dataset.range(20).flat_map(of)] == [
        11 * x + y for x in numbers for y in range(3)
    ]
    assert [int(v) for v in Dataset.range(20).flat_map(of_an_element)] == [
        (x, 10 * x)[y % 2] + y for x in numbers for y in range(3)
    ]


def traces_of(monkeypatch):
    """The functions that were traced, in order."""
    found = []
    whole = build._traced

    def noted(user, source):
        found.append(user.name)
        return whole(user, source)

    monkeypatch.setattr(build, "_traced", noted)
    return found


def test_what_cannot_be_traced_for_any_outer_element_is_traced_for_the_first(monkeypatch):
    found = traces_of(monkeypatch)

    def of(x):
        offset = x * 2
        return Dataset.range(3).map(lambda y: np.int64(int(y) + offset))

    ds = Dataset.range(40).flat_map(of)
    assert [int(v) for v in ds] == [y + 2 * x for x in range(40) for y in range(3)]
    assert len(found) < 10


@pytest.mark.parametrize("line", ["another", "the same"])
def test_what_can_be_traced_for_some_outer_elements_is_compiled_for_these(line, monkeypatch):
    inner = np.arange(3, dtype=np.float32)

    def of(x):
        def function(y):
            if line == "the same":
                return y + (float(x) > 2 and np.float32(float(y)))
            return y + np.float32(float(y)) if float(x) > 2 else y

        return Dataset.from_tensor_slices(inner).map(function)

    kinds = []
    whole = build._RedefinedFunction.built

    def noted(nested):
        made = whole(nested)
        kinds.append(made.is_python)
        return made

    monkeypatch.setattr(build._RedefinedFunction, "built", noted)
    outer = np.array([5, 4, 3, 2, 1, 0], np.float32)
    found = [float(v) for v in Dataset.from_tensor_slices(outer).flat_map(of)]
    assert found == [2 * y if x > 2 else y for x in outer for y in inner]
    assert kinds[-6:] == [x > 2 for x in outer]


@pytest.fixture
def loops(monkeypatch):
    """The loops that were compiled, of all scans and reductions."""
    found = []
    loop = recurrence.LoopProgram._loop

    def noted(self, *arguments):
        found.append(self)
        return loop(self, *arguments)

    monkeypatch.setattr(recurrence.LoopProgram, "_loop", noted)
    return found


# Each from an outer element to a function of a total and an element, for JAX and for Python.
WITH_STATE = {
    "plus": lambda x: lambda s, y: (s + y * x, s + x),
    "python": lambda x: (lambda d: lambda s, y: (s + d, y * d))(int(x)),
    "branch": lambda x: lambda s, y: (s + (1 if x > 1 else 2), y),
    "array": lambda x: (lambda a: lambda s, y: (s + a[0] * y, a))(np.array([x, 2])),
    "passed": lambda x: lambda s, y: (x, s),
    "text": lambda x: (lambda text: lambda s, y: (s + y, text))(str(x).encode()),
    "some": lambda x: (
        lambda a, size: lambda s, y: (s + jnp.zeros(size).shape[0] * a.astype(np.int64), y)
    )(x, 3),
}


@pytest.mark.parametrize("name", WITH_STATE)
def test_scans_that_read_the_outer_element_share_one_loop(name, loops):
    function = WITH_STATE[name]
    inner = Dataset.range(5)
    ds = Dataset.range(-1, 7).flat_map(lambda x: inner.scan(np.int64(0), function(x)))
    found, wanted = list(ds), []
    for x in np.arange(-1, 7):
        state = np.int64(0)
        for y in np.arange(5):
            state, result = function(x)(state, y)
            wanted.append(result)
    same_kinds(found, wanted)
    # A branch on the value is taken by a program of its own.
    assert len(set(map(id, loops))) <= (8 if name == "branch" else 1)
    assert loops
    iterator = iter(ds)
    head = [next(iterator) for _ in range(17)]
    again = iter(ds)
    again.restore(json.loads(json.dumps(iterator.state())))
    same_kinds(head + list(again), wanted)


def test_reductions_that_read_the_outer_element_share_one_loop(loops):
    def total(x):
        result = Dataset.range(5).reduce(np.int64(0), lambda s, y: s + y * x)
        return Dataset.from_tensors(result)

    ds = Dataset.range(9).flat_map(total)
    loops.clear()  # Of the call that shows which elements there are.
    assert [int(value) for value in ds] == [10 * x for x in range(9)]
    assert len(set(map(id, loops))) <= 1


def test_a_scan_in_a_nested_dataset_fails_as_outside_of_one():
    ds = Dataset.range(1, 4).flat_map(
        lambda x: Dataset.range(3).scan(np.int64(0), lambda s, y: (s + 1, 6 // (2 - x * y)))
    )
    iterator = iter(ds)
    assert [int(next(iterator)) for _ in range(2)] == [3, 6]
    with pytest.raises(ZeroDivisionError, match="integer division by zero"):
        next(iterator)


def test_an_array_that_is_filled_again_does_not_change_a_scan_that_was_defined_before():
    values = np.zeros(1, np.int64)

    def inner(x):
        values[0] = x
        own = values[:]
        return Dataset.range(2).scan(np.int64(0), lambda s, y: (s + own[0], s + own[0]))

    ds = Dataset.range(1, 5).interleave(inner, cycle_length=4)
    assert [int(value) for value in ds] == [1, 2, 3, 4, 2, 4, 6, 8]
