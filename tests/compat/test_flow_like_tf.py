"""Control flow given as functions gives what TensorFlow gives."""

import numpy as np
import pytest

from drumline.compat import tf as ours
from tests.compat.flow_functions import PROGRAMS

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.filterwarnings("ignore:.*as Python")
def test_results_are_equal(program):
    for mine, other in zip(program(ours), program(theirs), strict=True):
        assert mine.dtype.name == other.dtype.name
        assert mine.shape.as_list() == other.shape.as_list()
        if mine.dtype == ours.string:
            np.testing.assert_array_equal(mine.numpy(), other.numpy())
        else:
            np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-6)
