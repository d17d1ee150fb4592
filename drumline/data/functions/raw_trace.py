"""A user's function as JAX traces it under one setting."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex

from drumline.data.elements.spec import ElementSpec, TensorSpec, as_array, is_array_literal
from drumline.data.elements.structure import Structure, flatten
from drumline.data.functions import purity
from drumline.data.functions.as_python import integer_division_raises
from drumline.data.functions.keras_state import keras_writes_held
from drumline.data.functions.routes import Constant
from drumline.data.functions.user_function import UserFunction
from drumline.data.native.symbol import Symbol, ValueNeedsPython, is_symbolic, recorded_results


class NotTraceable(Exception):
    """The function cannot become a program; the message says why.

    Attributes:
        spec: what the function returns, where a trace could still tell.
        native: whether it calls native operations, as far as known.
        varying: whether results of these vary in shape.
        remedy: what to change about it; empty where there is nothing simple.
    """

    def __init__(
        self,
        reason: str,
        spec: ElementSpec | None = None,
        native: bool = False,
        varying: bool = False,
        remedy: str = "",
    ):
        super().__init__(reason)
        self.spec = spec
        self.native = native
        self.varying = varying
        self.remedy = remedy


@dataclasses.dataclass
class RawTrace:
    """What one setting of JAX makes of a function.

    Attributes:
        program: over all leaves of an element, symbols' handles among them.
        leaves: for each leaf of the result a constant, or which output of the program it is.
        structure: of the result.
        impurity: why the program does not stand for the function, if it does not.
    """

    program: jex.ClosedJaxpr
    leaves: list[Constant | int]
    structure: Structure
    impurity: str | None = None


def traced_twice(
    function: UserFunction, spec: ElementSpec, mode: Callable[[], AbstractContextManager[None]]
) -> RawTrace:
    """Traces under ``mode``, and again to see whether it is the same.

    Raises:
        NotTraceable: it looks at values that a program does not have.
    """
    with mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = _traced(function, spec)
        second = _traced(function, spec)
    if first.impurity is None:
        first.impurity = _difference(first, second)
    first.program = first.program.replace(consts=[_kept(c) for c in first.program.consts])
    return first


def _difference(first: RawTrace, second: RawTrace) -> str | None:
    if first.structure != second.structure or not _same_leaves(first.leaves, second.leaves):
        return "it returns something else each time it is called"
    if not purity.same_program(first.program, second.program):
        return "it uses state outside its arguments (two traces differ)"
    if first.program.effects:
        effects = ", ".join(sorted(str(effect) for effect in first.program.effects))
        return f"it has side effects ({effects})"
    return None


def _same_leaves(a: list[Constant | int], b: list[Constant | int]) -> bool:
    def same(x: Constant | int, y: Constant | int) -> bool:
        if isinstance(x, Constant) and isinstance(y, Constant):
            return purity.same_values([x.value], [y.value])
        return x == y

    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))


def _kept(value: Any) -> Any:
    """A constant as it is now: the user may write into the array later."""
    if isinstance(value, jax.Array):
        return value
    # JAX may have wrapped the user's array in a type of its own without copying it.
    copy = np.array(value)
    copy.flags.writeable = False
    return copy


def _traced(function: UserFunction, spec: ElementSpec) -> RawTrace:
    found: list[Constant | int] = []
    structures: list[Structure] = []

    def program(*tracers: Any) -> list[Any]:
        values = [
            Symbol(leaf, tracer) if is_symbolic(leaf) else tracer
            for leaf, tracer in zip(spec.leaves, tracers, strict=True)
        ]
        leaves, structure = flatten(function(spec.structure.unflatten(values)), is_array_literal)
        structures.append(structure)
        return _outputs(leaves, found)

    # The types that arrays of the element have in this mode: since jax 0.12 a specification is
    # taken as it is, and an int64 one would make float64 of `x / 2` where 64-bit types are off.
    types = [
        jax.ShapeDtypeStruct((), np.uint32)
        if is_symbolic(leaf)
        else jax.ShapeDtypeStruct(
            leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype), weak_type=i in function.weak
        )
        for i, leaf in enumerate(spec.leaves)
    ]
    with (
        keras_writes_held() as written,
        recorded_results() as recorded,
        integer_division_raises(spec.leaves),
    ):
        try:
            jaxpr = jax.make_jaxpr(program)(*types)
        except Exception as error:
            varying = getattr(error, "varying", False) or not _static(recorded)
            remedy = getattr(error, "remedy", "")
            raise NotTraceable(_reason(error), varying=varying, remedy=remedy) from error
    if structures[0].num_leaves == 0:
        raise ValueError(f"{function.where} returned nothing; it must return the new element")
    return RawTrace(jaxpr, found, structures[0], written[0] if written else None)


def _static(leaves: Sequence[TensorSpec]) -> bool:
    return all(leaf.is_static for leaf in leaves)


def _outputs(leaves: list[Any], found: list[Constant | int]) -> list[Any]:
    outputs: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, Symbol | jax.core.Tracer):
            value = leaf.handle if isinstance(leaf, Symbol) else leaf
            if jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
                raise TypeError("it returns JAX random keys, of which no column can be made")
            found.append(len(outputs))
            outputs.append(value)
        else:
            found.append(Constant(_kept(as_array(leaf))))
    return outputs


def _reason(error: Exception) -> str:
    if Symbol.__name__ in str(error):
        return (
            "it gives JAX a string, or an array whose shape varies between elements "
            "(x.reshape(...) gives one a fixed shape)"
        )
    if isinstance(error, ValueNeedsPython):
        return str(error)
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0].rstrip('.') if text else ''}"[:200]
