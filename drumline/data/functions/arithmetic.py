"""Programs that are nothing but arithmetic with constants."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.extend import core as jex

from drumline.data.functions.routes import Computed
from drumline.data.functions.segments import CompiledPart
from drumline.data.native.arithmetic import OPERATORS, SUMS, Arithmetic

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
