"""A traced function cut into native and compiled segments."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
from jax.core import ShapedArray
from jax.extend import core as jex

from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.elements.structure import LEAF_STRUCTURE, tuple_of
from drumline.data.functions.dependence import dependence
from drumline.data.functions.partition import Part, divided, program_of
from drumline.data.functions.routes import Computed, Constant, Passed, Route
from drumline.data.functions.trace import NativeStep, Trace
from drumline.data.native.operation import NativeOperation

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

    def _divided(self, wide: bool) -> list[Part]:
        demands: list[list[int]] = [[] for _ in range(self._times)]
        for step, group in zip(self._trace.natives, self._groups_of_natives, strict=True):
            demands[group] += _outputs(step.arguments, wide)
        demands[-1] += _outputs(self._trace.routes, wide)
        return divided(self._programs[wide], demands, wide)

    def _compiled(self, pieces: dict[bool, Part]) -> CompiledPart | None:
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

    def _given(self, wide: bool, piece: Part) -> list[Computed]:
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
    return jex.Var(ShapedArray(tuple(dim or 0 for dim in spec.shape), spec.dtype))


def _flat(leaves: list[TensorSpec]) -> ElementSpec:
    return ElementSpec(tuple_of([LEAF_STRUCTURE] * len(leaves)), tuple(leaves))
