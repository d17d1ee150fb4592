"""What a tape knows: which values have a tangent, and the linear program of the tangents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drumline.training import jax_internals


@dataclass(frozen=True)
class Operation:
    """One recorded operation, kept so that it can be differentiated again.

    Attributes:
        method: the name of the method by which JAX handed it to the trace.
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
