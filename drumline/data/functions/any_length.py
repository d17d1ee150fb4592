"""Which programs give the same bits whatever the length of the blocks they are compiled for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from jax.extend import core as jex

from drumline.data.functions.block_length import subjaxprs


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EXACT = _names(
    "abs and bitcast_convert_type broadcast_in_dim ceil clamp clz concatenate convert_element_type "
    "copy copy_p dynamic_slice dynamic_update_slice eq expand_dims floor gather ge gt iota "
    "is_finite le lt max min ne neg not or pad population_count reshape rev round select_n "
    "shift_left shift_right_arithmetic shift_right_logical sign slice squeeze transpose xor"
)
"""They move values, compare them, or have results that no rounding touches."""

_WHOLE = _names(
    "add argmax argmin cummax cummin cumsum div dot_general integer_pow mul reduce_and reduce_max "
    "reduce_min reduce_or reduce_prod reduce_sum reduce_xor rem sort sub threefry2x32"
)
"""Of whole numbers they are the same in any order."""

_ROUNDING = frozenset(("add", "sub", "mul", "sqrt"))
_CALLS = frozenset(("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"))
_TYPES = frozenset(map(np.dtype, (np.float32, np.float64)))


def same_at_any_length(program: jex.Jaxpr) -> bool:
    """Whether the length of its blocks cannot show in the last bits of a program's results.

    XLA divides sums and products of many numbers by their shapes, and what it makes one of, a
    product and a sum perhaps, depends on what is beside it. So not more than one operation may
    round; what is not known is taken to show.
    """
    return roundings(program.eqns) <= 1


def roundings(equations: Iterable[jex.JaxprEqn]) -> int:
    """How many operations round; at least two where one may depend on the length."""
    return sum(map(_of, equations))


def _of(equation: jex.JaxprEqn) -> int:
    """How many roundings there are; many where nothing is known of them."""
    name = equation.primitive.name
    if name in _EXACT:
        return 0
    if name in _CALLS:
        inside = list(subjaxprs(equation.params))
        return sum(roundings(program.eqns) for program in inside) if inside else 2
    results: list[Any] = [value.aval for value in equation.outvars]
    if name in _WHOLE and all(map(_is_whole, [*results, *(v.aval for v in equation.invars)])):
        return 0
    # By a number, XLA multiplies with its reciprocal: for any length, if it is one number.
    divides = name == "div" and isinstance(equation.invars[1], jex.Literal)
    rounds_once = name in _ROUNDING or divides
    return 1 if rounds_once and all(aval.dtype in _TYPES for aval in results) else 2


def _is_whole(aval: Any) -> bool:
    return aval.dtype.kind in "iub"
