"""Operations that eager tapes record with compiled derivatives: `CompiledOperation`.

JAX linearizes an operation by tracing its derivative again with each call, for ten times what
running it costs. Here a call under a tape runs one compiled program, which computes the operation
and what its derivative needs, and records one linear equation, whose transpose runs another.

`ComputingTrace` does so with each operation of JAX's that is known to be plain, and functions that
are made `CompiledOperation` are one operation whatever they consist of.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from drumline.training import jax_internals
from drumline.training.tape.recording import Operation, RecordingTrace, same_value


class ComputingTrace(RecordingTrace):
    """The trace of a tape in whose block values are arrays that exist already."""

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        recording = self.recording
        if recording.on and any(recording.tangent(each) is not None for each in tracers):
            operation = _of_primitive(primitive, params)
            if operation is not None and not any(map(_is_wide, tracers)):
                with jax.disable_jit(False):
                    return operation.under(self, tracers)
        return super().process_primitive(primitive, tracers, params)


def _is_wide(value: Any) -> bool:
    """Whether it has 64 bits where JAX's mode is 32; those are traced under that mode."""
    wide = getattr(value, "dtype", None) in (np.float64, np.complex128)
    return wide and not jax.config.read("jax_enable_x64")


def _of_primitive(primitive: Any, params: dict[str, Any]) -> CompiledOperation | None:
    """A plain operation of JAX's, compiled; None for others."""
    if not jax_internals.is_plain(primitive):
        return None
    try:
        return _compiled_primitive(primitive, tuple(params.items()))
    except TypeError:  # a parameter that is not hashable
        return None


@functools.lru_cache(maxsize=4096)
def _compiled_primitive(primitive: Any, params: tuple[tuple[str, Any], ...]) -> CompiledOperation:
    named = dict(params)
    return CompiledOperation(lambda *arrays: primitive.bind(*arrays, **named))


class CompiledOperation:
    """A function of arrays, compiled; a tape that computes at once records it as one operation.

    Args:
        function: of arrays, without effects, and without loops of unknown length, which have no
            gradient as a whole. It gives an array, or nested ones.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._alone = jax.jit(function)
        self._linearized: dict[tuple[int, ...], CompiledOperation] = {}

    def __call__(self, *arrays: Any) -> Any:
        """What the function gives."""
        trace = jax_internals.current_trace()
        if not isinstance(trace, RecordingTrace):
            return self._alone(*arrays)
        with jax.disable_jit(False):
            return self.under(trace, arrays)

    def under(self, trace: Any, arrays: Sequence[Any]) -> Any:
        """What the function gives, computed in a trace."""
        if not isinstance(trace, ComputingTrace):
            with jax_internals.under(trace):
                return self._alone(*arrays)
        recording, parent = trace.recording, trace.parent_trace
        known = recording.tangent
        active = tuple(i for i, each in enumerate(arrays) if known(each) is not None)
        if not (recording.on and active):
            return self.under(parent, arrays)
        try:
            found = self._with_residuals(active).under(parent, arrays)
        except (NotImplementedError, ValueError):
            with jax_internals.under(trace):  # which records that it has no derivative, or raises
                return self._alone(*arrays)
        return self._record(trace, active, arrays, *found)

    def _with_residuals(self, active: tuple[int, ...]) -> CompiledOperation:
        """What the function gives, and what its derivative by the `active` arguments needs."""
        if active not in self._linearized:
            function = self._function

            def linearized(*arrays: Any) -> Any:
                return _linearized(function, active, arrays)

            self._linearized[active] = CompiledOperation(linearized)
        return self._linearized[active]

    def _record(
        self,
        trace: RecordingTrace,
        active: tuple[int, ...],
        arrays: Sequence[Any],
        outputs: list[Any],
        rest: list[Any],
        derivative: _Derivative,
    ) -> Any:
        recording, parent = trace.recording, trace.parent_trace
        inputs = {id(array) for array in arrays}
        for i in derivative.floating:
            if id(outputs[i]) in inputs or recording.is_active(outputs[i]):
                outputs[i] = same_value(outputs[i], parent)
        if not derivative.floating:
            return jax.tree.unflatten(derivative.structure, outputs)
        differentiated = [outputs[i] for i in derivative.floating]
        pull = _Pull(derivative, derivative.residuals(arrays, outputs, rest), differentiated)
        known = [recording.tangent(arrays[i]) for i in active]
        with jax_internals.under(recording.program.trace):
            tangents = _pulled_p.bind(*known, pull=pull)
        for value, tangent in zip(differentiated, tangents, strict=True):
            recording.activate(value, tangent)
        if recording.keep_operations:
            kept = {i: outputs[i] for i in derivative.floating}
            recording.operations.append(
                Operation("compiled", None, (self,), tuple(arrays), {}, kept)
            )
        return jax.tree.unflatten(derivative.structure, outputs)


@jax.tree_util.register_static
class _Derivative:
    """The transposed derivative of a function, of residuals that a program with it computes.

    Attributes:
        structure: of what the function gives.
        floating: which of its outputs have derivatives.
        places: where each residual is: among the "arrays" or the "outputs" of the function, or in
            the "rest", and its number there.
        pull: from the residuals and a cotangent for each floating output to one for each argument.
    """

    def __init__(
        self,
        structure: Any,
        floating: tuple[int, ...],
        places: list[tuple[str, int]],
        pull: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
    ) -> None:
        self.structure = structure
        self.floating = floating
        self._places = places
        count = len(places)
        self.pull = CompiledOperation(lambda *given: list(pull(given[:count], given[count:])))

    def residuals(
        self, arrays: Sequence[Any], outputs: Sequence[Any], rest: Sequence[Any]
    ) -> list[Any]:
        """The residuals, those of numpy's arrays copied, since these may be changed."""
        where = {"arrays": arrays, "outputs": outputs, "rest": rest}
        found = [where[kind][number] for kind, number in self._places]
        return [each.copy() if isinstance(each, np.ndarray) else each for each in found]


def _linearized(
    function: Callable[..., Any], active: tuple[int, ...], arrays: Sequence[Any]
) -> tuple[list[Any], list[Any], _Derivative]:
    """Traced: the outputs, the residuals that are neither arguments nor outputs, the derivative."""
    shape: list[Any] = []

    def of_active(*values: Any) -> tuple[list[Any], list[Any]]:
        given = list(arrays)
        for place, value in zip(active, values, strict=True):
            given[place] = value
        outputs, structure = jax.tree.flatten(function(*given))
        floating = tuple(i for i, each in enumerate(outputs) if jax_internals.is_inexact(each))
        shape[:] = structure, floating
        return [outputs[i] for i in floating], outputs

    differentiated, pull, outputs = jax.vjp(of_active, *(arrays[i] for i in active), has_aux=True)
    structure, floating = shape
    for i, value in zip(floating, differentiated, strict=True):
        outputs[i] = value
    residuals, form = jax.tree.flatten(pull)
    known = {id(each): ("outputs", i) for i, each in enumerate(outputs)}
    known |= {id(each): ("arrays", i) for i, each in enumerate(arrays)}
    rest: list[Any] = []
    places = []
    for residual in residuals:
        if id(residual) not in known:
            known[id(residual)] = "rest", len(rest)
            rest.append(residual)
        places.append(known[id(residual)])

    def pulled(residuals: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        return jax.tree.unflatten(form, residuals)(list(cotangents))

    return outputs, rest, _Derivative(structure, floating, places, pulled)


class _Pull:
    """A derivative with its residuals: what an equation of a tape's linear program holds.

    Attributes:
        types: of the tangents of what was computed.
    """

    def __init__(
        self, derivative: _Derivative, residuals: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        self._derivative = derivative
        self._residuals = residuals
        self._wide = bool(jax.config.read("jax_enable_x64"))
        self.types = tuple(map(jax_internals.tangent_type, outputs))

    def __call__(self, cotangents: Sequence[Any]) -> Any:
        same = self._wide == bool(jax.config.read("jax_enable_x64"))
        with contextlib.nullcontext() if same else jax.enable_x64(self._wide):
            return self._derivative.pull(*self._residuals, *cotangents)


_pulled_p = jax_internals.pulled_primitive("compiled_operation")
"""The linear equation that a tape records; its parameter `pull` is a `_Pull`."""
