"""What a tape records, and the JAX traces by which it sees the operations of its block.

* `Recording`: which values have a tangent, and the linear program of the tangents.
* `RecordingTrace`: computes each operation in the trace below and stages its tangents.
* `GuardTrace`: refuses values that reach a function by its closure, past the tape.
* `undifferentiable`: an operation without a derivative is an error only where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from drumline.training import jax_internals


@dataclass(frozen=True)
class Operation:
    """One recorded operation, kept so that it can be differentiated again.

    Attributes:
        method: the name of the method by which JAX handed it to the trace; "compiled" of a
            `CompiledOperation`, which `functions` holds.
        primitive: what was computed.
        functions: the functions given with it, as by ``jax.custom_vjp``.
        inputs: the operands.
        params: the parameters.
        outputs: the results that have a tangent, by their position.
    """

    method: str
    primitive: Any
    functions: tuple[Any, ...]
    inputs: tuple[Any, ...]
    params: dict[str, Any]
    outputs: dict[int, Any]


class Recording:
    """Tangents by the identity of the values they belong to.

    Values are not wrapped: a value is active if this very object was watched or computed from one
    that was. All active values are kept alive, so that no other object takes their identity.

    Args:
        keep_operations: keep the operations, for gradients that this same tape differentiates.
    """

    def __init__(self, keep_operations: bool) -> None:
        self.program = jax_internals.TangentProgram()
        self.operations: list[Operation] = []
        self.keep_operations = keep_operations
        self.on = True
        self.has_concrete_values = False
        self._tangents: dict[int, Any] = {}
        self._values: dict[int, Any] = {}

    def is_active(self, value: Any) -> bool:
        """Whether `value` was watched or computed from a watched one."""
        return id(value) in self._tangents

    def tangent(self, value: Any) -> Any:
        """The tangent of an active value; None for others."""
        return self._tangents.get(id(value))

    def activate(self, value: Any, tangent: Any) -> None:
        """Let `tangent` be that of `value`."""
        self._tangents[id(value)] = tangent
        self._values[id(value)] = value
        if not isinstance(value, jax_internals.Tracer):
            self.has_concrete_values = True

    def watch(self, value: Any) -> None:
        """Let gradients with respect to `value` be possible."""
        if not self.is_active(value):
            self.activate(value, self.program.new_input(value))


class GuardTrace(jax_internals.Trace):
    """Passes every operation on to the trace below, unless it uses an active value.

    Args:
        recording: says which values are active.
        below: the trace that does the work.
        owner: names what the guarded function belongs to.
    """

    def __init__(self, recording: Recording, below: Any, owner: str) -> None:
        super().__init__()
        self.requires_low = below.requires_low
        self.parent_trace = below
        self._recording = recording
        self._owner = owner

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        self._check(tracers)
        return self.parent_trace.process_primitive(primitive, tracers, params)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, **params: Any
    ) -> Any:
        self._check(tracers)
        return self.parent_trace.process_custom_jvp_call(
            primitive, self._guarded(fun), self._guarded(jvp), tracers, **params
        )

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, **params: Any
    ) -> Any:
        self._check(tracers)
        return self.parent_trace.process_custom_vjp_call(
            primitive, self._guarded(fun), self._guarded(fwd), bwd, tracers, **params
        )

    def process_shard_map(self, primitive: Any, fun: Any, tracers: Any, /, **params: Any) -> Any:
        self._check(tracers)
        return self.parent_trace.process_shard_map(primitive, self._guarded(fun), tracers, **params)

    def process_call(self, primitive: Any, fun: Any, tracers: Any, params: Any, /) -> Any:
        self._check(tracers)
        return self.parent_trace.process_call(primitive, self._guarded(fun), tracers, params)

    def process_map(self, primitive: Any, fun: Any, tracers: Any, params: Any, /) -> Any:
        self._check(tracers)
        return self.parent_trace.process_map(primitive, self._guarded(fun), tracers, params)

    def stage_value(self, value: Any) -> Any:
        self._check((value,))
        return self.parent_trace.stage_value(value)

    def cur_qdd(self, value: Any) -> Any:
        return self.parent_trace.cur_qdd(value)

    def _check(self, values: Any) -> None:
        if any(map(self._recording.is_active, values)):
            raise _captured(self._owner)

    def _guarded(self, function: Any) -> Any:
        return guarded(self._recording, self._owner, function)


def guarded(recording: Recording, owner: Any, function: Any) -> Any:
    """`function`, which refuses to use active values that are not its arguments."""

    def around(inner: Any, *args: Any) -> Any:
        below = jax_internals.current_trace()
        with jax_internals.under(GuardTrace(recording, below, str(owner))):
            return inner(*args)

    return jax_internals.wrap_function(function, around)


def refuse_captured(recording: Recording, primitive: Any, params: dict[str, Any]) -> None:
    """Raise if a program among `params` holds an active value as a constant."""
    if any(map(recording.is_active, jax_internals.constants_within(params))):
        raise _captured(str(primitive))


class CapturedValueError(NotImplementedError):
    """A program holds as a constant what a tape watches, so the gradient would be lost."""


def _captured(owner: str) -> CapturedValueError:
    return CapturedValueError(
        f"A function given to {owner} uses a value that a GradientTape watches, or that was "
        "computed from one, without taking it as an argument; its gradient would be lost. Pass "
        "the value as an argument (of a variable, its .value), or enter the tape inside that "
        "function."
    )


def undifferentiable(
    linearizer: Any,
    primitive: Any,
    inputs: Sequence[Any],
    params: dict[str, Any],
    error: Exception,
) -> Any:
    """Compute an operation that failed to be linearized with `error`.

    Its outputs have tangents which raise when a gradient passes through them. If the operation
    fails by itself, that error is raised now.
    """
    pairs = [linearizer.to_primal_tangent_pair(value) for value in inputs]
    outputs = linearizer.process_primitive(primitive, [value for value, _ in pairs], params)
    plain = list(outputs) if primitive.multiple_results else [outputs]
    known = [tangent for _, tangent in pairs if type(tangent) is not jax_internals.Zero]
    with jax_internals.under(linearizer.tangent_trace):
        tangents = _refused_p.bind(
            *known,
            types=tuple(map(jax_internals.tangent_type, plain)),
            reason=f"{primitive}: {error}",
        )
    wrapped = [
        jax_internals.LinearizeTracer(linearizer, value, tangent)
        for value, tangent in zip(plain, tangents, strict=True)
    ]
    return wrapped if primitive.multiple_results else wrapped[0]


def _refuse(reason: str) -> None:
    raise NotImplementedError(
        f"A gradient was asked for through an operation that has none, {reason} Keep it out of the "
        "path from the sources to the target, for instance with jax.lax.stop_gradient on its "
        "inputs."
    )


_refused_p = jax_internals.refusing_primitive("undifferentiable", _refuse)


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
        except CapturedValueError:
            raise
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
