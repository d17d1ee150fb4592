"""Whether functions are the same: by identity, by value, and as parts of a digest."""

import dataclasses
import functools
import itertools
import math
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from drumline import _function_identity as identity
from drumline._function_identity import (
    LIFTED,
    UNSET,
    Incomparable,
    ValueKeys,
    copy_function,
    function_key,
    globals_named,
    globals_read,
    python_runs_once,
    reads_of,
)
from drumline.data.plan.digest import Digest, put

factor = 2.0
counter = 0


class Model:
    factor = 3.0

    def __init__(self, by=1):
        self.by = by

    def step(self, x):
        return x * self.by


@dataclasses.dataclass(frozen=True)
class Settings:
    rate: float


def over(value):
    return lambda x: (x, value)


def by_default(value):
    return lambda x, given=value: (x, given)


def by_keyword(value):
    return lambda x, *, given=value: (x, given)


def by_partial(value):
    return functools.partial(lambda given, x: (given, x), value)


def by_partial_keyword(value):
    return functools.partial(lambda x, given: (given, x), given=value)


def in_nested(value):
    def outer(x):
        def inner():
            return value

        return inner() + x

    return outer


def by_helper(value):
    def helper(x):
        return x, value

    return lambda x: helper(x)


def by_decorator(value):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(x):
            return function(x), value

        return wrapper

    @decorate
    def decorated(x):
        return x

    return decorated


def recursive(value):
    def down(n):
        return value if n == 0 else down(n - 1)

    return down


HOLDERS = [
    over,
    by_default,
    by_keyword,
    by_partial,
    by_partial_keyword,
    in_nested,
    by_helper,
    by_decorator,
    recursive,
]
# By value and by digest a function that refers to itself is followed to a depth, or to itself.
BY_VALUE = [holder for holder in HOLDERS if holder is not recursive]


def key(function):
    with python_runs_once():
        return function_key(function)


def value_key(function, **options):
    return ValueKeys(**options).key(function, [])


def digest(function):
    made = Digest()
    put(function, made)
    return made.result()


numbers = st.one_of(
    st.booleans(),
    st.integers(-5, 5),
    st.floats(allow_nan=True),
    st.text(max_size=2),
    st.binary(max_size=2),
    st.none(),
    st.sampled_from([np.float32(0), np.float64(0), np.int64(0), np.int32(1), np.float32("nan")]),
)


def same_constant(a, b):
    """Whether type and bits are the same; -0.0 is not 0.0, and a nan is itself."""
    if type(a) is not type(b):
        return False
    return a.tobytes() == b.tobytes() if isinstance(a, np.generic) else repr(a) == repr(b)


@pytest.mark.parametrize("holder", HOLDERS)
@given(a=numbers, b=numbers)
def test_functions_are_the_same_by_identity_if_their_constants_are(holder, a, b):
    assert (key(holder(a)) == key(holder(b))) == same_constant(a, b)
    assert key(holder(a)) == key(holder(a))
    assert hash(key(holder(a))) == hash(key(holder(a)))


@pytest.mark.parametrize("holder", BY_VALUE)
@given(a=numbers, b=numbers)
def test_functions_are_the_same_by_value_if_their_constants_are(holder, a, b):
    assert (value_key(holder(a)) == value_key(holder(b))) == same_constant(a, b)


@pytest.mark.parametrize("holder", HOLDERS)
@given(a=numbers, b=numbers)
def test_digests_are_the_same_if_constants_are(holder, a, b):
    # A scalar of numpy's and an array without axes are one to a digest, by dtype, shape and bits.
    assert (digest(holder(a)) == digest(holder(b))) == same_constant(a, b)


small_arrays = arrays.arrays(
    st.sampled_from([np.int8, np.float32]), st.sampled_from([(), (2,), (1, 2)]), fill=st.just(0)
)


@pytest.mark.parametrize("holder", BY_VALUE)
@given(a=small_arrays, b=small_arrays)
def test_arrays_count_by_value_by_bits(holder, a, b):
    same = (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    assert (value_key(holder(a)) == value_key(holder(b))) == same
    assert (digest(holder(a)) == digest(holder(b))) == same
    assert key(holder(a)) == key(holder(a))
    assert key(holder(a)) != key(holder(a.copy()))


def test_large_arrays_are_compared_with_what_they_were():
    array = np.zeros(10_000)
    keys = ValueKeys()
    before = keys.key(over(array), [])
    assert keys.key(over(array), []) == before
    array[-1] = 1
    after = keys.key(over(array), [])
    assert after != before
    assert keys.key(over(array), []) == after
    assert keys.key(over(array.copy()), []) != after  # only the same object is compared again


def test_what_changes_inside_is_the_same_by_identity_alone():
    things = [1]
    function = over(things)
    by_identity, by_value, digested = key(function), value_key(function), digest(function)
    things.append(2)
    assert key(function) == by_identity
    assert value_key(function) != by_value
    assert digest(function) != digested


def test_attributes_of_objects():
    model = Model()
    function, method = over(model), over(model.step)
    before, digested = key(function), digest(function)
    assert key(over(model.step)) == key(method) != key(over(Model().step))
    model.by = 2
    assert key(function) == before
    assert digest(function) != digested
    for incomparable in (function, method):
        with pytest.raises(Incomparable):
            value_key(incomparable)


def test_a_global_that_is_bound_anew_makes_another_function(monkeypatch):
    def make():
        return lambda x: x * factor

    found = [kind(make()) for kind in (key, value_key, digest)]
    assert found == [kind(make()) for kind in (key, value_key, digest)]
    monkeypatch.setitem(globals(), "factor", 4.0)
    for kind, before in zip((key, value_key, digest), found, strict=True):
        assert kind(make()) != before


def test_an_attribute_named_like_a_global_reads_no_global(monkeypatch):
    def make():
        return lambda model: model.factor

    found = [kind(make()) for kind in (key, value_key, digest)]
    monkeypatch.setitem(globals(), "factor", object())
    assert found == [kind(make()) for kind in (key, value_key, digest)]


def test_a_missing_global_that_appears_makes_another_function(monkeypatch):
    def make():
        return lambda x: appears_later(x)  # noqa: F821

    found = [kind(make()) for kind in (key, value_key, digest)]
    monkeypatch.setitem(globals(), "appears_later", math.sqrt)
    for kind, before in zip((key, value_key, digest), found, strict=True):
        assert kind(make()) != before


def test_functions_of_a_module_count_by_identity_for_steps():
    with python_runs_once():
        assert function_key(over) == function_key(over)
        assert function_key(over) != function_key(by_default)


def test_a_recursive_function_is_not_followed_for_ever():
    assert key(recursive(1)) == key(recursive(1))
    with pytest.raises(Incomparable):
        value_key(recursive(1))
    assert digest(recursive(1)) == digest(recursive(1))


def test_outside_of_a_traced_function_no_two_are_known_to_be_the_same():
    assert function_key(over(1)) is None
    with pytest.raises(ValueError, match="stop"), python_runs_once():
        raise ValueError("stop")
    assert function_key(over(1)) is None


def test_other_callables_have_no_key():
    for other in (len, math.sqrt, np.add, Model().step, Model, functools.partial(len)):
        assert key(other) is None


def test_functions_of_libraries_and_in_c():
    for function in (len, math.sqrt, np.add, np.linspace, int):
        assert key(over(function)) == key(over(function))
        assert value_key(over(function)) == value_key(over(function))
        assert digest(over(function)) == digest(over(function))
    assert len({digest(over(f)) for f in (len, math.sqrt, np.add, np.linspace, int)}) == 5
    bound = [[1].append, [2].append]
    assert digest(over(bound[0])) != digest(over(bound[1]))
    assert key(over(bound[0])) != key(over(bound[1]))


def test_frozen_records_are_compared_field_by_field():
    records = [lambda rate=rate: rate for rate in (Settings(0.5), Settings(0.5), Settings(0.6))]
    shared = frozenset(map(id, records))
    first, second, third = (value_key(function, shared=shared) for function in records)
    assert first == second != third


def test_what_is_lifted_is_left_to_the_caller():
    def lift(value):
        return (value,) if isinstance(value, int) else None

    lifted = []
    key_of_one = ValueKeys(lift=lift).key(over((1, "a")), lifted)
    assert lifted == [(1,)]
    assert key_of_one == ValueKeys(lift=lift).key(over((2, "a")), [])
    assert key_of_one != ValueKeys(lift=lift).key(over((2, "b")), [])
    assert LIFTED in itertools.chain(*(part for part in key_of_one if isinstance(part, tuple)))


def test_cells_that_are_shared_are_not_lifted():
    outer_value = 1

    def outer():
        return lambda x: x + outer_value

    lifted = []
    keys = ValueKeys(
        shared=identity.shared_by(outer),
        lift=lambda value: value if isinstance(value, int) else None,
    )
    keys.key(outer(), lifted)
    assert lifted == []


def test_parts_are_listed_with_names_and_kinds():
    value = 1

    def function(a, b=2, *rest, c=3):
        return value, factor, math, missing_name, later  # noqa: F821

    found = [read[:3] for read in reads_of(function)]
    assert found == [
        ("cell", "later", UNSET),
        ("cell", "value", 1),
        ("default", "b", 2),
        ("default", "c", 3),
        ("global", "factor", 2.0),
        ("global", "math", math),
        ("global", "missing_name", UNSET),
    ]
    later = None
    assert reads_of(function)[0][:3] == ("cell", "later", later)


def test_globals_of_code_inside_code():
    def function():
        global counter
        counter = 1

        class Local:
            held = factor

        return [math.pi for _ in range(3)], Local

    assert set(globals_read(function.__code__)) >= {"factor", "math", "range"}
    assert "counter" not in globals_read(function.__code__)
    assert "pi" not in globals_read(function.__code__)
    assert globals_named(function.__code__) >= {"counter", "factor", "math"}


@given(value=st.integers(), default=st.integers(), keyword=st.integers())
def test_a_copy_does_the_same(value, default, keyword):
    def function(a, b=default, *, c=keyword):
        """Add."""
        return a, b, c, value

    copy = copy_function(function, closure=function.__closure__)
    assert copy(1) == function(1) and copy.__qualname__ == function.__qualname__
    other = copy_function(
        function, closure=(types.CellType(7),), defaults=(8,), kwdefaults={"c": 9}
    )
    assert other(1) == (1, 8, 9, 7) and function(1) == (1, default, keyword, value)
