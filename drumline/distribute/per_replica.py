"""Values that differ from replica to replica."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax


@jax.tree_util.register_pytree_node_class
class PerReplica:
    """One value for each replica, as ``tf.distribute.DistributedValues``.

    A pytree whose children are the values.

    Attributes:
        values: the values, by replica. Arrays lie on their replica's device.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self.values: tuple[Any, ...] = tuple(values)

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """Return the children, as JAX's pytree registry asks for them."""
        return self.values, None

    @classmethod
    def tree_unflatten(cls, _: None, values: Iterable[Any]) -> PerReplica:
        """Rebuild from the children."""
        return cls(values)

    def __repr__(self) -> str:
        rows = "\n".join(f"  {index}: {value!r}" for index, value in enumerate(self.values))
        return f"PerReplica:{{\n{rows}\n}}"
