"""Convolutions that XLA's CPU backend calls in ``drumline._core``, as functions of arrays.

They follow XLA's foreign function interface and run on the threads of the backend that calls them.
Results depend on the shapes alone, not on the number of threads. Whoever calls them has seen to it
that the operands are float32, on a CPU, and that no size is zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from drumline._changes import note
from drumline._core import vector_instructions, xla_handlers

MOST_BLOCKS = 16
"""Into how many blocks of images a weight gradient is cut at most, each with sums of its own."""

MOST_BYTES = 8 * 2**20
"""How large these sums may be together."""

_WIDEST_TILE = 32


def available() -> bool:
    """Whether this processor has the vector instructions for which they were written."""
    return vector_instructions() != "portable"


@functools.cache
def register() -> None:
    """Makes them known to XLA."""
    for name, address in xla_handlers():
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address), platform="cpu")
        note(
            "JAX",
            f"XLA's custom call {name} for CPUs",
            "compiled programs call it; nothing has this name otherwise",
            "dl.config.set_cpu_kernels(False), and no strategy over processes of one machine",
        )


def ffi_call(name: str, results: Any) -> Callable[..., Any]:
    """``jax.ffi.ffi_call`` of one of them, which is known to XLA afterwards."""
    register()
    return jax.ffi.ffi_call(name, results)


def convolution(
    images: jax.Array,
    weights: jax.Array,
    counts: tuple[int, ...],
    strides: tuple[int, ...],
    origin: tuple[int, ...],
    transposed: bool,
) -> jax.Array:
    """The convolution of images with weights.

    Args:
        images: (n, height, width, channels).
        weights: (kernel height, kernel width, channels, features), the last two exchanged if
            ``transposed``.
        counts: rows and columns of the result.
        strides: between the kernel's places.
        origin: how far above and left of the image the first place is.
        transposed: see ``weights``.

    Returns:
        (n, *counts, features).
    """
    features = weights.shape[2 if transposed else 3]
    channels = images.shape[3]
    packed = math.prod(weights.shape[:2]) * channels * tiled(features)
    results = (floats(images.shape[0], *counts, features), floats(packed))
    call = ffi_call("drumline_convolution", results)
    out: jax.Array = call(
        images, weights, window=_integers(*strides, *origin), transposed=_integers(transposed)
    )[0]
    return out


def weight_gradient(
    images: jax.Array,
    gradient: jax.Array,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    origin: tuple[int, ...],
) -> jax.Array:
    """The gradient of a convolution's weights.

    Args:
        images: (n, height, width, channels).
        gradient: of the convolution's result: (n, rows, columns, features).
        kernel: its height and width.
        strides, origin: as of ``convolution``.

    Returns:
        (*kernel, channels, features).
    """
    shape = (*kernel, images.shape[3], gradient.shape[3])
    size = math.prod(shape[:3]) * tiled(shape[3])
    sums = floats(blocks(images.shape[0], size), size)
    call = ffi_call("drumline_weight_gradient", (floats(*shape), sums))
    out: jax.Array = call(images, gradient, window=_integers(*strides, *origin))[0]
    return out


def blocks(images: int, size: int) -> int:
    """Into how many blocks of images a weight gradient with ``size`` sums is cut."""
    return max(1, min(images, MOST_BLOCKS, MOST_BYTES // (4 * size)))


def tiled(features: int) -> int:
    """How many features the widest tiles have that hold ``features``."""
    return -(-features // _WIDEST_TILE) * _WIDEST_TILE


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    """A result of float32."""
    return jax.ShapeDtypeStruct(shape, "float32")


def _integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)
