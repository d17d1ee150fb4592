"""A traced function cut into native and compiled segments, fused where nothing is between."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from drumline._lazy import jax, jex
from drumline.data.elements.spec import LEAF_STRUCTURE, ElementSpec, TensorSpec, tuple_of
from drumline.data.functions.native.operation import OPERATORS, SUMS, Arithmetic, NativeOperation
from drumline.data.functions.programs import Computed, Constant, Passed, Route, dependence, unnamed
from drumline.data.functions.trace import NativeStep, Trace


@dataclasses.dataclass
class NumericPart:
    """What runs at one time.

    Attributes:
        takes: inputs of the whole program, and what earlier parts hand on.
        wanted: the outputs of the whole program that it gives.
        handed_on: what later parts take of it.
        eqns: what it computes.
    """

    takes: list[Any] = dataclasses.field(default_factory=list)
    wanted: list[int] = dataclasses.field(default_factory=list)
    handed_on: list[Any] = dataclasses.field(default_factory=list)
    eqns: list[jex.JaxprEqn] = dataclasses.field(default_factory=list)


def divided(
    closed: jex.ClosedJaxpr, demands: Sequence[Sequence[int]], wide: bool
) -> list[NumericPart]:
    """Parts that compute, at each time, the outputs demanded then, and nothing twice.

    Args:
        closed: the program.
        demands: for each time, outputs of the program. One that an earlier part computes on its way
            is given by that one.
        wide: whether it runs with 64-bit types.
    """
    division = _Division(closed.jaxpr, len(demands), wide)
    for time, outputs in enumerate(demands):
        for output in outputs:
            division.demand(output, time)
    return division.parts


class _Division:
    def __init__(self, jaxpr: jex.Jaxpr, times: int, wide: bool):
        self.parts = [NumericPart() for _ in range(times)]
        self._jaxpr = jaxpr
        self._wide = wide
        self._makers = {var: i for i, eqn in enumerate(jaxpr.eqns) for var in eqn.outvars}
        self._inputs = set(jaxpr.invars)
        self._consts = set(jaxpr.constvars)
        self._times: dict[int, int] = {}
        self._placed: list[set[int]] = [set() for _ in range(times)]

    def demand(self, output: int, time: int) -> None:
        atom = self._jaxpr.outvars[output]
        if isinstance(atom, jex.Var) and atom in self._makers:
            time = self._times.get(self._makers[atom], time)
        self._place([atom], time)
        self.parts[time].wanted.append(output)

    def _place(self, atoms: Sequence[Any], time: int) -> None:
        """Puts what makes ``atoms`` into the part, or has them handed on to it."""
        waiting = list(atoms)
        part, placed = self.parts[time], self._placed[time]
        while waiting:
            atom = waiting.pop()
            if isinstance(atom, jex.Literal) or atom in self._consts:
                continue
            if atom in self._inputs:
                _add(part.takes, atom)
                continue
            maker = self._makers[atom]
            if maker in placed:
                continue
            earlier = self._times.setdefault(maker, time)
            if earlier < time and self._can_be_handed_on(atom):
                _add(self.parts[earlier].handed_on, atom)
                _add(part.takes, atom)
                continue
            placed.add(maker)
            part.eqns = [self._jaxpr.eqns[i] for i in sorted(placed)]
            waiting.extend(self._jaxpr.eqns[maker].invars)

    def _can_be_handed_on(self, var: Any) -> bool:
        """Not keys, which are no columns, nor what JAX would narrow on its way in."""
        dtype = var.aval.dtype
        if jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
            return False
        return self._wide or dtype.itemsize < 8


def _add(items: list[Any], item: Any) -> None:
    if not any(other is item for other in items):
        items.append(item)


def program_of(closed: jex.ClosedJaxpr, part: NumericPart, takes: Sequence[Any]) -> jex.ClosedJaxpr:
    """The part as a program over ``takes``, its own and perhaps others, to all that it gives."""
    gives = [*(closed.jaxpr.outvars[output] for output in part.wanted), *part.handed_on]
    read = {
        atom
        for atoms in (*(eqn.invars for eqn in part.eqns), gives)
        for atom in atoms
        if isinstance(atom, jex.Var)
    }
    consts = [
        (var, value)
        for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True)
        if var in read
    ]
    jaxpr = jex.Jaxpr(
        [var for var, _ in consts],
        list(takes),
        gives,
        part.eqns,
        closed.jaxpr.effects,
        unnamed(closed.jaxpr),
    )
    return jex.ClosedJaxpr(jaxpr, [value for _, value in consts])


Origin = int | Constant
"""A slot, or a value that is the same for every element. The first slots are a trace's values."""


@dataclasses.dataclass(frozen=True)
class NativeCall:
    """A native operation between slots."""

    operation: NativeOperation
    arguments: tuple[Origin, ...]
    specs: tuple[TensorSpec, ...]
    gives: tuple[int, ...]
    results: tuple[TensorSpec, ...]


@dataclasses.dataclass(frozen=True)
class CompiledPart:
    """A program between slots, as a function of elements of its own."""

    takes: tuple[int, ...]
    gives: tuple[int, ...]
    element: ElementSpec
    trace: Trace


@dataclasses.dataclass(frozen=True)
class Segments:
    """What runs, in order, and where the results then are."""

    parts: tuple[NativeCall | CompiledPart, ...]
    results: tuple[Origin, ...]


def cut(trace: Trace) -> Segments:
    """Native operations as early as what they take is there, and as few programs as that allows."""
    return _Cutting(trace).segments()


class _Cutting:
    def __init__(self, trace: Trace):
        self._trace = trace
        self._specs: list[TensorSpec] = list(trace.values)
        self._programs = {
            wide: program
            for wide, program in ((False, trace.narrow), (True, trace.wide))
            if program is not None
        }
        self._feeds = {wide: dependence(p.jaxpr) for wide, p in self._programs.items()}
        self._routes = _computed(
            [*trace.routes, *(route for step in trace.natives for route in step.arguments)]
        )
        self._groups: dict[int, int] = {}
        self._groups_of_natives = [self._group(step) for step in trace.natives]
        self._times = max(self._groups_of_natives, default=-1) + 2
        self._slots: dict[tuple[bool, int], int] = {}
        self._places: dict[Any, int] = {}

    def _group(self, step: NativeStep) -> int:
        """How many programs must have run before it."""
        group = max((self._earliest(route) for route in step.arguments), default=0)
        for i in range(len(step.results)):
            self._groups[step.first + i] = group
        return group

    def _earliest(self, route: Route) -> int:
        if isinstance(route, Passed):
            return self._groups.get(route.leaf, 0)
        if isinstance(route, Constant):
            return 0
        fed = (self._trace.inputs[i] for i in self._feeds[route.wide][route.output])
        return max((self._groups[value] + 1 for value in fed if value in self._groups), default=0)

    def segments(self) -> Segments:
        parts: list[NativeCall | CompiledPart] = []
        divisions = {wide: self._divided(wide) for wide in self._programs}
        for time in range(self._times):
            compiled = self._compiled({wide: pieces[time] for wide, pieces in divisions.items()})
            if compiled is not None:
                parts.append(compiled)
            parts += [
                self._native(step)
                for step, group in zip(self._trace.natives, self._groups_of_natives, strict=True)
                if group == time
            ]
        return Segments(tuple(parts), tuple(self._origin(r) for r in self._trace.routes))

    def _divided(self, wide: bool) -> list[NumericPart]:
        demands: list[list[int]] = [[] for _ in range(self._times)]
        for step, group in zip(self._trace.natives, self._groups_of_natives, strict=True):
            demands[group] += _outputs(step.arguments, wide)
        demands[-1] += _outputs(self._trace.routes, wide)
        return divided(self._programs[wide], demands, wide)

    def _compiled(self, pieces: dict[bool, NumericPart]) -> CompiledPart | None:
        """The programs of one time, together."""
        names = {
            wide: {self._place(wide, var): var for var in piece.takes}
            for wide, piece in pieces.items()
        }
        takes = sorted({slot for taken in names.values() for slot in taken})
        programs: dict[bool, jex.ClosedJaxpr] = {}
        routes: list[Computed] = []
        gives: list[int] = []
        for wide, piece in pieces.items():
            given = self._given(wide, piece)
            if not given:
                continue
            invars = [names[wide].get(slot) or _unused(self._specs[slot]) for slot in takes]
            programs[wide] = program_of(self._programs[wide], piece, invars)
            slots = [self._slot(route) for route in given]
            count = len(piece.wanted)
            for output, slot in zip(piece.wanted, slots[:count], strict=True):
                self._slots[(wide, output)] = slot
            self._places.update(zip(piece.handed_on, slots[count:], strict=True))
            routes += given
            gives += slots
        if not routes:
            return None
        trace = Trace(
            _flat([_spec_of(route) for route in routes]),
            tuple(routes),
            tuple(range(len(takes))),
            programs.get(False),
            programs.get(True),
        )
        element = _flat([self._specs[slot] for slot in takes])
        return CompiledPart(tuple(takes), tuple(gives), element, trace)

    def _given(self, wide: bool, piece: NumericPart) -> list[Computed]:
        """What a part's program gives: results as they are to be, other things as they are."""
        routes = [self._routes[(wide, output)] for output in piece.wanted]
        found = [Computed(wide, i, r.dtype, r.shape) for i, r in enumerate(routes)]
        for var in piece.handed_on:
            dtype, shape = np.dtype(var.aval.dtype), tuple(var.aval.shape)
            found.append(Computed(wide, len(found), dtype, shape))
        return found

    def _slot(self, route: Computed) -> int:
        self._specs.append(_spec_of(route))
        return len(self._specs) - 1

    def _place(self, wide: bool, var: Any) -> int:
        """The slot of an input of the whole program, or of what an earlier part hands on."""
        if var in self._places:
            return self._places[var]
        return self._trace.inputs[self._programs[wide].jaxpr.invars.index(var)]

    def _native(self, step: NativeStep) -> NativeCall:
        return NativeCall(
            step.operation,
            tuple(self._origin(route) for route in step.arguments),
            step.specs,
            tuple(range(step.first, step.first + len(step.results))),
            step.results,
        )

    def _origin(self, route: Route) -> Origin:
        if isinstance(route, Constant):
            return route
        return route.leaf if isinstance(route, Passed) else self._slots[(route.wide, route.output)]


def _computed(routes: Iterable[Route]) -> dict[tuple[bool, int], Computed]:
    return {(r.wide, r.output): r for r in routes if isinstance(r, Computed)}


def _outputs(routes: Iterable[Route], wide: bool) -> list[int]:
    return [output for kind, output in _computed(routes) if kind == wide]


def _spec_of(route: Computed) -> TensorSpec:
    return TensorSpec(route.shape, route.dtype)


def _unused(spec: TensorSpec) -> Any:
    """A variable for a column that only the other program reads."""
    return jex.Var(jax.core.ShapedArray(tuple(dim or 0 for dim in spec.shape), spec.dtype))


def _flat(leaves: list[TensorSpec]) -> ElementSpec:
    return ElementSpec(tuple_of([LEAF_STRUCTURE] * len(leaves)), tuple(leaves))


_LARGEST_DIVISOR = 2.0**100
"""Far from where the reciprocal is no normal number."""


def arithmetic_of(part: CompiledPart) -> tuple[Arithmetic, ...] | None:
    """The steps from a program's only input, float32, to its only result, if that is all it does.

    At most a sum and a product or quotient: of longer chains XLA makes others.
    """
    trace = part.trace
    if trace.wide is not None or trace.narrow is None or len(part.takes) != 1:
        return None
    (route, *others) = trace.routes
    closed = trace.narrow
    (value,) = closed.jaxpr.invars
    if others or not isinstance(route, Computed) or route.dtype != np.float32:
        return None
    if value.aval.dtype != np.float32 or value.aval.shape != route.shape or not route.shape:
        return None
    steps = _steps(closed, value, route.shape[-1])
    return steps if steps is not None and _is_short(steps) else None


def _steps(closed: jex.ClosedJaxpr, value: Any, channels: int) -> tuple[Arithmetic, ...] | None:
    known: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    steps: list[Arithmetic] = []
    for equation in closed.jaxpr.eqns:
        if not equation.invars or len(equation.outvars) != 1:
            return None
        name, (first, *rest), (out,) = (
            equation.primitive.name,
            equation.invars,
            equation.outvars,
        )
        if name == "broadcast_in_dim" and first is not value and not rest:
            known[out] = _broadcast(_constant(first, known), equation.params)
            continue
        if name not in OPERATORS or first is not value:
            return None
        constants = _for_channels(_constant(rest[0], known), channels)
        if constants is None or out.aval.shape != value.aval.shape:
            return None
        steps.append(Arithmetic(name, constants))
        value = out
    return tuple(steps) if closed.jaxpr.outvars == [value] else None


def _constant(var: Any, known: dict[Any, Any]) -> Any:
    if isinstance(var, jex.Literal):
        return np.asarray(var.val, getattr(var.aval, "dtype", None))
    return known.get(var)


def _broadcast(constant: Any, params: dict[str, Any]) -> np.ndarray | None:
    """A constant with dimensions of one more, if none of it is repeated."""
    if constant is None or np.size(constant) != int(np.prod(params["shape"])):
        return None
    kept = tuple(params["broadcast_dimensions"])
    return None if list(kept) != sorted(kept) else np.reshape(constant, params["shape"])


def _for_channels(constant: Any, channels: int) -> tuple[float, ...] | None:
    """One number, or as many as there are channels, if that is what the constant is."""
    if constant is None:
        return None
    array = np.asarray(constant)
    if array.dtype != np.float32 or array.size not in (1, channels):
        return None
    if array.size > 1 and array.shape[-1] != channels:
        return None
    return tuple(array.reshape(-1).tolist())


def _is_short(steps: tuple[Arithmetic, ...]) -> bool:
    sums = [step.operator in SUMS for step in steps]
    return sums in ([True], [False], [True, False], [False, True]) and not any(
        step.operator == "div" and not _may_divide(step.constants) for step in steps
    )


def _may_divide(divisors: tuple[float, ...]) -> bool:
    return all(1 / _LARGEST_DIVISOR < abs(divisor) < _LARGEST_DIVISOR for divisor in divisors)


Segment = NativeCall | CompiledPart


def fused(segments: Segments) -> Segments:
    """The same with operations in one call that offer it (``NativeOperation.after``, ``then``)."""
    uses = collections.Counter(_slots_taken(segments))
    parts: list[Segment] = []
    for part in segments.parts:
        before = _only_source(parts, part, uses)
        joined = None if before is None else _joined(before, part)
        parts = [one for one in parts if joined is None or one is not before]
        parts.append(joined or part)
    return Segments(tuple(parts), segments.results)


def _slots_taken(segments: Segments) -> Iterator[int]:
    taken = [segments.results]
    taken += [
        part.arguments if isinstance(part, NativeCall) else part.takes for part in segments.parts
    ]
    return (origin for origins in taken for origin in origins if isinstance(origin, int))


def _only_source(
    parts: Sequence[Segment], part: Segment, uses: collections.Counter[int]
) -> NativeCall | None:
    """The call whose one result a part of one argument takes, if nothing else does."""
    arguments = part.arguments if isinstance(part, NativeCall) else part.takes
    if len(arguments) != 1:
        return None
    (origin,) = arguments
    if not isinstance(origin, int) or uses[origin] != 1:
        return None
    calls = (one for one in parts if isinstance(one, NativeCall))
    return next((call for call in calls if call.gives == (origin,)), None)


def _joined(first: NativeCall, second: Segment) -> NativeCall | None:
    if isinstance(second, CompiledPart):
        return _computing(first, second)
    operation = second.operation.after(first.operation)
    if operation is None:
        return None
    return dataclasses.replace(
        second, operation=operation, arguments=first.arguments, specs=first.specs
    )


def _computing(first: NativeCall, second: CompiledPart) -> NativeCall | None:
    """The call that also does a program's arithmetic."""
    steps = arithmetic_of(second)
    operation = None if steps is None else first.operation.then(steps)
    if operation is None:
        return None
    return dataclasses.replace(first, operation=operation, gives=second.gives)
