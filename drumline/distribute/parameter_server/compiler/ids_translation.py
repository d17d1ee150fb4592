"""Translating the program that computes a step's ids into operations for numpy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.compiler.numpy_operations import (
    INTEGERS_ONLY,
    OPERATIONS,
    PARAMETERS,
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
