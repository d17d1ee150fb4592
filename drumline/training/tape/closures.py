"""Values that reach a function by its closure, past the tape: refused, never constant."""

from __future__ import annotations

from typing import Any

from drumline.training import jax_internals
from drumline.training.tape.recording import Recording


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


def _captured(owner: str) -> NotImplementedError:
    return NotImplementedError(
        f"A function given to {owner} uses a value that a GradientTape watches, or that was "
        "computed from one, without taking it as an argument; its gradient would be lost. Pass "
        "the value as an argument (of a variable, its .value), or enter the tape inside that "
        "function."
    )
