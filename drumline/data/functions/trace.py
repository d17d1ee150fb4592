"""Tracing a user's function into one or two programs over numbers."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex

from drumline.data.functions import modes, purity
from drumline.data.functions.dependence import dependence
from drumline.data.functions.keras_state import keras_writes_held
from drumline.data.functions.opaque import OpaqueString
from drumline.data.functions.routes import Computed, Constant, Passed, Route, same_routes
from drumline.data.functions.user_function import UserFunction
from drumline.data.leaves import as_array, is_array_literal
from drumline.data.spec import ElementSpec, TensorSpec
from drumline.data.structure import Structure, flatten

_WIDE = {np.dtype(t) for t in ("int64", "uint64", "float64", "complex128")}


class NotTraceable(Exception):
    """The function cannot become a program; the message says why.

    Attributes:
        spec: what the function returns, where a trace could still tell.
    """

    def __init__(self, reason: str, spec: ElementSpec | None = None):
        super().__init__(reason)
        self.spec = spec


@dataclasses.dataclass(frozen=True)
class Trace:
    """A user's function as programs over one element.

    Attributes:
        spec: what the function returns.
        routes: where each output leaf comes from.
        inputs: the input leaves that are numbers, in the order the programs take them.
        narrow: the program traced as JAX does by default, if any leaf is computed by it.
        wide: the program traced with 64-bit types, likewise.
    """

    spec: ElementSpec
    routes: tuple[Route, ...]
    inputs: tuple[int, ...]
    narrow: jex.ClosedJaxpr | None
    wide: jex.ClosedJaxpr | None


@dataclasses.dataclass
class _Raw:
    program: jex.ClosedJaxpr
    routes: list[Any]
    structure: Structure
    impurity: str | None = None


def trace(function: UserFunction, spec: ElementSpec) -> Trace:
    """Traces ``function`` over an element of static shapes.

    What 64-bit columns feed is taken from a trace with 64-bit types, everything else from a trace
    under JAX's default types: ``uint8 / 255.0`` is float32 beside an int64 column that stays exact.

    Raises:
        NotTraceable: it looks at values or strings, has side effects or uses outside state.
    """
    wide_leaves = {i for i, leaf in enumerate(spec.leaves) if leaf.dtype in _WIDE}
    with purity.random_states_kept():
        wide = _twice(function, spec, modes.wide) if wide_leaves else None
        narrow: _Raw | None = None
        try:
            narrow = _twice(function, spec, modes.narrow)
        except NotTraceable:
            # A constant that needs 64 bits overflows here; the wide trace then stands alone.
            if wide is None:
                raise
    result = _Combination(spec, wide_leaves, narrow, wide).trace()
    for raw in (narrow, wide):
        if raw is not None and raw.impurity is not None:
            raise NotTraceable(raw.impurity, result.spec)
    return result


def _twice(
    function: UserFunction, spec: ElementSpec, mode: Callable[[], AbstractContextManager[None]]
) -> _Raw:
    with mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = _raw(function, spec)
        second = _raw(function, spec)
    if first.impurity is None:
        first.impurity = _difference(first, second)
    first.program = first.program.replace(consts=[_kept(c) for c in first.program.consts])
    return first


def _difference(first: _Raw, second: _Raw) -> str | None:
    if first.structure != second.structure or not same_routes(first.routes, second.routes):
        return "it returns something else each time it is called"
    if not purity.same_program(first.program, second.program):
        return "it uses state outside its arguments (two traces differ)"
    if first.program.effects:
        effects = ", ".join(sorted(str(effect) for effect in first.program.effects))
        return f"it has side effects ({effects})"
    return None


def _kept(value: Any) -> Any:
    """A constant as it is now: the user may write into the array later."""
    if isinstance(value, jax.Array):
        return value
    # JAX may have wrapped the user's array in a type of its own without copying it.
    copy = np.array(value)
    copy.flags.writeable = False
    return copy


def _raw(function: UserFunction, spec: ElementSpec) -> _Raw:
    routes: list[Any] = []
    structures: list[Structure] = []
    numbers = [i for i, leaf in enumerate(spec.leaves) if not leaf.is_string]

    def program(*tracers: Any) -> list[Any]:
        values: list[Any] = [OpaqueString(i) for i in range(len(spec.leaves))]
        for i, tracer in zip(numbers, tracers, strict=True):
            values[i] = tracer
        result = function(spec.structure.unflatten(values))
        leaves, structure = flatten(result, is_array_literal)
        structures.append(structure)
        return _routed(leaves, dict(zip(map(id, tracers), numbers, strict=True)), routes)

    avals = [jax.ShapeDtypeStruct(spec.leaves[i].shape, spec.leaves[i].dtype) for i in numbers]
    try:
        with keras_writes_held() as written:
            jaxpr = jax.make_jaxpr(program)(*avals)
    except Exception as error:
        raise NotTraceable(_reason(error)) from error
    if structures[0].num_leaves == 0:
        raise ValueError(f"{function.where} returned nothing; it must return the new element")
    return _Raw(jaxpr, routes, structures[0], written[0] if written else None)


def _routed(leaves: list[Any], positions: dict[int, int], routes: list[Any]) -> list[Any]:
    computed: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, OpaqueString):
            routes.append(Passed(leaf.leaf))
        elif id(leaf) in positions:
            routes.append(Passed(positions[id(leaf)]))
        elif isinstance(leaf, jax.core.Tracer):
            if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
                raise TypeError("it returns JAX random keys, of which no column can be made")
            routes.append(len(computed))
            computed.append(leaf)
        else:
            routes.append(Constant(_kept(as_array(leaf))))
    return computed


class _Combination:
    """Chooses, leaf by leaf, between the narrow and the wide trace."""

    def __init__(
        self, spec: ElementSpec, wide_leaves: set[int], narrow: _Raw | None, wide: _Raw | None
    ):
        if narrow is not None and wide is not None and narrow.structure != wide.structure:
            raise NotTraceable("it returns another structure for 64-bit types")
        self._spec = spec
        self._wide_leaves = wide_leaves
        self._narrow = narrow
        self._wide = wide
        self._numbers = tuple(i for i, leaf in enumerate(spec.leaves) if not leaf.is_string)
        self._feeds = dependence(wide.program.jaxpr) if wide is not None else []

    def trace(self) -> Trace:
        model = self._narrow or self._wide
        assert model is not None
        routes = tuple(
            self._computed(route) if isinstance(route, int) else route for route in model.routes
        )
        used = {route.wide for route in routes if isinstance(route, Computed)}
        return Trace(
            ElementSpec(model.structure, tuple(_spec_of(route, self._spec) for route in routes)),
            routes,
            self._numbers,
            self._narrow.program if self._narrow is not None and False in used else None,
            self._wide.program if self._wide is not None and True in used else None,
        )

    def _computed(self, output: int) -> Computed:
        default = self._narrow.program.out_avals[output] if self._narrow is not None else None
        fed: set[int] = set()
        if self._wide is not None:
            fed = {self._numbers[i] for i in self._feeds[output]} & self._wide_leaves
        if self._wide is None or (not fed and default is not None):
            assert default is not None
            return Computed(False, output, np.dtype(default.dtype), tuple(default.shape))
        aval = self._wide.program.out_avals[output]
        dtype = np.dtype(aval.dtype)
        kinds = {_kind(self._spec.leaves[i].dtype) for i in fed}
        if dtype in _WIDE and _kind(dtype) not in kinds:
            dtype = np.dtype(default.dtype) if default is not None else _narrowed(dtype)
        return Computed(True, output, dtype, tuple(aval.shape))


def _kind(dtype: np.dtype) -> str:
    """Integers, or floats and what is made of them: the parts of a complex128 are float64."""
    return "i" if dtype.kind in "iu" else "f" if dtype.kind in "fc" else dtype.kind


def _narrowed(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"{dtype.kind}{dtype.itemsize // 2}")


def _spec_of(route: Route, spec: ElementSpec) -> TensorSpec:
    if isinstance(route, Passed):
        return spec.leaves[route.leaf]
    if isinstance(route, Constant):
        return TensorSpec(route.value.shape, route.value.dtype)
    return TensorSpec(route.shape, route.dtype)


def _reason(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:200]
