"""Images copied once by element of a kernel, so that a convolution becomes a matrix product."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax


def patches(
    images: jax.Array,
    kernel: Sequence[int],
    counts: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> jax.Array:
    """What each position of a kernel covers, channels last.

    Args:
        images: (n, height, width, channels).
        kernel: its height and width.
        counts: at how many rows and columns it is placed.
        strides: the steps between these.
        padding: zeros around the images, (low, high) by axis; a negative high cuts.

    Returns:
        (n, rows, columns, kernel height * kernel width * channels), the kernel's elements in row
        order.
    """
    zero = jnp.zeros((), images.dtype)
    padded = lax.pad(images, zero, [(0, 0, 0), *((*p, 0) for p in padding), (0, 0, 0)])
    (rows, columns), (down, right) = counts, strides
    return jnp.concatenate(
        [
            padded[
                :, i : i + (rows - 1) * down + 1 : down, j : j + (columns - 1) * right + 1 : right
            ]
            for i in range(kernel[0])
            for j in range(kernel[1])
        ],
        -1,
    )
