"""Whether a function gives the same program each time it is traced."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex

from drumline.data.functions.extracted import native_calls
from drumline.data.native.symbol import Call


@contextlib.contextmanager
def random_states_kept() -> Iterator[None]:
    """Puts Python's and numpy's global random states back afterwards: tracing is not a use."""
    python, legacy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)


def same_program(a: jex.ClosedJaxpr, b: jex.ClosedJaxpr) -> bool:
    """Whether two traces are one program with equal constants."""
    return (
        str(a.jaxpr) == str(b.jaxpr)
        and _calls(a.jaxpr) == _calls(b.jaxpr)
        and same_values(a.consts, b.consts)
        and same_values(inner_consts(a.jaxpr), inner_consts(b.jaxpr))
    )


def _calls(jaxpr: jex.Jaxpr) -> list[Call]:
    """What no text of a program tells apart: operations with their arguments."""
    return [eqn.params["call"] for eqn in native_calls(jaxpr)]


def same_values(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two lists of arrays agree in dtypes, shapes and bits."""
    return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))


def _same(a: Any, b: Any) -> bool:
    x, y = plain_array(a), plain_array(b)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype == object:
        return bool((x == y).all())
    return x.tobytes() == y.tobytes()


def plain_array(value: Any) -> np.ndarray:
    """A constant as numpy has it; random keys as their data."""
    if jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def inner_consts(jaxpr: jex.Jaxpr) -> list[Any]:
    """The constants of programs inside a program."""
    found: list[Any] = []
    for inner in _closed_or_not(jaxpr):
        if isinstance(inner, jex.ClosedJaxpr):
            found += inner.consts
        found += inner_consts(_opened(inner))
    return found


def inner_programs(jaxpr: jex.Jaxpr) -> list[jex.Jaxpr]:
    """The programs right inside a program."""
    return [_opened(inner) for inner in _closed_or_not(jaxpr)]


def _closed_or_not(jaxpr: jex.Jaxpr) -> list[jex.Jaxpr | jex.ClosedJaxpr]:
    values = (value for eqn in jaxpr.eqns for value in eqn.params.values())
    items = (item for v in values for item in (v if isinstance(v, tuple | list) else (v,)))
    return [item for item in items if isinstance(item, jex.ClosedJaxpr | jex.Jaxpr)]


def _opened(program: jex.Jaxpr | jex.ClosedJaxpr) -> jex.Jaxpr:
    return program.jaxpr if isinstance(program, jex.ClosedJaxpr) else program
