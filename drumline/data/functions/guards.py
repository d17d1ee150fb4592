"""Checks for what a compiled program would get wrong without saying so.

XLA clamps indexes that are out of bounds and divides integers by zero without an error; Python and
numpy raise. The checks are computed beside the program, a flag per row. Floats that become bytes
are truncated first, which XLA does not always do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

_DIVISIONS = ("remainder", "floor_divide", "fmod", "mod")
_IMAGES = "/drumline/image/"
_NOT_THE_USERS = ("/jax/", "/drumline/data/", _IMAGES)
_CALLS = ("jit", "pjit", "closed_call")


@dataclasses.dataclass
class Guards:
    """The checks a program carries: flag value k stands for ``messages[k - 1]``."""

    messages: list[tuple[type[Exception], str]] = dataclasses.field(default_factory=list)

    def add(self, kind: type[Exception], message: str) -> int:
        """The flag value for a message."""
        if (kind, message) not in self.messages:
            self.messages.append((kind, message))
        return self.messages.index((kind, message)) + 1


def row_error(guards: Guards, flag: int) -> Exception:
    """The exception for a row's flag."""
    kind, message = guards.messages[flag - 1]
    return kind(message)


def guarded(
    closed: jex.ClosedJaxpr, inputs: Sequence[Any], guards: Guards
) -> tuple[list[Any], Any]:
    """Evaluates a program and, beside its outputs, an int32 flag: 0, or which check failed."""
    evaluation = _Evaluation(guards)
    outputs = evaluation.run(closed.jaxpr, closed.consts, inputs)
    return outputs, evaluation.flag


def as_traced(program: jex.ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
    """The inputs in the types the program was traced for: 32 bits, where it has no others."""
    pairs = zip(inputs, program.in_avals, strict=True)
    return [jax.lax.convert_element_type(value, aval.dtype) for value, aval in pairs]


class _Evaluation:
    def __init__(self, guards: Guards):
        self.guards = guards
        self.flag: Any = jnp.int32(0)

    def run(self, jaxpr: jex.Jaxpr, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = {}

        def read(var: Any) -> Any:
            return var.val if isinstance(var, jex.Literal) else values[var]

        values.update(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, inputs, strict=True))
        for eqn in jaxpr.eqns:
            operands = [read(var) for var in eqn.invars]
            outputs = self._apply(eqn, operands)
            values.update(zip(eqn.outvars, outputs, strict=True))
        return [read(var) for var in jaxpr.outvars]

    def _apply(self, eqn: jex.JaxprEqn, operands: list[Any]) -> Sequence[Any]:
        name = eqn.primitive.name
        inner = eqn.params.get("jaxpr")
        if name in _CALLS and inner is not None:
            if eqn.params.get("name") in _DIVISIONS:
                self._check_division(eqn, operands)
            return self.run(inner.jaxpr, inner.consts, operands)
        if name in ("div", "rem"):
            self._check_division(eqn, operands)
        elif name == "dynamic_slice" and _from_indexing(eqn):
            self._check_slice(eqn, operands)
        elif name == "gather" and "PROMISE" in str(eqn.params["mode"]):
            self._check_gather(eqn, operands)
        elif name == "convert_element_type" and _to_bytes(eqn):
            operands = [jnp.trunc(operands[0])]
        return _bind(eqn, operands)

    def _fail_where(self, bad: Any, kind: type[Exception], message: str, eqn: jex.JaxprEqn) -> None:
        line = _user_line(eqn)
        flag = self.guards.add(kind, f"{message} at {line}" if line else message)
        self.flag = jnp.where((self.flag == 0) & jnp.any(bad), jnp.int32(flag), self.flag)

    def _check_division(self, eqn: jex.JaxprEqn, operands: list[Any]) -> None:
        divisor = operands[1]
        aval: Any = eqn.invars[1].aval
        if not np.issubdtype(aval.dtype, np.integer):
            return
        if not isinstance(divisor, jax.core.Tracer) and np.all(np.asarray(divisor) != 0):
            return
        self._fail_where(divisor == 0, ZeroDivisionError, "integer division by zero", eqn)

    def _check_slice(self, eqn: jex.JaxprEqn, operands: list[Any]) -> None:
        array, starts = operands[0], operands[1:]
        for axis, (start, size) in enumerate(zip(starts, eqn.params["slice_sizes"], strict=True)):
            if not isinstance(start, jax.core.Tracer):
                continue
            most = array.shape[axis] - size
            message = f"index out of bounds for axis {axis} with size {array.shape[axis]}"
            self._fail_where((start < 0) | (start > most), IndexError, message, eqn)

    def _check_gather(self, eqn: jex.JaxprEqn, operands: list[Any]) -> None:
        array, starts = operands
        if not isinstance(starts, jax.core.Tracer):
            return
        for i, axis in enumerate(eqn.params["dimension_numbers"].start_index_map):
            start = starts[..., i]
            most = array.shape[axis] - eqn.params["slice_sizes"][axis]
            message = f"index out of bounds for axis {axis} with size {array.shape[axis]}"
            self._fail_where((start < 0) | (start > most), IndexError, message, eqn)


def _bind(eqn: jex.JaxprEqn, operands: list[Any]) -> Sequence[Any]:
    bound = eqn.primitive.get_bind_params(eqn.params)
    # Before JAX 0.10 functions among the parameters came apart from the others.
    subfuns, params = bound if isinstance(bound, tuple) else ((), bound)
    with eqn.ctx.manager:
        result = eqn.primitive.bind(*subfuns, *operands, **params)
    return result if eqn.primitive.multiple_results else [result]


def _to_bytes(eqn: jex.JaxprEqn) -> bool:
    """Whether floats become integers of 8 bits.

    After a reduction XLA's kernels for the CPU round them to the nearest, instead of towards zero.
    """
    have: Any = eqn.invars[0].aval
    to = np.dtype(eqn.params["new_dtype"])
    return to.kind in "iu" and to.itemsize == 1 and jnp.issubdtype(have.dtype, jnp.floating)


def _frames(eqn: jex.JaxprEqn) -> list[Any]:
    traceback = getattr(eqn.source_info, "traceback", None)
    return [] if traceback is None else list(traceback.frames)


def _from_indexing(eqn: jex.JaxprEqn) -> bool:
    """Whether ``x[i]`` made the slice.

    ``lax.dynamic_slice`` itself clamps by contract, ``x.at[i].get()`` does what its mode says.
    Parts of images are as ``x[i:j]``.
    """
    if any(_IMAGES in f.file_name.replace("\\", "/") for f in _frames(eqn)):
        return True
    frames = [f for f in _frames(eqn) if "numpy" in f.file_name]
    explicit = any(f.function_name.split(".")[-1] == "get" for f in frames)
    return not explicit and any("index" in f.function_name + f.file_name for f in frames)


def _user_line(eqn: jex.JaxprEqn) -> str:
    for frame in _frames(eqn):
        path = frame.file_name.replace("\\", "/")
        if not any(part in path for part in _NOT_THE_USERS) and not path.startswith("<"):
            return f"{path.rsplit('/', 1)[-1]}:{frame.line_num}"
    return ""
