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
