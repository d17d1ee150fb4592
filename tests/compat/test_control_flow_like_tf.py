"""Control flow over tensors gives what TensorFlow's AutoGraph gives, where it is installed."""

import numpy as np
import pytest

from drumline.compat import tf as ours
from tests.compat.control_flow_programs import PROGRAMS

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)


# TensorFlow cannot return from a loop over a tensor.
COMPARED = [program for program in PROGRAMS if program.__name__ != "early_return"]


@pytest.mark.parametrize("program", COMPARED, ids=lambda program: program.__name__)
def test_results_are_equal(program):
    for mine, other in zip(program(ours), program(theirs), strict=True):
        assert mine.dtype.name == other.dtype.name
        np.testing.assert_array_equal(mine.numpy(), other.numpy())
