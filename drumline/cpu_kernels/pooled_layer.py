"""A convolution with bias, relu and pooling without overlap, and its gradients, on CPUs.

The functions are primitives, which take the place of JAX's in programs that are being lowered for
the CPU. A winner is the number of the output that won a window, in the order of the window's rows,
or ``NO_WINNER`` where no output is positive.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from drumline.cpu_kernels import jax_internals, kernels

NO_WINNER = 255
"""The winner of a window in which no output is positive."""

MOST_OUTPUTS = 64
"""The largest number of outputs in a window."""

FULL_REGISTER = 16
"""Input channels are a multiple of this where their gradient is taken from the winners alone."""


class PooledLayer(NamedTuple):
    """A convolution of channels-last images, and the windows in which its outputs are pooled."""

    images: tuple[int, ...]
    """(n, height, width, channels)."""
    weights: tuple[int, ...]
    """(kernel height, kernel width, channels, features)."""
    counts: tuple[int, ...]
    """Rows and columns of the convolution's outputs."""
    strides: tuple[int, ...]
    """Between the kernel's places."""
    origin: tuple[int, ...]
    """How far above and left of an image the first place is."""
    windows: tuple[int, ...]
    """Their height and width. Outputs that are left over at the end are in none."""

    @property
    def pooled(self) -> tuple[int, ...]:
        """The shape of the pooled outputs."""
        rows, columns = (n // w for n, w in zip(self.counts, self.windows, strict=True))
        return (self.images[0], rows, columns, self.weights[3])

    @property
    def attributes(self) -> dict[str, np.ndarray]:
        """As the kernels take them."""
        return {
            "window": np.array((*self.strides, *self.origin), np.int64),
            "places": np.array(self.counts, np.int64),
            "pool": np.array(self.windows, np.int64),
        }


def _forward(
    images: jax.Array, weights: jax.Array, bias: jax.Array, *, layer: PooledLayer
) -> list[jax.Array]:
    packed = math.prod(layer.weights[:3]) * kernels.tiled(layer.weights[3])
    bytes_alike = jax.ShapeDtypeStruct(layer.pooled, "uint8")
    results = (kernels.floats(*layer.pooled), bytes_alike, kernels.floats(packed))
    call = kernels.ffi_call("drumline_pooled_convolution", results)
    pooled, winners, _ = call(images, weights, bias.reshape(-1), **layer.attributes)
    return [pooled, winners]


def _bias_gradient(
    gradient: jax.Array, winners: jax.Array, *, shape: tuple[int, ...]
) -> list[jax.Array]:
    images, _, _, features = gradient.shape
    blocks = min(images, kernels.MOST_BLOCKS)
    results = (kernels.floats(features), kernels.floats(blocks, features))
    call = kernels.ffi_call("drumline_pooled_bias_gradient", results)
    return [call(gradient, winners)[0].reshape(shape)]


def _weight_gradient(
    images: jax.Array, gradient: jax.Array, winners: jax.Array, *, layer: PooledLayer
) -> list[jax.Array]:
    size = math.prod(layer.weights[:3]) * kernels.tiled(layer.weights[3])
    blocks = kernels.blocks(layer.images[0], size)
    results = (kernels.floats(*layer.weights), kernels.floats(blocks, size))
    call = kernels.ffi_call("drumline_pooled_weight_gradient", results)
    return [call(images, gradient, winners, **layer.attributes)[0]]


def _input_gradient(
    gradient: jax.Array, winners: jax.Array, weights: jax.Array, *, layer: PooledLayer
) -> list[jax.Array]:
    results = (kernels.floats(*layer.images), kernels.floats(math.prod(layer.weights)))
    call = kernels.ffi_call("drumline_pooled_input_gradient", results)
    return [call(gradient, winners, weights, **layer.attributes)[0]]


def _unpooled(gradient: jax.Array, winners: jax.Array, *, layer: PooledLayer) -> list[jax.Array]:
    result = kernels.floats(layer.images[0], *layer.counts, layer.weights[3])
    call = kernels.ffi_call("drumline_unpooling", (result,))
    return [call(gradient, winners, pool=layer.attributes["pool"])[0]]


def _zeros(*, layer: PooledLayer) -> list[jax.Array]:
    return [jnp.zeros(layer.weights[3], "float32")]


FORWARD = jax_internals.new_primitive("pooled_convolution", _forward)
"""Takes images, weights and bias (any shape); gives the pooled outputs and the winners."""

BIAS_GRADIENT = jax_internals.new_primitive("pooled_bias_gradient", _bias_gradient)
"""Takes the gradient of the pooled outputs, and the winners; gives sums by feature."""

WEIGHT_GRADIENT = jax_internals.new_primitive("pooled_weight_gradient", _weight_gradient)
"""Takes images, the gradient of the pooled outputs, and the winners."""

INPUT_GRADIENT = jax_internals.new_primitive("pooled_input_gradient", _input_gradient)
"""Takes the gradient of the pooled outputs, the winners, and the weights."""

UNPOOLED = jax_internals.new_primitive("unpooling", _unpooled)
"""Takes the gradient of the pooled outputs, and the winners; gives that of the convolution's."""

ZEROS = jax_internals.new_primitive("no_bias", _zeros)
"""Takes nothing; gives the bias of a layer without one."""
