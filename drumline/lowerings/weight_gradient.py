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
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from drumline.lowerings.convolution_call import ConvolutionCall
from drumline.lowerings.patches import patches
from drumline.lowerings.program import Program

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
