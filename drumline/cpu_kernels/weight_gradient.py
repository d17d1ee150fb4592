"""Weight gradients of kernels larger than 1x1 as matrix products over blocks of the batch.

XLA's CPU backend computes a weight gradient as a convolution whose kernel is as large as the
image. As a matrix product it is faster, if the operands that have to be laid out for it stay in
the caches: hence the blocks, over which the products are summed.

With stride 1 the work of laying out is split between the operands. The sum over pixels

    out[i, j] = sum over n, h, q of lhs[n, h, q + j] * gradient[n, h - i, q]

has lhs shifted along the width alone and the gradient along the height alone, so that copying
each once by kernel column, or row, gives all pairs (i, j) in one product: kw + kh copies of an
image instead of kh * kw. With other strides, or few channels, lhs is copied once by element of
the kernel.

Forward convolutions of few channels, such as a first layer on grey images, are one product as well:
of the patches that the weight gradient needs, which XLA then makes once for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from drumline.cpu_kernels.convolution_call import ConvolutionCall, Program


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


BLOCK_BYTES = 16 * 2**20
"""How much the operands laid out for one block's product may take: about the last-level cache."""

MAX_KERNEL = 64
"""The largest number of kernel elements taken on; the layout grows with it."""

FEW_CHANNELS = 16
"""Below this, lhs is copied by element of the kernel even with stride 1."""


def form(
    call: ConvolutionCall, program: Program
) -> Callable[[jax.Array, jax.Array], jax.Array] | None:
    """How to compute ``call`` in blocks, or ``None`` where that does not apply."""
    if program.partitioned or not _is_weight_gradient(call):
        return None
    if call.rhs_dilation == (1, 1) and call.batch >= FEW_CHANNELS:
        return lambda lhs, rhs: _in_blocks(call, _separable, lhs, rhs, _separable_bytes(call))
    return lambda lhs, rhs: _in_blocks(call, _by_element, lhs, rhs, _by_element_bytes(call))


def _is_weight_gradient(call: ConvolutionCall) -> bool:
    """Whether this is the weight gradient of a channels-last 2-D layer, in float32."""
    return (
        str(call.dtype) == "float32"
        and str(call.out_dtype) == "float32"
        and call.lhs_spec == (3, 0, 1, 2)
        and call.rhs_spec == (3, 0, 1, 2)
        and call.strides == (1, 1)
        and call.lhs_dilation == (1, 1)
        and all(low >= 0 for low, _ in call.padding)
        and 1 < math.prod(call.out_spatial) <= MAX_KERNEL
        and math.prod(call.kernel) > math.prod(call.out_spatial)
    )


def _separable_bytes(call: ConvolutionCall) -> int:
    """Bytes laid out for one image by ``_separable``."""
    kernel_height, kernel_width = call.out_spatial
    height, width = call.lhs_spatial[0], call.kernel[1]
    columns = kernel_width * call.batch + kernel_height * call.out_features
    return height * width * columns * 4


def _by_element_bytes(call: ConvolutionCall) -> int:
    """Bytes laid out for one image by ``_by_element``."""
    return math.prod(call.kernel) * math.prod(call.out_spatial) * call.batch * 4


def _in_blocks(
    call: ConvolutionCall,
    product: Callable[[ConvolutionCall, jax.Array, jax.Array], jax.Array],
    lhs: jax.Array,
    rhs: jax.Array,
    bytes_per_image: int,
) -> jax.Array:
    """The sum of ``product`` over blocks of images, in the output's order of axes."""
    images = lhs.shape[0]
    fitting = max(1, BLOCK_BYTES // bytes_per_image)
    block = max(n for n in range(1, min(images, fitting) + 1) if images % n == 0)

    def step(total: jax.Array, pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        return total + product(call, *pair), None

    if block == images:
        result = product(call, lhs, rhs)
    else:
        count = images // block
        blocks = (
            lhs.reshape(count, block, *lhs.shape[1:]),
            rhs.reshape(count, block, *rhs.shape[1:]),
        )
        # A zero made from the operands varies over a mesh, inside shard_map, as the sums do.
        zero = lhs[0, 0, 0, 0] * 0 + rhs[0, 0, 0, 0] * 0
        shape = (*call.out_spatial, call.batch, call.out_features)
        result, _ = lax.scan(step, jnp.broadcast_to(zero, shape), blocks)
    height, width = call.out_spec[2:]
    return call.order_out(result, (height, width, call.out_spec[0], call.out_spec[1]))


def _separable(call: ConvolutionCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Kernel rows from shifts of the gradient, kernel columns from shifts of lhs; stride 1."""
    kernel_height, kernel_width = call.out_spatial
    (top, _), (left, right) = call.padding
    height, width = lhs.shape[1], rhs.shape[2]
    zero = jnp.zeros((), lhs.dtype)
    padded = lax.pad(lhs, zero, [(0, 0, 0), (0, 0, 0), (left, right, 0), (0, 0, 0)])
    columns = [padded[:, :, j : j + width] for j in range(kernel_width)]
    rows = []
    for i in range(kernel_height):
        above = i - top
        below = height - rhs.shape[1] - above
        rows.append(lax.pad(rhs, zero, [(0, 0, 0), (above, below, 0), (0, 0, 0), (0, 0, 0)]))
    result = _product(call, jnp.concatenate(columns, -1), jnp.concatenate(rows, -1))
    result = result.reshape(kernel_width, call.batch, kernel_height, call.out_features)
    return result.transpose(2, 0, 1, 3)


def _by_element(call: ConvolutionCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Every element of the kernel from a shift of lhs; any stride of the layer."""
    covered = patches(lhs, call.out_spatial, rhs.shape[1:3], call.rhs_dilation, call.padding)
    result = _product(call, covered, rhs)
    return result.reshape(*call.out_spatial, call.batch, call.out_features)


def _product(call: ConvolutionCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """The matrix product over pixels of two arrays of pixels by channels."""
    return lax.dot_general(
        lhs.reshape(-1, lhs.shape[-1]),
        rhs.reshape(-1, rhs.shape[-1]),
        (((0,), (0,)), ((), ())),
        precision=call.precision,
        preferred_element_type=call.out_dtype,
    )


MOST_COLUMNS = 16
"""The most kernel elements times channels; beyond, laying the patches out costs too much."""

MOST_BYTES = 16 * 2**20
"""How large the patches may be: about the last-level cache."""


def few_channels_form(
    call: ConvolutionCall, program: Program
) -> Callable[[jax.Array, jax.Array], jax.Array] | None:
    """How to compute ``call`` as a product, or ``None`` where that does not apply."""
    if program.partitioned or not _is_forward_of_few(call):
        return None
    columns = math.prod(call.kernel) * call.features
    nbytes = call.batch * math.prod(call.out_spatial) * columns * 4
    if columns > MOST_COLUMNS or nbytes > MOST_BYTES:
        return None
    return lambda lhs, rhs: _few_channels_product(call, lhs, rhs)


def _is_forward_of_few(call: ConvolutionCall) -> bool:
    """Whether this is a channels-last 2-D layer in float32, larger than 1x1, not dilated."""
    return (
        str(call.dtype) == "float32"
        and str(call.out_dtype) == "float32"
        and call.lhs_spec == (0, 3, 1, 2)
        and call.out_spec == (0, 3, 1, 2)
        and call.lhs_dilation == (1, 1)
        and call.rhs_dilation == (1, 1)
        and all(low >= 0 and high >= 0 for low, high in call.padding)
        and 1 < math.prod(call.kernel) < math.prod(call.out_spatial)
    )


def _few_channels_product(call: ConvolutionCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    covered = patches(lhs, call.kernel, call.out_spatial, call.strides, call.padding)
    out_axis, in_axis, *spatial = call.rhs_spec
    kernel = rhs.transpose(*spatial, in_axis, out_axis)
    return lax.dot_general(
        covered,
        kernel.reshape(-1, call.out_features),
        (((3,), (0,)), ((), ())),
        precision=call.precision,
        preferred_element_type=call.out_dtype,
    )
