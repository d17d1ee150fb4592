"""A convolution with its gradients, for the tests of what computes them."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax import lax

NHWC = ("NHWC", "HWIO", "NHWC")


def convolve(x, w, *, stride=(1, 1), padding="SAME", **options):
    options.setdefault("dimension_numbers", NHWC)
    return lax.conv_general_dilated(x, w, stride, padding, **options)


def with_gradients(x, w, **options):
    """The convolution of x and w, and its gradients for a fixed cotangent."""
    y, pull = jax.vjp(functools.partial(convolve, **options), x, w)
    cotangent = jnp.cos(jnp.arange(y.size, dtype=y.dtype)).reshape(y.shape)
    return (y, *pull(cotangent + 0 * y))  # varies over a mesh, as y does


def normal(*shape, dtype=jnp.float32, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def assert_close(original, replaced, tolerance=1e-5):
    for a, b in zip(jax.tree.leaves(original), jax.tree.leaves(replaced), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        assert np.abs(a - b).max(initial=0) <= tolerance * np.abs(a).max(initial=0)


pads = st.one_of(
    st.sampled_from(["SAME", "VALID"]),
    st.tuples(*[st.tuples(st.integers(-1, 2), st.integers(-1, 2))] * 2),
)


def pooled(x, w, b, *, pool=(2, 2), **options):
    """A layer of convolution, bias, relu and max pooling; without bias if b is None."""
    y = convolve(x, w, **options)
    y = jax.nn.relu(y if b is None else y + b.reshape(1, 1, 1, -1))
    windows = (1, *pool, 1)
    return lax.reduce_window(y, -jnp.inf, lax.max, windows, windows, "VALID")


def pooled_with_gradients(x, w, b, **options):
    """Such a layer and the gradients of its operands, for a fixed cotangent of small integers."""
    y, pull = jax.vjp(functools.partial(pooled, **options), x, w, b)
    cotangent = (jnp.arange(y.size) % 7 - 3).astype(y.dtype).reshape(y.shape)
    return (y, *pull(cotangent + 0 * jnp.nan_to_num(y)))


def integers(*shape, seed=0, most=2):
    """Small integers, whose sums are exact and which tie often."""
    return jnp.asarray(np.random.default_rng(seed).integers(-most, most + 1, shape), jnp.float32)
