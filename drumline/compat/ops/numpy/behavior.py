"""``experimental_enable_numpy_behavior``: numpy's methods, operators and promotion for tensors."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from drumline.compat.ops import elementwise
from drumline.compat.ops.numpy import arrays, math, reductions
from drumline.compat.ops.numpy.base import promoted
from drumline.compat.values.promotion import rules
from drumline.compat.values.tensor import Tensor

_logger = logging.getLogger("drumline.compat")


def experimental_enable_numpy_behavior(
    prefer_float32: bool = False, dtype_conversion_mode: str = "legacy"
) -> None:
    """Give tensors numpy's methods (``T``, ``reshape``, ...), and its promotion of dtypes.

    It is for the whole process, and another call changes the rules.

    Args:
        prefer_float32: whether Python's floats are float32 in ``tf.experimental.numpy``.
        dtype_conversion_mode: ``"legacy"``: operators promote as numpy's do; ``"all"``: functions
            of two tensors promote, and what is made of Python's numbers is weak: it takes the
            dtype of what stands beside it; ``"safe"``: the same, but what may lose digits is
            refused; ``"off"``: operands of two dtypes are refused.

    Raises:
        ValueError: there is no such mode.

    Example:
        >>> tnp.experimental_enable_numpy_behavior()
        >>> (tf.constant([[1, 2]]).T + 0.5).dtype
        tf.float64
    """
    rules.set(dtype_conversion_mode, prefer_float32)
    if rules.auto:
        _logger.warning(
            "Enabling the new type promotion must happen at the beginning of the program: tensors "
            "that were made before are not weak."
        )
    _give_methods()
    elementwise.promote_operands(_operands if rules.legacy else None, math.matmul)


def _operands(x: Any, y: Any) -> tuple[Any, Any]:
    """Operands of an operator in one dtype, by numpy's rules."""
    if type(x) is Tensor and type(y) is Tensor and x._value.dtype == y._value.dtype:
        return x, y
    (a, b), _ = promoted(x, y)
    return Tensor(a), Tensor(b)


def _size(self: Tensor) -> int:
    """The number of elements."""
    return int(np.prod(self._value.shape))


def _tolist(self: Tensor) -> Any:
    """The elements as Python's numbers, in nested lists.

    Raises:
        ValueError: it belongs to a function that is being traced.
    """
    if not self.is_concrete:
        raise ValueError("Symbolic Tensors do not support the tolist API.")
    return np.asarray(self._value).tolist()


def _give_methods() -> None:
    tensor: Any = Tensor
    tensor.T = property(arrays.transpose, doc="With its axes in reverse.")
    tensor.size = property(_size)
    tensor.data = property(lambda self: self, doc="The tensor itself.")
    tensor.tolist = _tolist
    tensor.__round__ = math.around
    tensor.clip = math.clip
    tensor.astype = math.astype
    tensor.max, tensor.min = reductions.amax, reductions.amin
    tensor.mean = reductions.mean
    tensor.transpose, tensor.flatten = arrays.transpose, arrays.flatten
    tensor.reshape, tensor.ravel = arrays.reshaped, arrays.ravel
