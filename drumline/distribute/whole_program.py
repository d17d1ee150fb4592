"""A program written as seen from outside of the replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from drumline.distribute.compiled_step import CompiledStep
from drumline.training.state_scope import StateScope


class WholeProgram(CompiledStep):
    """A step that is traced once, with each variable's one value for all replicas."""

    def call(self, arrays: Sequence[Any]) -> Any:
        """Traced: call the function on the arrays of its arguments, in a scope of variables."""
        raise NotImplementedError

    def discover(self, arrays: Sequence[Any]) -> StateScope:
        scopes: list[StateScope] = []

        def trace(arrays: Sequence[Any]) -> Any:
            scopes.append(StateScope())
            with scopes[-1]:
                return self.call(arrays)

        jax.eval_shape(trace, list(arrays))
        return scopes[-1]

    def program(self, written: Any, read: Any, arrays: Any) -> tuple[Any, Any]:
        scope = StateScope([*self.written, *self.read], [*written, *read], sealed=True)
        with scope:
            outputs = self.call(arrays)
            return outputs, [scope.value_of(variable) for variable in self.written]
