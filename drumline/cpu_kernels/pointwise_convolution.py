"""1x1 convolutions and their gradients as matrix products.

Three of JAX's convolutions belong to a 1x1 layer. Forward and input gradient have a kernel of one
element; they differ in that a stride becomes a dilation of the gradient by zeros. The weight
gradient has an output of one element: the "kernel" is the gradient of the layer's output, and
covers the input. All three contract lhs and rhs once, with no element used twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from drumline.cpu_kernels.convolution_call import ConvolutionCall, Program
from drumline.cpu_kernels.halves import in_halves


def form(
    call: ConvolutionCall, program: Program
) -> Callable[[jax.Array, jax.Array], jax.Array] | None:
    """How to compute ``call`` as one matrix product, or ``None`` where that does not apply."""
    del program  # the compiler splits a matrix product as well as it splits a convolution
    if not call.lhs_spatial:
        return None
    if all(size == 1 for size in call.kernel) and _channels_last(call):
        return lambda lhs, rhs: _one_element_kernel(call, lhs, rhs)
    if all(size == 1 for size in call.out_spatial) and _contracts_leading_axes(call):
        return lambda lhs, rhs: _one_element_output(call, lhs, rhs)
    return None


def _channels_last(call: ConvolutionCall) -> bool:
    """Whether pixels are rows of channels in memory, on both sides of the product."""
    last = len(call.lhs_shape) - 1
    return call.lhs_spec[1] == last and call.out_spec[1] == last


def _contracts_leading_axes(call: ConvolutionCall) -> bool:
    """Whether lhs and rhs are matrices of channels by the pixels they contract, alike."""
    last = len(call.lhs_shape) - 1
    contracted = (call.lhs_spec[1], *call.lhs_spec[2:])
    return (
        call.lhs_spec[0] == last
        and call.rhs_spec[0] == last
        and contracted == (call.rhs_spec[1], *call.rhs_spec[2:])
        and all(dilation == 1 for dilation in call.lhs_dilation)
    )


def _one_element_kernel(call: ConvolutionCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Forward and input gradient: strides and dilations move whole pixels, before or after."""
    contracted = 0 if call.rhs_spec[1] < call.rhs_spec[0] else 1
    sizes = (call.features, call.out_features)
    kernel = rhs.reshape(sizes if contracted == 0 else sizes[::-1])
    grows = math.prod(call.out_spatial) > math.prod(call.lhs_spatial)
    pixels = lhs if grows else _resample(call, lhs)
    result = lax.dot_general(
        pixels,
        kernel,
        (((lhs.ndim - 1,), (contracted,)), ((), ())),
        precision=call.precision,
        preferred_element_type=call.out_dtype,
    )
    if grows:
        result = _resample(call, result)
    out_axis = dict(zip(call.lhs_spec, call.out_spec, strict=True))
    return call.order_out(result, [out_axis[axis] for axis in range(lhs.ndim)])


def _resample(call: ConvolutionCall, array: jax.Array) -> jax.Array:
    """Pads, dilates and strides the spatial axes, which are where the lhs has them."""
    config = [(0, 0, 0)] * array.ndim
    steps = [1] * array.ndim
    for axis, (low, high), dilation, stride in zip(
        call.lhs_spec[2:], call.padding, call.lhs_dilation, call.strides, strict=True
    ):
        config[axis] = (low, high, dilation - 1)
        steps[axis] = stride
    padded = lax.pad(array, jnp.zeros((), array.dtype), config)
    return lax.slice(padded, [0] * padded.ndim, padded.shape, steps)


def _one_element_output(call: ConvolutionCall, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Weight gradient: the pixels that the layer's stride visited, against the gradient's."""
    config = [(0, 0, 0)] * lhs.ndim
    steps = [1] * lhs.ndim
    ends = list(lhs.shape)
    for axis, (low, high), count, step in zip(
        call.lhs_spec[2:], call.padding, call.kernel, call.rhs_dilation, strict=True
    ):
        config[axis] = (low, high, 0)
        steps[axis] = step
        ends[axis] = (count - 1) * step + 1

    def visit(images: jax.Array) -> jax.Array:
        padded = lax.pad(images, jnp.zeros((), lhs.dtype), config)
        return lax.slice(padded, [0] * lhs.ndim, [images.shape[0], *ends[1:]], steps)

    # Fused into the transposing copy below, a strided slice would be computed pixel by pixel.
    strided = any(step > 1 for step in steps)
    visited = in_halves(visit, lhs) if strided else visit(lhs)
    # XLA transposes the first operand of such a product in memory: let it be the narrower one.
    swapped = visited.shape[-1] > rhs.shape[-1]
    first, second = (rhs, visited) if swapped else (visited, rhs)
    contracted = tuple(range(first.ndim - 1))
    result = lax.dot_general(
        first,
        second,
        ((contracted, contracted), ((), ())),
        precision=call.precision,
        preferred_element_type=call.out_dtype,
    )
    if (call.out_spec[0] > call.out_spec[1]) != swapped:
        result = result.T
    return result.reshape(call.out_shape)
