"""Convolutions and their gradients by kernels that read images where they lie.

A layer's forward pass, the gradient of its images if its stride is 1 (a forward pass with the
kernel's channels exchanged), and the gradient of its weights.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax

from drumline.cpu_kernels import kernels
from drumline.cpu_kernels.convolution_call import ConvolutionCall, Program

Computation = Callable[[jax.Array, jax.Array], jax.Array]

_HWIO = (3, 2, 0, 1)
_HWOI = (2, 3, 0, 1)

FEWEST_FEATURES = 8
"""Output channels below which most of a tile would be empty."""


def form(call: ConvolutionCall, program: Program) -> Computation | None:
    """How to compute ``call`` by a kernel, or ``None`` where that does not apply."""
    if program.partitioned or program.exported or not kernels.available():
        return None
    if not _is_plain(call) or call.out_features < FEWEST_FEATURES:
        return None
    if is_forward(call):
        return functools.partial(_forward, call)
    if _is_weight_gradient(call):
        return functools.partial(_weight_gradient, call)
    return None


def _is_plain(call: ConvolutionCall) -> bool:
    """Whether this is a 2-D convolution in float32 whose padding adds and whose lhs is as it is."""
    return (
        str(call.dtype) == "float32"
        and str(call.out_dtype) == "float32"
        and call.lhs_dilation == (1, 1)
        and all(low >= 0 for low, _ in call.padding)
    )


def is_forward(call: ConvolutionCall) -> bool:
    """Whether the kernels compute this as a layer's forward pass.

    Channels are last, and the kernel has several elements, none of them dilated.
    """
    return (
        _is_plain(call)
        and call.out_features >= FEWEST_FEATURES
        and call.lhs_spec == (0, 3, 1, 2)
        and call.out_spec == (0, 3, 1, 2)
        and call.rhs_spec in (_HWIO, _HWOI)
        and call.rhs_dilation == (1, 1)
        and math.prod(call.kernel) > 1
    )


def _is_weight_gradient(call: ConvolutionCall) -> bool:
    """Whether this is the weight gradient of such a layer, whose stride is the dilation."""
    return (
        call.lhs_spec == (3, 0, 1, 2)
        and call.rhs_spec == (3, 0, 1, 2)
        and call.strides == (1, 1)
        and 1 < math.prod(call.out_spatial) < math.prod(call.kernel)
    )


def _forward(call: ConvolutionCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    origin = tuple(low for low, _ in call.padding)
    transposed = call.rhs_spec == _HWOI
    return kernels.convolution(lhs, rhs, call.out_spatial, call.strides, origin, transposed)


def _weight_gradient(call: ConvolutionCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    origin = tuple(low for low, _ in call.padding)
    result = kernels.weight_gradient(lhs, rhs, call.out_spatial, call.rhs_dilation, origin)
    height, width = call.out_spec[2:]
    return call.order_out(result, (height, width, call.out_spec[0], call.out_spec[1]))
