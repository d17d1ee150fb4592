"""Each operation of ``tf.raw_ops`` that is there gives what TensorFlow's gives."""

import numpy as np
import pytest

from drumline.compat import tf as ours
from drumline.compat.symbols.raw_ops import operations
from tests.compat.raw_ops_cases import OWN, arguments_of

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

TOLERANCES = {"MatrixLogarithm": 1e-4, "MatrixSquareRoot": 1e-4, "MatrixSolveLs": 1e-4}
SIGNS_OF_VECTORS = ("Eig", "SelfAdjointEigV2", "Svd", "Qr")
"""Factors and eigenvectors are those of another algorithm, up to their signs and order."""


def compared(mine, other, rtol, signs):
    if isinstance(other, (list, tuple)):
        assert len(mine) == len(other)
        assert getattr(mine, "_fields", None) == getattr(other, "_fields", None)
        for a, b in zip(mine, other, strict=True):
            compared(a, b, rtol, signs)
        return
    if other is None:
        return
    mine = ours.convert_to_tensor(mine)
    assert mine.dtype.name == other.dtype.name and mine.shape.as_list() == other.shape.as_list()
    a, b = mine.numpy(), other.numpy()
    if not (other.dtype.is_floating or other.dtype.is_complex):
        np.testing.assert_array_equal(a, b)
    elif signs:
        a, b = (np.sort(np.abs(each), -1) for each in (a, b))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-4)
    else:
        np.testing.assert_allclose(a, b, rtol=rtol, atol=2e-6)


@pytest.mark.parametrize("name", [name for name in operations() if OWN.get(name, {}) is not None])
def test_values_are_tensorflows(name):
    given = arguments_of(name, operations()[name].signature)
    assert given is not None
    expected = getattr(theirs.raw_ops, name)(**given)
    mine = getattr(ours.raw_ops, name)(**given)
    if name in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
        # What the gradient's operation takes depends on the device there.
        expected, mine = tuple(expected)[:3], tuple(mine)[:3]
    compared(mine, expected, TOLERANCES.get(name, 3e-5), name in SIGNS_OF_VECTORS)
