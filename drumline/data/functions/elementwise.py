"""Results that need no XLA: numbers made float32, scaled or shifted, and arithmetic of integers.

A call of XLA costs more than such arithmetic does for a block, and reads only what is aligned. The
bits are those of XLA's programs: a division by a constant is a multiplication with its reciprocal
there, and what is added to a product is added before that is rounded; integers wrap around.
Whatever XLA might do in another way is left to it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from drumline._core import RowArithmetic, vector_instructions
from drumline._lazy import jex
from drumline._memory import address_of
from drumline.data.functions.native.operation import OPERATORS, SUMS, Arithmetic, rounded
from drumline.data.functions.programs import Computed, left_to_xla, roundings
from drumline.data.functions.trace import Trace

_FROM = frozenset(
    map(np.dtype, (np.bool_, np.uint8, np.int8, np.uint16, np.int16, np.int32, np.float32))
)
_CALLS = frozenset(("jit", "pjit", "closed_call"))
_MOST_CONSTANTS = 1 << 16
_LARGEST = 2.0**100
"""Constants and their reciprocals are normal numbers, far from where products are not."""


class ElementwiseResult(Protocol):
    """An output of a program as a computation from one leaf of the element.

    Attributes:
        leaf: which.
    """

    @property
    def leaf(self) -> int: ...

    def __call__(self, column: np.ndarray, out: np.ndarray) -> None:
        """Compute rows (n, ...) of ``out`` from those of ``column``."""


@dataclasses.dataclass(frozen=True)
class FloatResult:
    """Numbers of a leaf moved, made float32, and scaled or shifted, by the Rust core."""

    leaf: int
    program: RowArithmetic

    def __call__(self, column: np.ndarray, out: np.ndarray) -> None:
        n = len(column)
        rows = np.require(column, requirements=("C", "A")).reshape(n, -1)
        self.program.run(rows.view(np.uint8), out.reshape(n, -1))


def elementwise_results(trace: Trace) -> dict[tuple[bool, int], ElementwiseResult]:
    """Return the outputs of a trace's programs that need no XLA, by program and number.

    None is among them beside which XLA might compute the others with other bits: if the others
    round more than once, they must not read the same leaf.
    """
    found: dict[tuple[bool, int], ElementwiseResult] = {}
    for wide, closed in ((False, trace.narrow), (True, trace.wide)):
        if closed is None:
            continue
        routes = {
            route.output: route
            for route in trace.routes
            if isinstance(route, Computed) and route.wide == wide
        }
        made = {number: _result(trace, closed, route) for number, route in routes.items()}
        outvars = [closed.jaxpr.outvars[number] for number in made if made[number] is None]
        left = left_to_xla(closed, outvars)
        read = {var for equation in left for var in equation.invars if isinstance(var, jex.Var)}
        inputs = zip(trace.inputs, closed.jaxpr.invars, strict=True)
        taken = {leaf for leaf, var in inputs if roundings(left) > 1 and var in read}
        found.update(
            ((wide, number), result)
            for number, result in made.items()
            if result is not None and result.leaf not in taken
        )
    return found


def _aval(atom: Any) -> Any:
    """The shape and dtype of a variable or literal."""
    return atom.aval


def _is_whole(atom: Any) -> bool:
    """Whether it holds integers or truth values; random keys have types of their own."""
    return getattr(_aval(atom).dtype, "kind", "") in tuple("iub")


_WHOLE: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@dataclasses.dataclass(frozen=True)
class IntegerResult:
    """Integers or truth values of a leaf, and constants of their type; integers wrap around.

    Attributes:
        leaf: which.
        steps: each from an array (n, ...) and where the result goes, if that is given.
    """

    leaf: int
    steps: tuple[Callable[[np.ndarray, np.ndarray | None], np.ndarray], ...]

    def __call__(self, column: np.ndarray, out: np.ndarray) -> None:
        *first, last = self.steps
        for step in first:
            column = step(column, None)
        last(column, out)


def _integer_result(trace: Trace, closed: jex.ClosedJaxpr, route: Computed) -> IntegerResult | None:
    """An output that is whole numbers of a leaf, one for each, if it is."""
    program, var = closed.jaxpr, closed.jaxpr.outvars[route.output]
    made = {found: equation for equation in program.eqns for found in equation.outvars}
    steps: list[Callable[[np.ndarray, np.ndarray | None], np.ndarray]] = []
    if not isinstance(var, jex.Var) or not _is_whole(var):
        return None
    if route.dtype != _aval(var).dtype:
        steps.append(_converted(route.dtype))
    while var in made:
        equation = made[var]
        name, operands = equation.primitive.name, equation.invars
        variables = [operand for operand in operands if isinstance(operand, jex.Var)]
        if len(variables) != 1 or _aval(variables[0]).shape != _aval(var).shape:
            return None
        dtype = _aval(variables[0]).dtype
        if not _is_whole(variables[0]):
            return None
        if name == "convert_element_type" and equation.params.get("sharding") is None:
            steps.append(_converted(np.dtype(equation.params["new_dtype"])))
        elif name in _WHOLE:
            given = [
                None if isinstance(operand, jex.Var) else np.asarray(operand.val, dtype)
                for operand in operands
            ]
            steps.append(_with_constant(_WHOLE[name], *given))
        else:
            return None
        var = variables[0]
    if var not in program.invars or not steps:
        return None
    leaf = trace.inputs[program.invars.index(var)]
    spec = trace.values[leaf]
    if spec.dtype != _aval(var).dtype or not spec.is_static:
        return None
    return IntegerResult(leaf, tuple(reversed(steps)))


def _converted(dtype: np.dtype) -> Callable[[np.ndarray, np.ndarray | None], np.ndarray]:
    def step(column: np.ndarray, out: np.ndarray | None) -> np.ndarray:
        if out is None:
            return column.astype(dtype)
        out[...] = column.astype(dtype)
        return out

    return step


def _with_constant(
    ufunc: Callable[..., np.ndarray], first: np.ndarray | None, second: np.ndarray | None
) -> Callable[[np.ndarray, np.ndarray | None], np.ndarray]:
    def step(column: np.ndarray, out: np.ndarray | None) -> np.ndarray:
        return ufunc(
            column if first is None else first, column if second is None else second, out=out
        )

    return step


@dataclasses.dataclass(frozen=True)
class _Value:
    """A value on the way from a leaf to a result.

    Attributes:
        leaf: which.
        places: a view of an array like the leaf, of bytes, that shows where each number is from.
        dtype: of the numbers.
        steps: what was done with them, and the constants, broadcast to all numbers.
    """

    leaf: int
    places: np.ndarray
    dtype: np.dtype
    steps: tuple[tuple[str, np.ndarray], ...] = ()


class _LeftToXla(Exception):
    """Something that is left to XLA."""


def _result(trace: Trace, closed: jex.ClosedJaxpr, route: Computed) -> ElementwiseResult | None:
    if route.dtype.kind in "iub":
        return _integer_result(trace, closed, route)
    return _float_result(trace, closed, route) if route.dtype == np.float32 else None


def _float_result(trace: Trace, closed: jex.ClosedJaxpr, route: Computed) -> FloatResult | None:
    var = closed.jaxpr.outvars[route.output]
    try:
        value = _Reading(trace, closed).value(var)
        if value.dtype != np.float32 or value.places.shape != route.shape or not value.places.size:
            return None
        return _compiled(trace, value)
    except _LeftToXla:
        return None


class _Reading:
    """Follows a variable of a program back to a leaf and to constants."""

    def __init__(self, trace: Trace, closed: jex.ClosedJaxpr):
        self._trace = trace
        self._inputs = {var: number for number, var in enumerate(closed.jaxpr.invars)}
        self._constants: dict[Any, Any] = dict(
            zip(closed.jaxpr.constvars, closed.consts, strict=True)
        )
        self._made = {var: equation for equation in closed.jaxpr.eqns for var in equation.outvars}

    def value(self, var: Any) -> _Value:
        """A variable that depends on a leaf."""
        if isinstance(var, jex.Literal):
            raise _LeftToXla
        if var in self._inputs:
            return self._leaf(self._inputs[var], var.aval)
        equation = self._made.get(var)
        if equation is None or len(equation.outvars) != 1:
            raise _LeftToXla
        return self._of(equation)

    def _leaf(self, number: int, aval: Any) -> _Value:
        leaf = self._trace.inputs[number]
        spec = self._trace.values[leaf]
        if spec.dtype != aval.dtype or spec.dtype not in _FROM or not spec.is_static:
            raise _LeftToXla
        shape = tuple(aval.shape)
        if not shape or 0 in shape:
            raise _LeftToXla
        return _Value(leaf, np.empty(shape, np.uint8), spec.dtype)

    def _of(self, equation: jex.JaxprEqn) -> _Value:
        name, params = equation.primitive.name, equation.params
        if name in OPERATORS:
            return self._arithmetic(equation)
        if name == "convert_element_type":
            value = self.value(equation.invars[0])
            if params["new_dtype"] != np.float32 or params.get("sharding") is not None:
                raise _LeftToXla
            return dataclasses.replace(value, dtype=np.dtype(np.float32))
        move = _move(equation)
        if move is None or len(equation.invars) != 1:
            raise _LeftToXla
        value = self.value(equation.invars[0])
        places = move(value.places)
        if not np.may_share_memory(places, value.places):
            raise _LeftToXla
        steps = tuple((operator, move(constants)) for operator, constants in value.steps)
        return dataclasses.replace(value, places=places, steps=steps)

    def _arithmetic(self, equation: jex.JaxprEqn) -> _Value:
        operator, (first, second) = equation.primitive.name, equation.invars
        constant = self._constant(second)
        if constant is None and operator in ("add", "mul"):
            first, constant = second, self._constant(first)
        if constant is None or constant.dtype != np.float32:
            raise _LeftToXla
        value = self.value(first)
        if value.dtype != np.float32:
            raise _LeftToXla
        try:
            everywhere = np.broadcast_to(constant, value.places.shape)
        except ValueError:
            raise _LeftToXla from None
        return dataclasses.replace(value, steps=(*value.steps, (operator, everywhere)))

    def _constant(self, var: Any) -> np.ndarray | None:
        if isinstance(var, jex.Literal):
            return np.asarray(var.val, getattr(var.aval, "dtype", None))
        if var in self._constants:
            return np.asarray(self._constants[var])
        equation = self._made.get(var)
        if equation is None or len(equation.invars) != 1:
            return None
        inner = self._constant(equation.invars[0])
        if inner is None:
            return None
        if equation.primitive.name == "broadcast_in_dim":
            return _broadcast(inner, equation.params)
        move = _move(equation)
        return None if move is None else move(inner)


def _broadcast(constant: np.ndarray, params: dict[str, Any]) -> np.ndarray:
    shape, kept = tuple(params["shape"]), tuple(params["broadcast_dimensions"])
    if any(not isinstance(length, int) for length in shape):
        raise _LeftToXla
    placed = [1] * len(shape)
    for axis, length in zip(kept, constant.shape, strict=True):
        placed[axis] = length
    return np.broadcast_to(constant.reshape(placed), shape)


def _move(equation: jex.JaxprEqn) -> Callable[[np.ndarray], np.ndarray] | None:
    """What an equation does to where numbers are, if it does nothing else."""
    name, params = equation.primitive.name, equation.params
    if name == "rev":
        return lambda array: np.flip(array, tuple(params["dimensions"]))
    if name == "transpose":
        return lambda array: np.transpose(array, params["permutation"])
    if name == "slice":
        starts, stops = params["start_indices"], params["limit_indices"]
        steps = params["strides"] or (1,) * len(starts)
        return lambda array: array[tuple(map(slice, starts, stops, steps))]
    if name in ("reshape", "squeeze", "expand_dims", "broadcast_in_dim"):
        if name == "reshape" and params["dimensions"] is not None:
            return None
        before, after = _shape(equation.invars[0]), _shape(equation.outvars[0])
        kept = params.get("broadcast_dimensions", ())
        if list(kept) != sorted(kept) or math.prod(before) != math.prod(after):
            return None
        return lambda array: array.reshape(after)
    if name in _CALLS:
        return _moves_inside(params.get("jaxpr"))
    return None


def _shape(var: Any) -> tuple[int, ...]:
    return tuple(var.aval.shape)


def _moves_inside(closed: Any) -> Callable[[np.ndarray], np.ndarray] | None:
    """Of a jitted function of one argument that only moves numbers."""
    if not isinstance(closed, jex.ClosedJaxpr) or closed.consts:
        return None
    program = closed.jaxpr
    var, moves = program.invars[0], []
    for equation in program.eqns:
        move = _move(equation)
        if move is None or list(equation.invars) != [var] or len(equation.outvars) != 1:
            return None
        moves.append(move)
        var = equation.outvars[0]
    if len(program.invars) != 1 or list(program.outvars) != [var]:
        return None

    def all_of_them(array: np.ndarray) -> np.ndarray:
        for move in moves:
            array = move(array)
        return array

    return all_of_them


def _compiled(trace: Trace, value: _Value) -> FloatResult:
    sums = [operator in SUMS for operator, _ in value.steps]
    # What XLA makes of longer chains, or of two sums or products, is not known.
    if len(sums) > 2 or sums in ([True, True], [False, False]):
        raise _LeftToXla
    if len(sums) == 2 and sums[1] and vector_instructions() == "portable":
        raise _LeftToXla  # the processor may round twice
    kept = [(operator, _periodic(constants)) for operator, constants in value.steps]
    period = max((len(constants) for _, constants in kept), default=1)
    for operator, constants in kept:
        _check(operator, constants)
    arithmetic = [
        Arithmetic(operator, tuple(np.resize(constants, period).tolist()))
        for operator, constants in kept
    ]
    leaf = trace.values[value.leaf]
    base = value.places.base if value.places.base is not None else value.places
    offset = address_of(value.places) - address_of(base)
    program = RowArithmetic(
        "uint8" if leaf.dtype == np.bool_ else str(leaf.dtype),
        base.size,
        offset,
        list(value.places.shape),
        list(value.places.strides),
        rounded(arithmetic),
        period,
    )
    return FloatResult(value.leaf, program)


def _periodic(constants: np.ndarray) -> np.ndarray:
    """The constants of so many numbers as they are repeated after."""
    if np.all(constants == constants.flat[0]):
        constants = constants.reshape(-1)[:1]
    while constants.ndim and (constants.strides[0] == 0 or constants.shape[0] == 1):
        constants = constants[0]
    if constants.size > _MOST_CONSTANTS:
        raise _LeftToXla
    return constants.reshape(-1)


def _check(operator: str, constants: np.ndarray) -> None:
    """Refuses constants that XLA might leave out, or with which results may be denormal."""
    size = np.abs(constants)
    if not np.all((size > 1 / _LARGEST) & (size < _LARGEST)):
        raise _LeftToXla
    if operator not in SUMS and np.all(size == 1):
        raise _LeftToXla
