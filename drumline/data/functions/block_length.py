"""The number of elements for which a map function is compiled, and whether it shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from jax.extend import core as jex

from drumline.data.elements.spec import TensorSpec

TARGET_BYTES = 4 << 20
LONGEST = 1024
LONGEST_SCALARS = 16_384
LONGEST_WITH_LOOP = 8
MOST_OPERATIONS = 1 << 24

_LOOPS = ("scan", "while")


def block_length(leaves: Iterable[TensorSpec], jaxpr: jex.Jaxpr) -> int:
    """A power of two, from the specs of what the function reads and writes and its program alone.

    Blocks of one to four megabytes were fastest for every element size measured: smaller ones pay
    for dispatch, larger ones for memory that was never touched. It never depends on timing, thread
    counts or what follows, since for some functions the length shows in the last bits of the
    result. Loops, and programs of very many operations, get shorter blocks: the first element
    must not wait for a second's work.
    """
    specs = list(leaves)
    nbytes = sum(leaf.nbytes or 64 for leaf in specs)
    longest = LONGEST_SCALARS if all(leaf.shape == () for leaf in specs) else LONGEST
    if has_loop(jaxpr):
        longest = LONGEST_WITH_LOOP
    longest = min(longest, max(1, MOST_OPERATIONS // max(1, operations(jaxpr))))
    return min(_power_of_two(longest), _power_of_two(TARGET_BYTES / max(1, nbytes)))


MOST_GATHERED_BYTES = 64 << 20
"""A batch of this size and more is put together from blocks: several of it would fill memory."""

_PADDED = 1.125
_MOST_BATCHES = 16
_MOST_TASK_BYTES = 16 << 20


def gathered_rows(size: int, length: int, row_nbytes: int) -> int:
    """How many rows to compute at once where they are put together by ``size``.

    Whole batches, which then need not be copied together, if they are nearly whole blocks of
    ``length`` rows and not too large; else a block. Several are one task if they are small.
    """
    found = None
    for batches in range(1, _MOST_BATCHES + 1):
        rows = batches * size
        padded = -(-rows // length) * length
        if padded > _PADDED * rows:
            continue
        most = TARGET_BYTES if found is not None else _MOST_TASK_BYTES
        if padded * row_nbytes > (MOST_GATHERED_BYTES if batches == 1 else most):
            break
        found = rows
    return found or length


def _power_of_two(limit: float) -> int:
    return 1 << max(0, int(math.log2(max(1.0, limit))))


def subjaxprs(params: dict[str, Any]) -> Iterator[jex.Jaxpr]:
    """The programs inside an equation's parameters."""
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, jex.ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, jex.Jaxpr):
                yield item


def has_loop(jaxpr: jex.Jaxpr) -> bool:
    """Whether the program contains a ``scan`` or ``while`` at any depth."""
    return any(
        eqn.primitive.name in _LOOPS or any(has_loop(sub) for sub in subjaxprs(eqn.params))
        for eqn in jaxpr.eqns
    )


def operations(jaxpr: jex.Jaxpr) -> int:
    """A rough count of arithmetic operations for one element (loops count once)."""
    return sum(_operations_of(eqn) for eqn in jaxpr.eqns)


def _operations_of(eqn: jex.JaxprEqn) -> int:
    inside = sum(operations(sub) for sub in subjaxprs(eqn.params))
    if inside:
        return inside
    size = sum(math.prod(_shape(var)) for var in eqn.outvars)
    if eqn.primitive.name == "dot_general":
        (contracting, _), _ = eqn.params["dimension_numbers"]
        return 2 * size * math.prod(_shape(eqn.invars[0])[axis] for axis in contracting)
    if eqn.primitive.name == "conv_general_dilated":
        kernel = _shape(eqn.invars[1])
        features = kernel[eqn.params["dimension_numbers"].rhs_spec[0]]
        return 2 * size * math.prod(kernel) // max(1, features)
    return size


def _shape(var: Any) -> tuple[int, ...]:
    return tuple(getattr(var.aval, "shape", ()))


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
