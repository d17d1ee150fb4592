"""Arrays side by side in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
from jax import lax

from drumline.distribute.cross_device_ops.packing import Packing
from drumline.distribute.cross_device_ops.pieces import join, piece_length, split


def send_packed(
    arrays: Sequence[jax.Array],
    packing: Packing,
    pieces: int,
    send: Callable[[jax.Array], jax.Array],
) -> list[jax.Array]:
    """Apply `send`, which keeps shapes, to packs of `arrays`; return what became of each array.

    A pack has the shape [pieces, columns], and row i of it holds the i-th piece of every array. So
    an algorithm that cuts what it is given into as many pieces treats every element alike, packed
    or not, and the results are the same to the bit.
    """
    sent: dict[int, jax.Array] = {}
    for group in packing.groups(arrays):
        if len(group) == 1:
            sent[group[0]] = send(arrays[group[0]])
            continue
        members = [arrays[position] for position in group]
        sent.update(zip(group, _unpack(send(_pack(members, pieces)), members), strict=True))
    return [sent[position] for position in range(len(arrays))]


def _pack(arrays: Sequence[jax.Array], pieces: int) -> jax.Array:
    blocks = [split(array, pieces) for array in arrays]
    # Without the barrier XLA computes the blocks element by element inside a slow loop of branches.
    return lax.concatenate(lax.optimization_barrier(blocks), 1)


def _unpack(packed: jax.Array, like: Sequence[jax.Array]) -> list[jax.Array]:
    arrays = []
    column, pieces = 0, packed.shape[0]
    for array in like:
        end = column + piece_length(array.size, pieces)
        arrays.append(join(lax.slice_in_dim(packed, column, end, axis=1), array.shape))
        column = end
    return arrays
