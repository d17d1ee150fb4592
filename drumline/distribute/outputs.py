"""What a replica's step returns: any pytree, of arrays and of anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.distribute.arguments import Identity
from drumline.training.keras_internals import Variable


@jax.tree_util.register_pytree_node_class
class Kept:
    """Something that is no array, on its way out of a compiled step: structure, not a leaf."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def tree_flatten(self) -> tuple[tuple[()], Identity]:
        """Return no children, as JAX's pytree registry asks for them."""
        return (), Identity(self.value)

    @classmethod
    def tree_unflatten(cls, kept: Identity, _: Any) -> Kept:
        """Rebuild from no children."""
        return cls(kept.value)


def wrap(tree: Any, change: Callable[[Any], Any]) -> Any:
    """`tree` with `change` applied to every array and number, and everything else kept."""

    def wrapped(leaf: Any) -> Any:
        if isinstance(leaf, Variable):
            leaf = leaf.value
        if isinstance(leaf, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)):
            return change(jnp.asarray(leaf))
        return Kept(leaf)

    return jax.tree.map(wrapped, tree)


def unwrap(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The tree that `wrap` was given, with `change` applied to every array."""
    return jax.tree.map(
        lambda leaf: leaf.value if isinstance(leaf, Kept) else change(leaf),
        tree,
        is_leaf=lambda node: isinstance(node, Kept),
    )
