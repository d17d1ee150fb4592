"""Variables as cross-replica code in the middle of the replicas' turns sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from drumline.distribute.replica_scope import ReplicaScope, has_copies, summed_when_read
from drumline.training.keras_internals import Variable
from drumline.training.state_scope import StateScope


class MergeScope(StateScope):
    """A `StateScope` around a ``merge_call``, over the scopes of the replicas that meet.

    Args:
        scopes: theirs, in their order.
    """

    def __init__(self, scopes: Sequence[ReplicaScope]) -> None:
        super().__init__(outer=scopes[0])
        self._scopes = scopes

    def position(self, scope: ReplicaScope) -> int:
        """Which of the replicas has `scope`."""
        return next(index for index, each in enumerate(self._scopes) if each is scope)

    def get_current_value(self, variable: Variable) -> Any:
        known = id(variable) in self.state_mapping
        value = super().get_current_value(variable)
        if known or not (has_copies(variable) or summed_when_read(variable)):
            return value
        values = [scope.value_of(variable) for scope in self._scopes]
        return jnp.stack(values) if has_copies(variable) else sum(values[1:], values[0])

    def value_for(self, scope: ReplicaScope, variable: Variable) -> Any:
        """What `variable`, which was written, holds for the replica of `scope`."""
        value = self.value_of(variable)
        return value[self.position(scope)] if has_copies(variable) else value
