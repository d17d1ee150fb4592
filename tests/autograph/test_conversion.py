"""Functions with control flow: converted and traced they give what Python gives."""

import functools
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import drumline as dl
from drumline.autograph import convert, do_not_convert
from drumline.distribute.functions.staged_loop import Loops


def early_return(x):
    if x > 3:
        return x * 2
    if x < 0:
        return -x
    return x + 1


def elif_chain(x):
    if x < 0:
        y = 1
    elif x < 5:
        y = 2
    elif x < 7 or x == 9:
        y = 3
    else:
        y = 4
    return y + x


def while_break(x):
    n = 0
    while x > 0:
        x = x - 3
        n += 1
        if n == 2:
            break
    return x * 10 + n


def while_continue(x):
    total = 0
    i = 0
    while i < x:
        i += 1
        if i % 2 == 0:
            continue
        total += i
    return total


def return_in_loop(x):
    for i in range(x):
        if i * i > 10:
            return i
    return -1


def loop_else(x):
    y = 0
    for i in range(x):
        if i == 4:
            y = 100
            break
    else:
        y = 7
    return y


def nested(x):
    total = 0
    for i in range(x):
        j = 0
        while j < i:
            if j == 3:
                break
            total += 1 if j % 2 == 0 else 2
            j += 1
        if total > 12:
            break
    return total


def bools(x):
    return (x if (x > 1 and not x == 3) or x == -1 else 0) + (1 if 0 < x < 5 <= 5 else 0)  # noqa: SIM201


def helper(x, by=2):
    if x % by == 0:
        return x // by
    return 3 * x + 1


def calls(x):
    steps = 0
    while x > 1:
        x = helper(x)
        steps += 1
    return steps


def closures(x):
    total = 0

    def add(value):
        nonlocal total
        if value > 2:
            total += value
        else:
            total -= value

    for i in range(x):
        add(i)
    return total


def python_loop_traced_break(x):
    y = 0
    for i in [1, 2, 3, 4]:
        if i > x:
            break
        y += i
    return y


class Scaled:
    def __init__(self, by):
        self.by = by

    def scale(self, x):
        return x * self.by if x > 2 else x

    def __call__(self, x):
        if self.scale(x) > 5:
            return 1
        return 0


def with_object(x):
    return Scaled(2)(x) + Scaled(3).scale(x)


def try_with(x):
    try:
        if x > 2:
            return x
    finally:
        x = x + 1
    return -x


PROGRAMS = [
    early_return, elif_chain, while_break, while_continue, return_in_loop, loop_else, nested,
    bools, calls, closures, python_loop_traced_break, with_object, try_with,
    lambda x: 1 if x > 2 else 0,
    functools.partial(helper, by=3),
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_traced_gives_what_python_gives(program):
    converted = convert(program)
    compiled = jax.jit(converted)
    for x in range(-2, 10):
        expected = program(x)
        assert converted(x) == expected
        assert compiled(jnp.int32(x)) == expected, x


def test_loop_over_an_array_with_break_has_a_gradient():
    def f(values):
        total = 0.0
        for value in values:
            if value > 3:
                break
            total += value * value
        return total

    values = np.array([1.0, 2.0, 5.0, 1.0], np.float32)
    assert jax.jit(convert(f))(values) == 5
    np.testing.assert_array_equal(jax.grad(convert(f))(values), [2, 4, 0, 0])


def test_a_name_of_one_branch_only_is_an_error_that_names_it():
    def f(x):
        if x > 0:
            only_here = x
        return only_here

    with pytest.raises(NameError, match="only_here") as caught:
        jax.jit(convert(f))(1)
    lines = [f.lineno for f in traceback.extract_tb(caught.tb) if f.filename == __file__]
    assert f.__code__.co_firstlineno + 3 in lines


def test_errors_point_at_the_users_line():
    def f(x):
        while x > 0:
            if x > 1:
                raise ValueError("here")
            x -= 1
        return x

    with pytest.raises(ValueError, match="here") as caught:
        convert(f)(2)
    last = traceback.extract_tb(caught.tb)[-1]
    assert (last.filename, last.lineno) == (__file__, f.__code__.co_firstlineno + 3)


def test_what_changes_shape_or_dtype_is_named():
    def grows(x):
        y = jnp.zeros(1)
        while x > 0:
            y = jnp.concatenate([y, y])
            x -= 1
        return y

    def differs(x):
        if x > 0:  # noqa: SIM108
            y = jnp.zeros(2)
        else:
            y = jnp.zeros(3)
        return y

    for f in (grows, differs):
        with pytest.raises(TypeError, match="'y'.*float32"):
            jax.jit(convert(f))(1)


def test_a_list_in_a_traced_loop_is_refused():
    def f(x):
        found = []
        for i in range(x):
            found.append(i)  # noqa: PERF402
        return found

    assert convert(f)(2) == [0, 1]
    with pytest.raises(TypeError, match="'found'"):
        jax.jit(convert(f))(2)


def test_a_range_of_traced_limits_is_for_loops_alone():
    with pytest.raises(TypeError, match=r"only a `for` statement can go over it.*comprehension"):
        jax.jit(convert(lambda n: [i + 1 for i in range(n)]))(2)


def test_a_refused_change_of_a_list_is_undone():
    held = [1, 2]

    def f(x):
        while x > 0:
            held.pop()
            x -= 1
        return x

    with pytest.raises(TypeError, match="'held'"):
        jax.jit(convert(f))(2)
    assert held == [1, 2]


def test_not_all_paths_return():
    def f(x):
        if x > 0:
            return x

    assert convert(f)(-1) is None
    with pytest.raises(ValueError, match="all paths"):
        jax.jit(convert(f))(1)


def test_what_is_not_converted():
    @do_not_convert
    def as_written(x):
        return 1 if x > 0 else 0

    def generator(x):
        while x:
            yield x

    assert convert(as_written) is as_written
    assert convert(generator) is generator
    assert convert(jnp.sum) is jnp.sum
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.jit(convert(lambda x: as_written(x)))(1)


def test_variables_are_written_in_branches_and_loops():
    variable = dl.Variable(jnp.float32(0))

    def f(x):
        if x > 2:
            variable.assign(x * 1.0)
        for _ in range(x):
            variable.assign_add(2.0)
        return variable.value + 0

    compiled = dl.function(convert(f))
    assert compiled(jnp.int32(3)) == 9
    assert variable.numpy() == 9
    assert compiled(jnp.int32(1)) == 11
    assert variable.numpy() == 11


def test_loops_over_datasets_are_staged():
    def f(dataset):
        total = jnp.zeros((), jnp.int32)
        for batch in dataset:
            for value in batch:
                if value % 2 == 0:
                    total += value
        return total

    loops = Loops("f")
    converted = convert(f, loops=loops)
    dataset = dl.data.Dataset.range(10).batch(3)
    assert converted(dataset) == 20
    assert loops._programs


def test_items_attributes_and_lists_are_not_changed_by_a_traced_branch():
    def item(x):
        found = {"a": 0}
        if x > 2:
            found["a"] = 5
        return found["a"]

    def attribute(x):
        item.holder = 0
        while x > 2:
            item.holder = x
            x -= 1
        return item.holder

    def appended(x):
        found = []
        if x > 2:
            found.append(x)
        return len(found)

    def looped(x):
        found = {"a": 0}
        for i in range(x):
            found["a"] = i
        return found["a"]

    refused = [(item, "found"), (attribute, "item.holder"), (appended, "'found'")]
    for f, text in [*refused, (looped, "found")]:
        assert convert(f)(1) == 0
        with pytest.raises(TypeError, match=text):
            jax.jit(convert(f))(1)


def test_objects_are_not_changed_by_a_traced_loop():
    def f(x):
        text = "before"
        while x > 0:
            text = "after"
            x -= 1
        return len(text)

    assert convert(f)(1) == 5
    with pytest.raises(TypeError, match="'text'"):
        jax.jit(convert(f))(1)


def test_none_is_returned_from_a_traced_loop():
    def f(x):
        for i in range(x):
            if i > 2:
                return None
        return None

    assert jax.jit(convert(f))(4) is None
