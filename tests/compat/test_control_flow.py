"""Control flow over tensors, in functions, steps and maps."""

import pytest

import drumline as dl
from drumline.compat import tf
from tests.compat.control_flow_programs import PROGRAMS

EXPECTED = {
    "branch": [[2.0, 4.0], [-2.0]],
    "loops": [100, 100],
    "early_return": [-2.0, 0.0, -5.0],
    "called_functions": [1, 2, 3, 4, 5, 6, 6, 6],
    "while_in_map": [0, 1, 7, 2, 5, 8, 16, 3],
    "over_dataset": [12],
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_give_what_python_gives(program):
    found = [value.numpy().tolist() for value in program(tf)]
    assert found == EXPECTED[program.__name__]


def test_maps_with_control_flow_are_compiled():
    dataset = tf.data.Dataset.range(4).map(lambda x: x + 1 if x % 2 == 0 else x * 10)
    assert [int(x) for x in dataset] == [1, 10, 3, 30]
    assert "Python" not in dl.data.Dataset.range(4).map(lambda x: x + 1).explain()


def test_a_name_that_one_branch_alone_assigns_is_an_error_with_the_name():
    @tf.function
    def partial(x):
        if x > 0:
            only_here = x
        return only_here

    with pytest.raises(Exception, match="only_here"):
        partial(tf.constant(1.0))
