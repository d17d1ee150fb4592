"""All that a traced function computes, for digests that are the same in every process."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend import core as jex

from drumline.data.functions.purity import inner_consts, inner_programs, plain_array
from drumline.data.functions.routes import Constant, Route
from drumline.data.functions.trace import Trace

_HOST = "callback"
"""The parameter of JAX's callbacks that holds the function they call."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def content(trace: Trace) -> tuple[Any, ...]:
    """A digest of programs, and what no text of a program shows.

    These are native operations with what they look up, and Python functions that JAX calls back.
    """
    programs = [p for p in (trace.narrow, trace.wide) if p is not None]
    called = [function for program in programs for function in _called_back(program.jaxpr)]
    constants = [route.value for step in trace.natives for route in _constants(step.arguments)]
    operations = [step.operation for step in trace.natives]
    return _programs(trace), operations, constants, called


def _programs(trace: Trace) -> str:
    """A digest of programs, their constants, native operations and where each output comes from."""
    found = hashlib.sha256()
    for route in trace.routes:
        if isinstance(route, Constant):
            _add(found, route.value)
        else:
            found.update(repr(route).encode())
    for step in trace.natives:
        found.update(_ADDRESS.sub("", repr(step)).encode())
    for program in (trace.narrow, trace.wide):
        if program is None:
            found.update(b"none")
            continue
        found.update(_ADDRESS.sub("", str(program.jaxpr)).encode())
        for constant in [*program.consts, *inner_consts(program.jaxpr)]:
            _add(found, plain_array(constant))
    return found.hexdigest()


def _add(found: Any, value: np.ndarray) -> None:
    content = repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
    found.update(f"{value.dtype}{value.shape}".encode() + content)


def _constants(routes: Sequence[Route]) -> list[Constant]:
    return [route for route in routes if isinstance(route, Constant)]


def _called_back(jaxpr: jex.Jaxpr) -> list[Any]:
    found = [eqn.params[_HOST] for eqn in jaxpr.eqns if _HOST in eqn.params]
    for inner in inner_programs(jaxpr):
        found += _called_back(inner)
    return found
