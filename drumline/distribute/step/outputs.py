"""What a replica's step returns: any pytree, of arrays and of anything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.data.elements.precision import require_fits
from drumline.distribute.step.arguments import Identity
from drumline.distribute.values import PerReplica
from drumline.training.keras_internals import Variable


@jax.tree_util.register_pytree_node_class
class StaticValue:
    """Something that is no array, on its way out of a compiled step: structure, not a leaf."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def tree_flatten(self) -> tuple[tuple[()], Identity]:
        """Return no children, as JAX's pytree registry asks for them."""
        return (), Identity(self.value)

    @classmethod
    def tree_unflatten(cls, kept: Identity, _: Any) -> StaticValue:
        """Rebuild from no children."""
        return cls(kept.value)


def wrap(tree: Any, change: Callable[[Any], Any]) -> Any:
    """`tree` with `change` applied to every array and number, and everything else kept."""

    def wrapped(leaf: Any) -> Any:
        if isinstance(leaf, Variable):
            leaf = leaf.value
        if isinstance(leaf, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)):
            require_fits(leaf, "A result of the step", "return an array of JAX's")
            return change(jnp.asarray(leaf))
        return StaticValue(leaf)

    return jax.tree.map(wrapped, tree)


def unwrap(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The tree that `wrap` was given, with `change` applied to every array."""
    return jax.tree.map(
        lambda leaf: leaf.value if isinstance(leaf, StaticValue) else change(leaf),
        tree,
        is_leaf=lambda node: isinstance(node, StaticValue),
    )


def as_arrays(tree: Any) -> Any:
    """`tree` with its numbers as arrays, as a compiled step returns them."""
    return unwrap(wrap(tree, _itself), _itself)


def _itself(leaf: Any) -> Any:
    return leaf


def joined(
    name: str,
    trees: Sequence[Any],
    replicas: Sequence[int] | None = None,
    carried: Mapping[int, Any] | None = None,
    unknown: str = "",
) -> Any:
    """One tree of those of several replicas; what is no array and the same stays as it is.

    Args:
        name: what the trees are, for messages.
        trees: one of each replica.
        replicas: the replicas' numbers, if they are not all of them in order.
        carried: the trees of others, of the same structure; see `PerReplica`.
        unknown: why there are no more of those.

    Raises:
        RuntimeError: if their structures differ.
    """
    require_same_structure(name, trees)
    others = carried or {}

    def join(*leaves: Any) -> Any:
        own, rest = leaves[: len(trees)], leaves[len(trees) :]
        alike = not isinstance(own[0], (jax.Array, np.ndarray)) and (
            all(leaf is own[0] for leaf in own)
            or (
                isinstance(own[0], (str, bytes, bool, int, float, complex))
                and all(leaf == own[0] for leaf in own)
            )
        )
        if alike:
            return own[0]
        return PerReplica(own, replicas, dict(zip(others, rest, strict=True)), unknown)

    return jax.tree.map(join, *trees, *others.values())


def require_same_structure(name: str, trees: Sequence[Any]) -> None:
    """Refuse replicas that bring different things.

    Raises:
        RuntimeError: if the structures of `trees` differ.
    """
    structures: list[Any] = [jax.tree.structure(tree) for tree in trees]
    for index, structure in enumerate(structures):
        if structure != structures[0]:
            raise RuntimeError(
                f"The replicas gave {name} different structures: replica 0 {structures[0]}, "
                f"replica {index} {structure}. Let every replica give the same structure."
            )
