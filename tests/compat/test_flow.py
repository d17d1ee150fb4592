"""Control flow given as functions, arrays of tensors, assertions and Python in functions."""

import jax
import numpy as np
import pytest

from drumline.compat import tf
from tests.compat.flow_functions import PROGRAMS, written_in_branches

EXPECTED = {
    "conditions": [0, 0, 50, 50],
    "cases": [10, 10, 10, 10, -1, -1],
    "switches": [-1, -1, 10, 10, 7, 7, 102, 102, -1, -1],
    "while_loops": [0, 1, 0, 1, 0, 0, 5, 32, 5, 32, 3, 3],
    "vectorized": [[[1 / 3, 2 / 3], [3 / 7, 4 / 7]]] * 2,
    "strings": [b"ABC!", b"ab", [1, 2], 5, b"4", b"same", 2, b"xABC!"],
    "python_values": [[3.0, 5.0], 6.0],
    "stores": [50, 0],
    "gradients": [12.0, 2.0, 64.0, 192.0, 4.0, 4.0, 100.0, 3.0],
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.filterwarnings("ignore:.*as Python")
def test_compiled_functions_give_what_eager_ones_give(program):
    found = program(tf)
    if program.__name__ in EXPECTED:
        for mine, wanted in zip(found, EXPECTED[program.__name__], strict=True):
            if mine.dtype == tf.string:
                assert mine.numpy() == wanted
            else:
                np.testing.assert_allclose(mine.numpy(), wanted, rtol=1e-6)
    elif program.__name__ == "folds":
        x = [5, 2, 9, 4]
        states = [x[0]]
        for each in x[1:]:
            states.append(states[-1] * 2 - each)
        assert found[0].numpy().tolist() == found[1].numpy().tolist() == states
    elif program.__name__ == "arrays":
        assert found[0].numpy().tolist() == [[0, 0], [1, 2], [2, 4], [3, 6]]
        assert found[2].numpy().tolist() == found[3].numpy().tolist() == [0, 0, 4, 0, 16]
        np.testing.assert_array_equal(found[0], found[1])


def test_arrays_of_tensors_that_branches_write_stay_compiled():
    # A function that ran as Python would warn, which is an error here.
    found = [each.numpy().tolist() for each in written_in_branches(tf)]
    assert found[0] == [0, 2, 0, 0, 0] and found[1] == [0, 0, 0, 0, 0]
    assert found[4] == [2, 2, 0, 0] and found[6] == [2, 2, 2, 2, 2, 2]
    assert found[8] == [0, 10, 2]


def test_assertions_of_compiled_functions_raise_after_they_ran():
    total = tf.Variable(0)

    @tf.function
    def add(x):
        tf.debugging.assert_less(x, 10, message="x is to be small")
        total.assign_add(x)
        return total.read_value()

    assert int(add(tf.constant(3))) == 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="x is to be small"):
        add(tf.constant(30))
    assert int(add(tf.constant(4))) == 37  # the error is raised once


def test_a_python_assertion_of_a_compiled_function_raises_with_its_line():
    @tf.function
    def checked(x):
        assert x < 10, "x is to be small"
        return x + 1

    assert int(checked(tf.constant(3))) == 4
    with pytest.raises(AssertionError, match="x is to be small") as caught:
        checked(tf.constant(30))
    line = checked.python_function.__code__.co_firstlineno + 2
    assert f'test_flow.py", line {line}, in checked' in caught.value.__notes__[0]


def test_lists_and_comprehensions_of_traced_length_run_as_python():
    @tf.function
    def odd(n):
        found = []
        for i in tf.range(n):
            if i % 2 == 0:
                continue
            found.append(i)
        return tf.stack(found)

    with pytest.warns(UserWarning, match=r"line \d+ changes the length.*'found'.*TensorArray"):
        assert odd(tf.constant(6)).numpy().tolist() == [1, 3, 5]

    @tf.function
    def squares(n):
        return tf.stack([i * i for i in tf.range(n)])

    @tf.function
    def shifted(n):
        return 10 - tf.range(n)

    for function, wanted in ((squares, [0, 1, 4]), (shifted, [10, 9, 8])):
        with pytest.warns(UserWarning, match=r"size of a tf\.range is known only"):
            assert function(tf.constant(3)).numpy().tolist() == wanted


def test_a_function_of_numbers_stays_compiled_when_strings_are_passed_once():
    runs = []

    @tf.function
    def either(x):
        runs.append(x)
        return tf.strings.length(x) if x.dtype == tf.string else x + 1

    with pytest.warns(UserWarning, match="holds strings"):
        assert int(either(tf.constant("abc"))) == 3
    assert int(either(tf.constant(1))) == 2
    traced = len(runs)
    assert int(either(tf.constant(5))) == 6
    assert len(runs) == traced


def test_an_assertion_in_a_branch_that_does_not_run_passes():
    @tf.function
    def guarded(x):
        if x > 0:
            tf.Assert(x < 5, [x])
        return x

    assert int(guarded(tf.constant(-9))) == -9
    with pytest.raises(tf.errors.InvalidArgumentError):
        guarded(tf.constant(9))


def test_a_branch_of_another_dtype_is_an_error_with_the_line():
    @tf.function
    def pick(x):
        return tf.cond(x > 0, lambda: 1, lambda: 2.0)

    with pytest.raises(TypeError, match=r"line \d+.*int32.*float32"):
        pick(tf.constant(1))


def test_loops_that_change_shapes_are_refused_or_run_as_python():
    def grow(n, options):
        x = tf.constant([1])
        for _ in tf.range(n):
            if options:
                tf.autograph.experimental.set_loop_options(
                    shape_invariants=[(x, tf.TensorShape([None]))]
                )
            x = tf.concat([x, x], 0)
        return x

    with pytest.raises(TypeError, match=r"line \d+ changes 'x'"):
        tf.function(lambda n: grow(n, False))(tf.constant(2))
    with pytest.warns(UserWarning, match="runs as Python"):
        assert tf.function(lambda n: grow(n, True))(tf.constant(2)).shape == [4]


def test_a_compiled_map_that_assigns_variables_is_refused():
    total = tf.Variable(0)

    @tf.function
    def count(x):
        return tf.map_fn(lambda each: total.assign_add(each).read_value(), x)

    with pytest.raises(NotImplementedError, match=r"assigns a variable.*tf\.range"):
        count(tf.constant([1, 2]))
    assert int(total) == 0


def test_the_source_of_a_converted_function_is_shown():
    def size(x):
        if x > 0:
            return 1
        return 2

    assert ".if_(" in tf.autograph.to_code(size)
    assert int(jax.jit(lambda x: tf.autograph.to_graph(size)(x))(3)) == 1
    with pytest.raises(ValueError, match="no Python function"):
        tf.autograph.to_code(len)


def test_switch_case_takes_numbers_from_zero_on():
    with pytest.raises(ValueError, match="contiguous"):
        tf.switch_case(0, {0: lambda: 1, 2: lambda: 2})
