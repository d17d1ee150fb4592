"""Evaluating a program again, with only some rows of some of its arrays.

A traced program knows tables as whole arrays. `RowsInterpreter` evaluates its operations in order
with `RowSparse` and `Uniform` values in the place of some arrays: operations that compute each
element of their result from the same elements of the operands work on the rows alone, and what
cannot be done with rows is refused by the subclass: for steps (`table_access`), optimizers' updates
(`update`) and initial values (`initializer`).

It runs on the chief while something is traced, and has no state beyond one evaluation.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import jax
import numpy as np
from jax import lax

from drumline.training import jax_internals


@dataclass(frozen=True)
class RowSparse:
    """Some rows of an array.

    Attributes:
        value: these rows, an array ``(n, ...)``.
        shape: that of the whole array, ``(rows, ...)``.
        group: which rows they are; values of one group have the same rows.
        zero_elsewhere: whether all other rows are known to be zero, and also those of `value` that
            stand for none. Otherwise they are unknown.
        has_padding: whether rows of `value` that stand for none may be anything, even no numbers.
        is_added: whether it is what was added at the ids of a lookup, unchanged since.
    """

    value: Any
    shape: tuple[int, ...]
    group: str
    zero_elsewhere: bool
    has_padding: bool = False
    is_added: bool = False

    @property
    def count(self) -> int:
        """How many rows are known."""
        count: int = self.value.shape[0]
        return count


@dataclass(frozen=True)
class Uniform:
    """An array whose rows are all the same.

    Attributes:
        value: one row, an array ``(1, ...)``.
        shape: that of the whole array.
        is_zero: whether it is known to be zero.
    """

    value: Any
    shape: tuple[int, ...]
    is_zero: bool

    def rows(self, count: int) -> Any:
        """`count` of its rows."""
        shape = (count, *self.shape[1:])
        return lax.broadcast_in_dim(self.value, shape, tuple(range(len(shape))))

    def whole(self) -> Any:
        """The whole array."""
        return self.rows(self.shape[0])


def is_special(value: Any) -> bool:
    """Whether `value` stands for an array without being one."""
    return isinstance(value, (RowSparse, Uniform))


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
    return not isinstance(value, jax.core.Tracer | RowSparse | Uniform) and np.size(value) == 1


# fmt: off
_INLINED = frozenset(
    [
        "jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "remat",
        "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr",
    ]
)
_EQUAL = frozenset(["copy", "copy_p"])
_COPIES = frozenset(["convert_element_type", "copy", "copy_p", "stop_gradient"])
_FOLDED = frozenset(
    [
        "add", "convert_element_type", "copy", "copy_p", "div", "mul",
        "neg", "sub",
    ]
)
_REDUCTIONS = frozenset(
    [
        "argmax", "argmin", "reduce_and", "reduce_max", "reduce_min", "reduce_or",
        "reduce_prod", "reduce_sum",
    ]
)
# fmt: on


class RowsInterpreter:
    """Evaluates programs on `RowSparse` in the place of whole arrays.

    What is computed row by row stays so. Subclasses add the operations they know in `special`.

    Args:
        shapes: those of the whole arrays. Arrays of as many rows that are the same in every row are
            not made until they are needed.
    """

    def __init__(self, shapes: Collection[tuple[int, ...]]) -> None:
        self._shapes = frozenset(each for shape in shapes for each in _with_fewer_axes(shape))
        self._touching: dict[int, tuple[Any, bool]] = {}

    def special(self, eqn: Any, values: Sequence[Any]) -> list[Any] | None:
        """The results of an equation that the subclass knows; None for any other."""
        return None

    def without_padding(self, rows: RowSparse) -> RowSparse:
        """`rows` with a row of the array in the place of each that stands for none."""
        return rows

    def refuse(self, eqn: Any, values: Sequence[Any]) -> NoReturn:
        """Raise because an equation needs more than the rows there are."""
        raise NotImplementedError

    def evaluate(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        """The results of a program; some of its arguments and results may be `RowSparse`."""
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> Any:
            return atom.val if jax_internals.is_literal(atom) else values[atom]

        for eqn in jaxpr.eqns:
            outputs = self._apply(eqn, [read(atom) for atom in eqn.invars])
            values.update(zip(eqn.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _apply(self, eqn: Any, values: list[Any]) -> list[Any]:
        name = eqn.primitive.name
        if name in _INLINED and (any(map(is_special, values)) or self._touches(eqn)):
            inner, consts = jax_internals.opened(_program(eqn))
            return self.evaluate(inner, consts, values)
        results = self.special(eqn, values)
        if results is not None:
            return results
        if any(isinstance(value, RowSparse) for value in values):
            return self._on_rows(eqn, values)
        if name == "broadcast_in_dim":
            made = self._uniform(eqn, values[0])
            if made is not None:
                return [made]
        if any(map(is_special, values)):
            return self._on_uniforms(eqn, values)
        if name in _FOLDED and all(map(_is_known_scalar, values)):
            with jax.ensure_compile_time_eval():
                return jax_internals.bind(eqn, values)
        return jax_internals.bind(eqn, values)

    def _touches(self, eqn: Any) -> bool:
        """Whether a program within the equation makes an array of one of the shapes."""
        for param in eqn.params.values():
            for each in param if isinstance(param, (tuple, list)) else (param,):
                if jax_internals.is_program(each) and self._makes(each):
                    return True
        return False

    def _makes(self, program: Any) -> bool:
        known = self._touching.get(id(program))
        if known is None:
            jaxpr, _ = jax_internals.opened(program)
            found = any(
                any(getattr(v.aval, "shape", None) in self._shapes for v in eqn.outvars)
                or self._touches(eqn)
                for eqn in jaxpr.eqns
            )
            known = self._touching[id(program)] = (program, found)
        return known[1]

    def _uniform(self, eqn: Any, value: Any) -> Uniform | None:
        shape = tuple(eqn.params["shape"])
        if shape not in self._shapes or isinstance(value, Uniform):
            return None
        mapped = tuple(eqn.params["broadcast_dimensions"])
        if 0 in mapped and np.shape(value)[mapped.index(0)] != 1:
            return None
        row = lax.broadcast_in_dim(value, (1, *shape[1:]), mapped)
        return Uniform(row, shape, is_zero(value))

    def _on_uniforms(self, eqn: Any, values: list[Any]) -> list[Any]:
        """Operands that are the same in every row give a result that is, if all of them are."""
        shape = eqn.outvars[0].aval.shape
        alike = all(is_special(v) or _leading(v, len(shape)) == 1 for v in values)
        if not (is_elementwise(eqn) and shape in self._shapes and alike):
            return jax_internals.bind(
                eqn, [v.whole() if isinstance(v, Uniform) else v for v in values]
            )
        zero = keeps_zero(eqn, [_is_zero_elsewhere(v) for v in values], values)
        outputs = jax_internals.bind(
            eqn, [v.value if isinstance(v, Uniform) else v for v in values]
        )
        return [Uniform(output, shape, zero) for output in outputs]

    def _on_rows(self, eqn: Any, values: list[Any]) -> list[Any]:
        name = eqn.primitive.name
        if is_elementwise(eqn):
            return self._elementwise(eqn, values)
        if name == "optimization_barrier":
            outputs = jax_internals.bind(eqn, [v.value if is_special(v) else v for v in values])
            return [_like(v, output) for v, output in zip(values, outputs, strict=True)]
        if name in _REDUCTIONS:
            return self._reduce(eqn, values)
        if name in ("broadcast_in_dim", "reshape", "squeeze"):
            return self._reshape(eqn, values)
        self.refuse(eqn, values)

    def _elementwise(self, eqn: Any, values: list[Any]) -> list[Any]:
        known = [value for value in values if isinstance(value, RowSparse)]
        first, shape = known[0], eqn.outvars[0].aval.shape
        for value in values:
            if isinstance(value, RowSparse):
                fits = value.group == first.group and value.shape[0] == first.shape[0]
            else:
                fits = is_special(value) or _leading(value, len(shape)) == 1
            if not fits:
                self.refuse(eqn, values)
        zero = keeps_zero(eqn, [_is_zero_elsewhere(value) for value in values], values)
        is_copy = eqn.primitive.name in _COPIES
        if not is_copy:
            values = [self._settled(value) for value in values]
        outputs = jax_internals.bind(eqn, [_local(value, first.count) for value in values])
        padded = is_copy and first.has_padding
        is_added = eqn.primitive.name in _EQUAL and first.is_added
        return [
            RowSparse(output, variable.aval.shape, first.group, zero, padded, is_added)
            for output, variable in zip(outputs, eqn.outvars, strict=True)
        ]

    def _reduce(self, eqn: Any, values: list[Any]) -> list[Any]:
        rows = self._settled(values[0])
        outputs = jax_internals.bind(eqn, [rows.value])
        if 0 not in eqn.params["axes"]:
            zero = rows.zero_elsewhere and eqn.primitive.name != "reduce_and"
            shape = eqn.outvars[0].aval.shape
            return [RowSparse(outputs[0], shape, rows.group, zero)]
        if eqn.primitive.name == "reduce_sum" and rows.zero_elsewhere:
            return outputs
        self.refuse(eqn, values)

    def _reshape(self, eqn: Any, values: list[Any]) -> list[Any]:
        """Changes of shape that leave the rows alone."""
        rows, name = values[0], eqn.primitive.name
        shape = tuple(eqn.outvars[0].aval.shape)
        if name == "broadcast_in_dim":
            mapped = eqn.params["broadcast_dimensions"]
            kept = bool(mapped) and mapped[0] == 0 and shape[0] == rows.shape[0]
        else:
            kept = bool(shape) and shape[0] == rows.shape[0]
            # Of a squeeze those that vanish, of a reshape an order to read the operand in.
            kept = kept and 0 not in (eqn.params.get("dimensions") or ())
        if not kept or (name == "reshape" and eqn.params.get("dimensions") is not None):
            self.refuse(eqn, values)
        local = (rows.count, *shape[1:])
        if name == "broadcast_in_dim":
            value = lax.broadcast_in_dim(rows.value, local, mapped)
        else:
            value = lax.reshape(rows.value, local)
        return [RowSparse(value, shape, rows.group, rows.zero_elsewhere, rows.has_padding)]

    def _settled(self, value: Any) -> Any:
        is_padded = isinstance(value, RowSparse) and value.has_padding
        return self.without_padding(value) if is_padded else value


def _with_fewer_axes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The shapes of arrays with the same rows, such as of their norms: with axes of size 1."""
    yield shape[:1]
    yield from itertools.product(shape[:1], *({size, 1} for size in shape[1:]))


def _program(eqn: Any) -> Any:
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if name in eqn.params:
            return eqn.params[name]
    raise KeyError(f"{eqn.primitive.name} has no program among {list(eqn.params)}")


def _is_known_scalar(value: Any) -> bool:
    return not isinstance(value, jax.core.Tracer) and np.ndim(value) == 0


def _leading(value: Any, ndim: int) -> int:
    """Along how many rows an operand of an elementwise operation goes: 1 if it is broadcast."""
    shape = np.shape(value)
    return 1 if len(shape) < ndim else shape[0]


def _is_zero_elsewhere(value: Any) -> bool:
    if isinstance(value, RowSparse):
        return value.zero_elsewhere
    return value.is_zero if isinstance(value, Uniform) else is_zero(value)


def _local(value: Any, count: int) -> Any:
    if isinstance(value, RowSparse):
        return value.value
    return value.rows(count) if isinstance(value, Uniform) else value


def _like(value: Any, output: Any) -> Any:
    if isinstance(value, RowSparse):
        return RowSparse(output, value.shape, value.group, value.zero_elsewhere, value.has_padding)
    return Uniform(output, value.shape, value.is_zero) if isinstance(value, Uniform) else output
