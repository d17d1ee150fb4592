"""The max-pool gradient has the bits of XLA's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.cpu_kernels.toggled import assert_same_bits, both, compiled_text

NAME = "max_pool_gradient"
FLOATS = ("float32", "bfloat16", "float16", "float64")
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64")


def pool_gradient(source, operand, prim, window, strides, padding):
    from jax._src.lax.windowed_reductions import select_and_scatter_add_p

    return select_and_scatter_add_p.bind(
        source,
        operand,
        select_prim=prim,
        window_dimensions=window,
        window_strides=strides,
        padding=padding,
    )


def values(random, shape, dtype):
    """Few distinct values, so that there are ties, with the special ones among them."""
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return random.choice([info.min, info.max, 0, 1, 2, 3], shape).astype(dtype)
    special = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 2.0], shape)
    return np.where(random.random(shape) < 0.5, special, random.random(shape)).astype(
        jnp.dtype(dtype)
    )


@st.composite
def calls(draw):
    rank = draw(st.integers(1, 4))
    sizes = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(rank))  # noqa: E731
    window, strides = sizes(1, 3), sizes(1, 3)
    shape = sizes(3, 6)
    low, high = sizes(0, 2), sizes(0, 2)
    return shape, window, strides, tuple(zip(low, high, strict=True))


@settings(max_examples=20)
@given(
    call=calls(),
    dtype=st.sampled_from(FLOATS + INTEGERS),
    prim=st.sampled_from([lax.ge_p, lax.le_p]),
    seed=st.integers(0, 2**16),
)
def test_has_the_bits_of_the_original(call, dtype, prim, seed):
    shape, window, strides, padding = call
    random = np.random.default_rng(seed)
    counts = tuple(
        (n + lo + hi - w) // s + 1
        for n, w, s, (lo, hi) in zip(shape, window, strides, padding, strict=True)
    )
    with jax.enable_x64(True):
        operand = jnp.asarray(values(random, shape, dtype))
        raw = random.standard_normal(counts) * 10
        source = jnp.asarray(raw.astype(jnp.dtype(dtype)))
        if dtype in FLOATS:
            source = jnp.where(random.random(counts) < 0.1, -jnp.zeros((), dtype), source)
        original, replaced = both(
            lambda s, o: pool_gradient(s, o, prim, window, strides, padding), NAME, source, operand
        )
    assert_same_bits(original, replaced)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_sums_of_nine_windows_round_in_the_original_order(dtype):
    random = np.random.default_rng(0)
    operand = np.zeros((2, 9, 9, 3))
    operand[:, ::3, ::3] = 1 + random.random((2, 3, 3, 3))
    source = random.standard_normal((2, 9, 9, 3)) * 10.0 ** random.integers(-3, 3, (2, 9, 9, 3))
    padding = ((0, 0), (1, 1), (1, 1), (0, 0))
    original, replaced = both(
        lambda s, o: pool_gradient(s, o, lax.ge_p, (1, 3, 3, 1), (1, 1, 1, 1), padding),
        NAME,
        jnp.asarray(source, dtype),
        jnp.asarray(operand, dtype),
    )
    assert_same_bits(original, replaced)


def pooled(x, padding="VALID"):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), padding)


def loss(x):
    return jnp.sum(jnp.sin(pooled(x)) * pooled(x))


def test_replaces_the_original():
    x = jnp.ones((2, 4, 4, 3))
    assert "select_and_scatter" in compiled_text(jax.grad(loss), "pointwise_convolution", x)
    assert "select_and_scatter" not in compiled_text(jax.grad(loss), NAME, x)


@pytest.mark.parametrize(("window", "padding"), [((9, 9), ((0, 0), (0, 0)))])
def test_leaves_what_it_does_not_cover(window, padding):
    counts = tuple((9 + sum(p) - w) + 1 for p, w in zip(padding, window, strict=True))
    text = compiled_text(
        lambda s, o: pool_gradient(s, o, lax.ge_p, window, (1, 1), padding),
        NAME,
        jnp.ones(counts),
        jnp.ones((9, 9)),
    )
    assert "select_and_scatter" in text


def test_batched_and_differentiated_twice():
    x = jnp.asarray(np.random.default_rng(1).standard_normal((3, 2, 4, 4, 2)), jnp.float32)

    def second(x):
        return jax.vmap(lambda v: jax.grad(lambda u: jnp.sum(jax.grad(loss)(u) ** 2))(v))(x)

    original, replaced = both(second, NAME, x)
    np.testing.assert_allclose(original, replaced, rtol=1e-6, atol=1e-6)


def test_zero_size():
    original, replaced = both(jax.grad(loss), NAME, jnp.zeros((0, 4, 4, 3)))
    assert_same_bits(original, replaced)
