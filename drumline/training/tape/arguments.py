"""Defaults and checks of what is given to a tape's methods."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from drumline.training.tape.unconnected import UnconnectedGradients


def cotangents(targets: Sequence[Any], structure: Any, output_gradients: Any) -> list[Any]:
    """For each target an array of its shape: its output gradient, or ones.

    Raises:
        ValueError: if an output gradient has another shape, or there are not as many as targets.
    """
    if output_gradients is None:
        return [_ones(target) for target in targets]
    weights, given = jax.tree.flatten(output_gradients, is_leaf=lambda leaf: leaf is None)
    if len(weights) != len(targets):
        raise ValueError(
            f"output_gradients must have the structure of the target, {structure}, not {given}."
        )
    return [_weight(*pair) for pair in zip(targets, weights, strict=True)]


def _weight(target: Any, weight: Any) -> Any:
    if weight is None:
        return _ones(target)
    weight = jnp.asarray(weight, target.dtype)
    if weight.shape != tuple(target.shape):
        raise ValueError(
            f"An output gradient of shape {weight.shape} was given for a target of shape "
            f"{tuple(target.shape)}; they must be equal."
        )
    return weight * _ones(target)


def _ones(target: Any) -> Any:
    # Within jax.shard_map the ones vary over the replicas as the target does.
    is_array = isinstance(target, jax.Array)
    return jnp.ones_like(target) if is_array else jnp.ones(target.shape, target.dtype)


def filled(
    gradients: Sequence[Any],
    sources: Sequence[Any],
    unconnected: UnconnectedGradients,
    leading: tuple[int, ...] = (),
) -> list[Any]:
    """`gradients`, with zeros for None if `unconnected` says so; `leading` is their first shape."""
    if unconnected is UnconnectedGradients.NONE:
        return list(gradients)
    return [
        jnp.zeros(leading + tuple(source.shape), source.dtype) if gradient is None else gradient
        for gradient, source in zip(gradients, sources, strict=True)
    ]


def has_gradient(leaf: Any, role: str, stacklevel: int) -> bool:
    """Whether `leaf` is floating or complex; a warning, at that level, if it is not."""
    if jnp.issubdtype(leaf.dtype, jnp.inexact):
        return True
    warnings.warn(
        f"A {role} of a GradientTape should be floating, but one is of dtype {leaf.dtype}; it has "
        "no gradient.",
        UserWarning,
        stacklevel=stacklevel,
    )
    return False
