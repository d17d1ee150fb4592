"""Operations that compute each element of their result from the same elements of the operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from drumline.distribute.parameter_server.compiler.rows import Rows, Uniform

# fmt: off
_KEEPS_ZERO_OF_FIRST = frozenset(
    [
        "abs", "asinh", "atan", "atanh", "cbrt", "ceil", "conj", "convert_element_type",
        "copy", "copy_p", "erf", "erf_inv", "expm1", "floor", "imag", "log1p", "neg",
        "real", "reduce_precision", "round", "sign", "sin", "sinh", "sqrt", "square",
        "stop_gradient", "tan", "tanh",
    ]
)
_KEEPS_ZERO_OF_ALL = frozenset(
    [
        "add", "add_any", "and", "atan2", "max", "min", "or", "sub", "xor",
    ]
)
_OTHERS = frozenset(
    [
        "acos", "acosh", "asin", "clamp", "complex", "cos", "cosh", "digamma", "div", "eq",
        "erfc", "exp", "exp2", "ge", "gt", "integer_pow", "is_finite", "le", "lgamma",
        "log", "logistic", "lt", "mul", "ne", "nextafter", "not", "pow", "rem", "rsqrt",
        "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical",
        "threefry2x32",
    ]
)
# fmt: on

ELEMENTWISE = _KEEPS_ZERO_OF_FIRST | _KEEPS_ZERO_OF_ALL | _OTHERS
"""Their names. Operands have the shape of the result, or are broadcast along axes of size 1."""


def is_elementwise(eqn: Any) -> bool:
    """Whether the equation is one of them."""
    name = eqn.primitive.name
    if name == "bitcast_convert_type":
        return bool(eqn.invars[0].aval.shape == eqn.outvars[0].aval.shape)
    return name in ELEMENTWISE


def keeps_zero(eqn: Any, zero: Sequence[bool], operands: Sequence[Any]) -> bool:
    """Whether the result is zero where the operands marked in `zero` are, whatever the others are.

    The others are taken to be finite, as they are unless training has failed.

    Args:
        eqn: the equation.
        zero: for each operand whether it is zero there.
        operands: they, of which scalars that are known say more.
    """
    name = eqn.primitive.name
    if name in _KEEPS_ZERO_OF_FIRST:
        return zero[0]
    if name == "max":
        return any(zero) and all(z or _known(v, -1) for z, v in zip(zero, operands, strict=True))
    if name == "min":
        return any(zero) and all(z or _known(v, 1) for z, v in zip(zero, operands, strict=True))
    if name in _KEEPS_ZERO_OF_ALL:
        return all(zero)
    if name == "mul":
        return any(zero)
    if name == "div":
        return zero[0] and not zero[1]
    if name == "integer_pow":
        return zero[0] and eqn.params["y"] > 0
    if name == "select_n":
        return all(zero[1:])
    if name == "clamp":
        return zero[1] and _known(operands[0], -1) and _known(operands[2], 1)
    return False


def is_zero(value: Any) -> bool:
    """Whether a scalar is known to be zero."""
    return _is_known(value) and bool(np.all(np.asarray(value) == 0))


def _known(value: Any, sign: int) -> bool:
    """Whether a scalar is known to be zero or of that sign."""
    return _is_known(value) and bool(np.all(np.asarray(value) * sign >= 0))


def _is_known(value: Any) -> bool:
    return not isinstance(value, jax.core.Tracer | Rows | Uniform) and np.size(value) == 1
