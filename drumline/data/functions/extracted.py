"""A traced program with its calls of native operations taken out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from jax.extend import core as jex

from drumline.data.elements.spec import TensorSpec
from drumline.data.functions.block_length import subjaxprs
from drumline.data.functions.routes import Passed
from drumline.data.native.symbol import Call, is_symbolic, native

_INLINED = ("jit", "pjit", "closed_call")

Source = Passed | int
"""Where a value comes from: a value as it is, or an output of the program over numbers."""


@dataclasses.dataclass
class Extracted:
    """A program over numbers, and the calls that stand between its parts.

    Values are the element's leaves and, behind them, the results of the calls in order.

    Attributes:
        program: over the values that are numbers; what it takes of calls' results and what these
            take of it makes it no function that could run at once.
        calls: in the order of the user's function.
        operands: for each call, where the arguments that are not fixed come from.
        results: where the user's results come from.
    """

    program: jex.ClosedJaxpr
    calls: list[Call]
    operands: list[list[Source]]
    results: list[Source]


class MisplacedCall(Exception):
    """A native operation stands where no program can be divided; the message says where."""


def native_calls(jaxpr: jex.Jaxpr) -> Iterator[jex.JaxprEqn]:
    """Equations that call native operations, at any depth."""
    for eqn in jaxpr.eqns:
        if eqn.primitive is native:
            yield eqn
        for inner in subjaxprs(eqn.params):
            yield from native_calls(inner)


def extracted(closed: jex.ClosedJaxpr, leaves: Sequence[TensorSpec]) -> Extracted:
    """Takes the calls out of a program whose inputs stand for an element's leaves.

    Raises:
        MisplacedCall: one stands inside of a loop, a branch or the like.
    """
    flat = _Flat(closed)
    numbers = [
        var for var, leaf in zip(closed.jaxpr.invars, leaves, strict=True) if not is_symbolic(leaf)
    ]
    positions = {var: i for i, var in enumerate(closed.jaxpr.invars)}
    calls: list[Call] = []
    operands: list[list[Source]] = []
    outputs: list[Any] = []

    def source(atom: Any) -> Source:
        if isinstance(atom, jex.Var) and atom in positions:
            return Passed(positions[atom])
        outputs.append(atom)
        return len(outputs) - 1

    for eqn in flat.eqns:
        if eqn.primitive is not native:
            continue
        call = eqn.params["call"]
        calls.append(call)
        operands.append([source(atom) for atom in eqn.invars])
        for var, leaf in zip(eqn.outvars, call.results.leaves, strict=True):
            positions[var] = len(positions)
            if not is_symbolic(leaf):
                numbers.append(var)
    results = [source(atom) for atom in flat.outvars]
    jaxpr = jex.Jaxpr(
        list(flat.consts),
        numbers,
        outputs,
        [eqn for eqn in flat.eqns if eqn.primitive is not native],
        closed.jaxpr.effects,
        unnamed(closed.jaxpr),
    )
    program = jex.ClosedJaxpr(jaxpr, list(flat.consts.values()))
    return Extracted(program, calls, operands, results)


def unnamed(jaxpr: jex.Jaxpr) -> Any:
    """The program's origin, for messages of JAX's, without names of arguments and results."""
    return jaxpr.debug_info._replace(arg_names=None, result_paths=None)


class _Flat:
    """A program in which jitted functions that call native operations are written out."""

    def __init__(self, closed: jex.ClosedJaxpr):
        self.consts: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        self.eqns: list[jex.JaxprEqn] = []
        self.outvars = self._run(closed.jaxpr, {}, renamed=False)

    def _run(self, jaxpr: jex.Jaxpr, names: dict[Any, Any], renamed: bool) -> list[Any]:
        def atom(item: Any) -> Any:
            return item if isinstance(item, jex.Literal) else names.get(item, item)

        for eqn in jaxpr.eqns:
            operands = [atom(item) for item in eqn.invars]
            if _divides(eqn):
                names.update(zip(eqn.outvars, self._inside(eqn, operands), strict=True))
                continue
            if renamed:
                names.update((var, jex.Var(var.aval)) for var in eqn.outvars)
            made = [atom(var) for var in eqn.outvars]
            self.eqns.append(eqn.replace(invars=operands, outvars=made))
        return [atom(item) for item in jaxpr.outvars]

    def _inside(self, eqn: jex.JaxprEqn, operands: list[Any]) -> list[Any]:
        inner = eqn.params["jaxpr"]
        names = dict(zip(inner.jaxpr.invars, operands, strict=True))
        for var, value in zip(inner.jaxpr.constvars, inner.consts, strict=True):
            names[var] = jex.Var(var.aval)
            self.consts[names[var]] = value
        return self._run(inner.jaxpr, names, renamed=True)


def _divides(eqn: jex.JaxprEqn) -> bool:
    """Whether an equation is a jitted function that calls native operations.

    Raises:
        MisplacedCall: it is another one with programs inside that do.
    """
    inside = (call for sub in subjaxprs(eqn.params) for call in native_calls(sub))
    found = next(inside, None)
    if found is None:
        return False
    if eqn.primitive.name not in _INLINED:
        raise MisplacedCall(
            f"it calls dl.{found.params['call']!r} inside of jax's {eqn.primitive.name}, where it "
            "cannot be compiled"
        )
    return True
