"""The part of a step that computes which rows it looks up, as a program of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.distribute.parameter_server.compiler.exporting import export_function
from drumline.distribute.parameter_server.compiler.ids_program import IdsProgram
from drumline.distribute.parameter_server.compiler.ids_translation import NotForNumpy, Translation
from drumline.distribute.parameter_server.compiler.slots import Input
from drumline.training import jax_internals

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
