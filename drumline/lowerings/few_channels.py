"""Forward convolutions of few channels, such as a first layer on grey images, as one product.

The patches that the product needs are those of the layer's weight gradient, which XLA then makes
once for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
from jax import lax

from drumline.lowerings.convolution_call import ConvolutionCall
from drumline.lowerings.patches import patches
from drumline.lowerings.program import Program

MOST_COLUMNS = 16
"""The most kernel elements times channels; beyond, laying the patches out costs too much."""

MOST_BYTES = 16 * 2**20
"""How large the patches may be: about the last-level cache."""


def form(
    call: ConvolutionCall, program: Program
) -> Callable[[jax.Array, jax.Array], jax.Array] | None:
    """How to compute ``call`` as a product, or ``None`` where that does not apply."""
    if program.partitioned or not _is_forward(call):
        return None
    columns = math.prod(call.kernel) * call.features
    nbytes = call.batch * math.prod(call.out_spatial) * columns * 4
    if columns > MOST_COLUMNS or nbytes > MOST_BYTES:
        return None
    return lambda lhs, rhs: _product(call, lhs, rhs)


def _is_forward(call: ConvolutionCall) -> bool:
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


def _product(call: ConvolutionCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
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
