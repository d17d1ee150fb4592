"""A program over numbers divided into parts that run one after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from jax.extend import core as jex

from drumline.data.functions.extracted import unnamed


@dataclasses.dataclass
class Part:
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


def divided(closed: jex.ClosedJaxpr, demands: Sequence[Sequence[int]], wide: bool) -> list[Part]:
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
        self.parts = [Part() for _ in range(times)]
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


def program_of(closed: jex.ClosedJaxpr, part: Part, takes: Sequence[Any]) -> jex.ClosedJaxpr:
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
