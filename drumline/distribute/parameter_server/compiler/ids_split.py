"""The part of a step that computes which rows it looks up, as a program of its own.

`split_ids` traces the step once more, for its ids alone, and leaves out all that they do not depend
on. The operations that are left are translated into numpy's where that is possible (`Translation`);
otherwise they are compiled. A lookup of the same ids in the same table is made once.

`split` calls it on the chief while a step is traced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.distribute.parameter_server.compiler.exporting import Input, export_function
from drumline.distribute.parameter_server.compiler.step_program import (
    INTEGERS_ONLY,
    OPERATIONS,
    PARAMETERS,
    IdsProgram,
)
from drumline.training import jax_internals

LARGEST_CONSTANT = 4096
"""How many elements a constant may have that is written into the operations."""

_INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "remat2": "jaxpr"}


class NotForNumpy(Exception):
    """The program computes ids in a way that has to be compiled."""


class Translation:
    """Operations for numpy, each different one once.

    Args:
        inputs: how many values the program is given.

    Attributes:
        operations: as `IdsProgram` has them.
    """

    def __init__(self, inputs: int) -> None:
        self.operations: list[Any] = []
        self._inputs = inputs
        self._known: dict[str, int] = {}

    def translate(self, jaxpr: Any, consts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """The operands that hold the results of a program of these operands.

        Raises:
            NotForNumpy: if it has an operation that numpy is not known to do alike.
        """
        constants = dict(zip(jaxpr.constvars, consts, strict=True))
        values = dict(zip(jaxpr.invars, operands, strict=True))

        def read(atom: Any) -> Any:
            if jax_internals.is_literal(atom):
                return _constant(atom.val)
            return _constant(constants[atom]) if atom in constants else values[atom]

        for eqn in jaxpr.eqns:
            given = [read(atom) for atom in eqn.invars]
            name = eqn.primitive.name
            if name in _INLINED:
                inner, inner_consts = jax_internals.opened(eqn.params[_INLINED[name]])
                outputs = self.translate(inner, inner_consts, given)
            else:
                outputs = [self._add(eqn, given)]
            values.update(zip(eqn.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _add(self, eqn: Any, operands: list[Any]) -> Any:
        name = eqn.primitive.name
        _require_alike(eqn)
        parameters = {each: _plain(eqn.params[each]) for each in PARAMETERS.get(name, ())}
        if operands and not any(isinstance(each, int) for each in operands):
            constants = [np.asarray(*each) for each in operands]
            return _constant(OPERATIONS[name](*constants, **parameters))
        operation = [name, operands, parameters]
        known = json.dumps(operation)
        if known not in self._known:
            self._known[known] = self._inputs + len(self.operations)
            self.operations.append(operation)
        return self._known[known]


def _require_alike(eqn: Any) -> None:
    name = eqn.primitive.name
    dtypes = [atom.aval.dtype for atom in (*eqn.invars, *eqn.outvars)]
    if not all(isinstance(dtype, np.dtype) for dtype in dtypes):  # JAX's random keys
        raise NotForNumpy(name)
    integers = all(dtype.kind in "iub" for dtype in dtypes)
    if name not in OPERATIONS or (name in INTEGERS_ONLY and not integers):
        raise NotForNumpy(name)
    if any(dtype.kind not in "iubf" for dtype in dtypes):
        raise NotForNumpy(name)
    if name == "reshape" and eqn.params.get("dimensions") is not None:
        raise NotForNumpy(name)


def _constant(value: Any) -> Any:
    array = np.asarray(value)
    if array.size > LARGEST_CONSTANT or array.dtype.kind not in "iubf":
        raise NotForNumpy("constant")
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise NotForNumpy("constant")
    return [array.tolist(), array.dtype.name]


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (int, bool)):
        return value
    if isinstance(value, np.integer):
        return int(value)
    return np.dtype(value).name


Evaluate = Callable[[Any, dict[Any, Any], dict[str, int]], list[Any]]
"""Evaluates the step: from how rows are located, the values of its inputs and the numbers of rows
to its outputs."""


@dataclass(frozen=True)
class Accesses:
    """Where a step looks up rows.

    Attributes:
        places: for each lookup in the order of the step, the table's key, where its ids start
            among the table's, and their shape.
        counts: for each table that is looked up, how many ids there are.
    """

    places: tuple[tuple[str, int, tuple[int, ...]], ...]
    counts: Mapping[str, int]

    def locator(self, inverses: Mapping[str, Any]) -> Callable[[str, Any], Any]:
        """From a lookup's ids to where the rows are: by a table's inverse or, without one, a slice.

        A table without an inverse has a row for each id.
        """
        following = iter(self.places)

        def locate(key: str, ids: Any) -> Any:
            _, start, shape = next(following)
            own = slice(start, start + int(np.prod(shape, dtype=int)))
            return inverses[key][own].reshape(shape) if key in inverses else own

        return locate


def split_ids(
    evaluate: Evaluate,
    inputs: Sequence[Input],
    tables: Mapping[str, tuple[int, ...]],
    platforms: Sequence[str],
) -> tuple[Accesses, IdsProgram]:
    """The lookups of a step, each different one once, and the program that computes their ids.

    Args:
        evaluate: the step.
        inputs: what it takes but for tables.
        tables: their shapes.
        platforms: on which the program may run, if it has to be compiled.
    """
    keys: list[str] = []

    def collect(*arrays: Any) -> list[Any]:
        found: list[Any] = []
        keys.clear()

        def locate(key: str, ids: Any) -> Any:
            keys.append(key)
            found.append(ids)
            return jnp.zeros_like(ids)

        values = {
            (each.kind, each.key if each.index is None else each.index): array
            for each, array in zip(inputs, arrays, strict=True)
        }
        evaluate(locate, values, dict.fromkeys(tables, 1))
        return found

    specs = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in inputs]
    traced = jax.make_jaxpr(collect)(*specs)
    jaxpr, used = jax_internals.without_dead_code(traced.jaxpr)
    needed = [each for each, is_used in zip(inputs, used, strict=True) if is_used]
    shapes = [tuple(aval.shape) for aval in traced.out_avals]
    translation = Translation(len(needed))
    try:
        operands = translation.translate(jaxpr, traced.consts, list(range(len(needed))))
    except NotForNumpy:
        names = [json.dumps(str(id(variable))) for variable in jaxpr.outvars]
        accesses, chosen = _told_apart(keys, names, shapes)
        exported = _exported(jaxpr, traced.consts, chosen, needed, platforms)
        counts = tuple(accesses.counts.values())
        program = IdsProgram(tuple(chosen), counts, tuple(needed), (), (), exported)
        return accesses, program
    accesses, chosen = _told_apart(keys, [json.dumps(each) for each in operands], shapes)
    outputs = tuple(tuple(operands[i] for i in group) for group in chosen.values())
    counts = tuple(accesses.counts.values())
    operations = tuple(tuple(each) for each in translation.operations)
    return accesses, IdsProgram(tuple(chosen), counts, tuple(needed), operations, outputs)


def _told_apart(
    keys: Sequence[str], names: Sequence[str], shapes: Sequence[tuple[int, ...]]
) -> tuple[Accesses, dict[str, list[int]]]:
    """The lookups, and for each table which of them are different; equal names are the same ids."""
    starts: dict[tuple[str, str], int] = {}
    counts: dict[str, int] = {}
    chosen: dict[str, list[int]] = {}
    places = []
    for position, (key, name, shape) in enumerate(zip(keys, names, shapes, strict=True)):
        if (key, name) not in starts:
            starts[key, name] = counts.get(key, 0)
            counts[key] = starts[key, name] + int(np.prod(shape, dtype=int))
            chosen.setdefault(key, []).append(position)
        places.append((key, starts[key, name], shape))
    return Accesses(tuple(places), counts), chosen


def _exported(
    jaxpr: Any,
    consts: Sequence[Any],
    chosen: Mapping[str, Sequence[int]],
    inputs: Sequence[Input],
    platforms: Sequence[str],
) -> bytes:
    def compute(*arrays: Any) -> list[Any]:
        found = jax.core.eval_jaxpr(jaxpr, consts, *arrays)
        return [jnp.concatenate([jnp.ravel(found[i]) for i in group]) for group in chosen.values()]

    specs = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in inputs]
    return export_function(compute, specs, platforms)
