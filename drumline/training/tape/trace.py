"""The JAX trace by which a tape sees the operations of its block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from drumline.training import jax_internals
from drumline.training.tape.closures import guarded, refuse_captured
from drumline.training.tape.recording import Operation, Recording
from drumline.training.tape.undifferentiable import undifferentiable


class RecordingTrace(jax_internals.Trace):
    """Computes every operation in the trace around it, and stages its tangents.

    JAX's own linearization does the work. It sees active values as its tracers only for the
    length of one operation; what goes in and comes out are the values of the outer trace.

    Args:
        recording: what is recorded.
        parent: the trace that was current before.
    """

    def __init__(self, recording: Recording, parent: Any) -> None:
        super().__init__()
        self.requires_low = False
        self.parent_trace = parent
        self.start(recording)

    def start(self, recording: Recording) -> None:
        """Record into `recording` from now on."""
        self.recording = recording
        self._linearizer = recording.program.linearizer(self.parent_trace)

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        recording = self.recording
        if not recording.on:
            return self._linearizer.process_primitive(primitive, tracers, params)
        if recording.has_concrete_values:
            refuse_captured(recording, primitive, params)
        wrapped = [self._wrap(value, value) for value in tracers]
        try:
            outputs = self._linearizer.process_primitive(primitive, wrapped, params)
        except (NotImplementedError, ValueError) as error:
            if not any(map(recording.is_active, tracers)):
                raise
            outputs = undifferentiable(self._linearizer, primitive, wrapped, params, error)
        plain = [self._unwrap(value, tracers) for value in _as_list(primitive, outputs)]
        self._keep("process_primitive", primitive, (), tracers, params, plain)
        return plain if primitive.multiple_results else plain[0]

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, **params: Any
    ) -> Any:
        return self._call("process_custom_jvp_call", primitive, (fun, jvp), tracers, params)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, **params: Any
    ) -> Any:
        return self._call("process_custom_vjp_call", primitive, (fun, fwd, bwd), tracers, params)

    def process_shard_map(self, primitive: Any, fun: Any, tracers: Any, /, **params: Any) -> Any:
        return self._call("process_shard_map", primitive, (fun,), tracers, params)

    def process_call(self, primitive: Any, fun: Any, tracers: Any, params: Any, /) -> Any:
        return self._call("process_call", primitive, (fun,), tracers, params, spread=False)

    def process_map(self, primitive: Any, fun: Any, tracers: Any, params: Any, /) -> Any:
        return self._call("process_map", primitive, (fun,), tracers, params, spread=False)

    def stage_value(self, value: Any) -> Any:
        return self._unwrap(self._linearizer.stage_value(self._wrap(value, value)), ())

    def cur_qdd(self, value: Any) -> Any:
        return self._linearizer.cur_qdd(value)

    def _call(
        self,
        method: str,
        primitive: Any,
        functions: tuple[Any, ...],
        tracers: Sequence[Any],
        params: dict[str, Any],
        spread: bool = True,
    ) -> Any:
        """Hand over an operation that carries Python functions.

        They run outside of this trace, so a value that they close over would count as constant:
        the arguments are given to them as other objects, and active ones are refused.
        """
        process = getattr(self._linearizer, method)
        named, rest = (params, ()) if spread else ({}, (params,))
        recording = self.recording
        if not recording.on:
            return process(primitive, *functions, tracers, *rest, **named)
        operands = [self._wrap(self._renamed(value), value) for value in tracers]
        guards = tuple(guarded(recording, primitive, function) for function in functions)
        outputs = process(primitive, *guards, operands, *rest, **named)
        plain = _mapped(self._unwrap_fresh, outputs)
        self._keep(method, primitive, functions, tracers, params, list(plain))
        return plain

    def _wrap(self, value: Any, known_as: Any) -> Any:
        tangent = self.recording.tangent(known_as)
        if tangent is None:
            return value
        return jax_internals.LinearizeTracer(self._linearizer, value, tangent)

    def _unwrap(self, output: Any, inputs: Sequence[Any]) -> Any:
        value, tangent = self._linearizer.to_primal_tangent_pair(output)
        is_input = any(value is each for each in inputs)
        if type(tangent) is jax_internals.Zero or not jax_internals.is_inexact(value):
            stopped = is_input and self.recording.is_active(value)
            return self._renamed(value) if stopped else value
        if is_input or self.recording.is_active(value):
            value = same_value(value, self.parent_trace)
        self.recording.activate(value, tangent)
        return value

    def _unwrap_fresh(self, output: Any) -> Any:
        return self._unwrap(output, (self._linearizer.to_primal_tangent_pair(output)[0],))

    def _renamed(self, value: Any) -> Any:
        return same_value(value, self.parent_trace) if self.recording.is_active(value) else value

    def _keep(
        self,
        method: str,
        primitive: Any,
        functions: tuple[Any, ...],
        inputs: Sequence[Any],
        params: dict[str, Any],
        outputs: Sequence[Any],
    ) -> None:
        recording = self.recording
        if recording.keep_operations:
            active = {i: value for i, value in enumerate(outputs) if recording.is_active(value)}
            if active:
                recording.operations.append(
                    Operation(method, primitive, functions, tuple(inputs), params, active)
                )


def same_value(value: Any, trace: Any) -> Any:
    """Another object for the same value, which the tapes around know as they know `value`."""
    if not isinstance(trace, RecordingTrace):
        return jax_internals.same_value(value, trace)
    other = same_value(value, trace.parent_trace)
    tangent = trace.recording.tangent(value)
    if tangent is not None:
        trace.recording.activate(other, tangent)
    return other


def _as_list(primitive: Any, outputs: Any) -> list[Any]:
    return list(outputs) if primitive.multiple_results else [outputs]


def _mapped(function: Callable[[Any], Any], values: Any) -> Any:
    """`function` of each of the values, which JAX gives as a list or as a tree of its own kind."""
    if hasattr(values, "unflatten"):
        return values.map(function)
    return [function(value) for value in values]
