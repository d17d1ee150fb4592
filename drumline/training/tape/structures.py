"""Targets and sources as users give them: nested structures of arrays and variables."""

from __future__ import annotations

from typing import Any

import jax
import keras


def flatten(structure: Any) -> tuple[list[Any], Any]:
    """The leaves of a structure and its shape; subclasses of list and dict count as those."""
    return jax.tree.flatten(_plain(structure))


def is_variable(leaf: Any) -> bool:
    """Whether a leaf is a variable, and not an array."""
    return isinstance(leaf, keras.Variable)


def check_leaf(leaf: Any, role: str) -> None:
    """Refuse what can be neither watched nor computed from something watched.

    Raises:
        TypeError: if `leaf` is not a JAX array or a variable.
    """
    if not is_variable(leaf) and not isinstance(leaf, jax.Array):
        raise TypeError(
            f"The {role} of a GradientTape must be JAX arrays or variables, not "
            f"{type(leaf).__name__}; convert it with jax.numpy.asarray before it is used."
        )


def _plain(structure: Any) -> Any:
    """Keras keeps layers' variables in subclasses of list and dict, which JAX takes for leaves."""
    if isinstance(structure, list):
        return [_plain(each) for each in structure]
    if type(structure) is tuple:
        return tuple(_plain(each) for each in structure)
    if isinstance(structure, dict) and type(structure).__module__.startswith("keras."):
        return {key: _plain(each) for key, each in structure.items()}
    return structure
