"""The gradient of max and min pooling without XLA's serial loop over windows.

XLA's CPU backend lowers ``select_and_scatter`` to one scalar loop over all windows. Here every
window's winner is found by folding the window's offsets, whole arrays at a time, in the order in
which XLA visits them; then each offset's share of the gradient is added to the positions it
covers. An element that wins several overlapping windows receives their gradients in the order of
the windows, which is the reverse order of the offsets: the sums round as XLA's do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from drumline.cpu_kernels import jax_internals
from drumline.cpu_kernels.halves import in_halves

MAX_OFFSETS = 64
"""The largest window for which the fold, whose work grows with the window's size, is used."""

_ROUNDED = ("float16", "bfloat16")
_DTYPES = frozenset(
    ("float16", "bfloat16", "float32", "float64")
    + tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
)


def rule(original: jax_internals.Rule) -> jax_internals.Rule:
    """The lowering rule; what the fold does not cover goes to ``original``."""

    def lower(context: Any, source: Any, operand: Any, **params: Any) -> Sequence[Any]:
        if not _covered(context, **params):
            return original(context, source, operand, **params)

        def gradient(source: jax.Array, operand: jax.Array) -> jax.Array:
            return max_pool_gradient(source, operand, **params)

        return jax_internals.lower(gradient, context, source, operand)

    return lower


def _covered(
    context: Any,
    *,
    select_prim: Any,
    window_dimensions: Sequence[int],
    padding: Sequence[tuple[int, int]],
    **_: Any,
) -> bool:
    if not jax_internals.static_shapes(context) or jax_internals.explicitly_sharded(context):
        return False
    source, operand = context.avals_in
    return (
        source.dtype == operand.dtype
        and str(operand.dtype) in _DTYPES
        and select_prim in (lax.ge_p, lax.le_p)
        and int(np.prod(window_dimensions)) <= MAX_OFFSETS
        and all(low >= 0 and high >= 0 for low, high in padding)
        and source.size > 0
        and operand.size > 0
    )


def max_pool_gradient(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> jax.Array:
    """The gradient of pooling with respect to its input.

    Follows ``SelectAndScatter`` of XLA's operation semantics with ``add`` from zero.

    Args:
        source: the gradient of the pooled array; its shape is the number of windows by axis.
        operand: the array that was pooled, of the same dtype and rank.
        select_prim: ``lax.ge_p`` for max pooling, ``lax.le_p`` for min pooling.
        window_dimensions: the window's size by axis.
        window_strides: the step from window to window by axis.
        padding: non-negative (low, high) by axis.

    Returns:
        An array of the shape and dtype of ``operand``.
    """
    config = [(low, high, 0) for low, high in padding]
    padded = lax.pad(operand, _identity(operand.dtype, select_prim), config)
    offsets = list(np.ndindex(*window_dimensions))

    def winners_of(images: jax.Array) -> jax.Array:
        counts = (images.shape[0], *source.shape[1:]) if by_image else source.shape
        return _winners(images, counts, offsets, window_strides, select_prim)

    # Several positions look at a winner, which would be searched again for each of them.
    by_image = window_dimensions[0] == 1 and window_strides[0] == 1
    winners = in_halves(winners_of, padded) if by_image else winners_of(padded)
    total = _scatter(source, winners, padded.shape, offsets, window_strides)
    lows = [low for low, _ in padding]
    return lax.slice(total, lows, [low + n for low, n in zip(lows, operand.shape, strict=True)])


def _identity(dtype: Any, select_prim: Any) -> jax.Array:
    """The value that wins against no other: what JAX pads with."""
    greatest = select_prim is lax.ge_p
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.array(-np.inf if greatest else np.inf, dtype)
    return jnp.array(jnp.iinfo(dtype).min if greatest else jnp.iinfo(dtype).max, dtype)


def _winners(
    padded: jax.Array,
    counts: Sequence[int],
    offsets: Sequence[tuple[int, ...]],
    strides: Sequence[int],
    select_prim: Any,
) -> jax.Array:
    """The number of the offset that wins each window, uint8."""
    best = _at(padded, offsets[0], counts, strides)
    winners = jnp.zeros(counts, jnp.uint8)
    for number, offset in enumerate(offsets[1:], start=1):
        candidate = _at(padded, offset, counts, strides)
        keeps = select_prim.bind(best, candidate)
        best = lax.select(keeps, best, candidate)
        winners = lax.select(keeps, winners, jnp.full(counts, number, jnp.uint8))
    return winners


def _at(
    padded: jax.Array, offset: Sequence[int], counts: Sequence[int], strides: Sequence[int]
) -> jax.Array:
    """The element at ``offset`` of every window."""
    ends = [o + (n - 1) * s + 1 for o, n, s in zip(offset, counts, strides, strict=True)]
    return lax.slice(padded, offset, ends, strides)


def _scatter(
    source: jax.Array,
    winners: jax.Array,
    shape: Sequence[int],
    offsets: Sequence[tuple[int, ...]],
    strides: Sequence[int],
) -> jax.Array:
    """Adds every window's gradient to the element that won it.

    Elements whose position leaves the same remainder by the stride are seen by the same offsets,
    so each such phase is a sum of whole arrays; the phases are interleaved at the end.
    """
    source = _positive_zeros(source)
    cells = [-(-size // stride) for size, stride in zip(shape, strides, strict=True)]

    def interleaved(phase: tuple[int, ...]) -> jax.Array:
        axis = len(phase)
        if axis == len(strides):
            return _phase(source, winners, cells, offsets, strides, phase)
        if strides[axis] == 1:
            return interleaved((*phase, 0))
        parts = [interleaved((*phase, start)) for start in range(strides[axis])]
        stacked = jnp.stack(parts, axis + 1)
        return stacked.reshape(*stacked.shape[:axis], -1, *stacked.shape[axis + 2 :])

    return lax.slice(interleaved(()), [0] * len(shape), shape)


def _phase(
    source: jax.Array,
    winners: jax.Array,
    cells: Sequence[int],
    offsets: Sequence[tuple[int, ...]],
    strides: Sequence[int],
    phase: tuple[int, ...],
) -> jax.Array:
    """What the elements at ``phase`` of each cell of ``strides`` receive."""
    zero = jnp.zeros((), source.dtype)
    total = None
    for number in reversed(range(len(offsets))):
        steps = [divmod(o, stride) for o, stride in zip(offsets[number], strides, strict=True)]
        if tuple(rest for _, rest in steps) != phase:
            continue
        spread = [
            (low, size - count - low, 0)
            for (low, _), size, count in zip(steps, cells, source.shape, strict=True)
        ]
        share = lax.pad(jnp.where(winners == number, source, zero), zero, spread)
        total = share if total is None else _add(total, share)
    return jnp.zeros(cells, source.dtype) if total is None else total


def _positive_zeros(source: jax.Array) -> jax.Array:
    """XLA adds to zero, which turns -0.0 into 0.0, and drops "+ 0" from programs it is given."""
    return jnp.where(source == 0, jnp.zeros((), source.dtype), source)


def _add(total: jax.Array, share: jax.Array) -> jax.Array:
    """The sum, rounded to its dtype, which XLA may leave out between sums of 16-bit floats."""
    added = total + share
    if str(added.dtype) in _ROUNDED:
        info = jnp.finfo(added.dtype)
        return lax.reduce_precision(added, info.nexp, info.nmant)
    return added
