"""Convolutions as matrix products agree with XLA's own to 1e-5."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.sharding import PartitionSpec

from drumline.cpu_kernels import weight_gradient
from tests.cpu_kernels.layers import assert_close, convolve, normal, pads, with_gradients
from tests.cpu_kernels.toggled import both, compiled_text

POINTWISE, WEIGHTS, FEW = "pointwise_convolution", "weight_gradient", "few_channels"


@settings(max_examples=20)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(3, 7), st.integers(3, 7), st.integers(1, 4)),
    filters=st.integers(1, 4),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=pads,
)
def test_pointwise(shape, filters, stride, padding):
    x, w = normal(*shape), normal(1, 1, shape[-1], filters, seed=1)
    function = functools.partial(with_gradients, stride=stride, padding=padding)
    assert_close(*both(function, POINTWISE, x, w))


@pytest.mark.thorough
@settings(max_examples=20)
@given(
    shape=st.tuples(
        st.integers(1, 4), st.integers(6, 9), st.integers(6, 9), st.sampled_from([1, 3, 16, 17])
    ),
    kernel=st.tuples(st.integers(1, 3), st.integers(2, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=pads,
    block_bytes=st.sampled_from([1, 20_000, 2**24]),
)
def test_weight_gradient(shape, kernel, stride, padding, block_bytes):
    x, w = normal(*shape), normal(*kernel, shape[-1], 3, seed=1)
    function = functools.partial(with_gradients, stride=stride, padding=padding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weight_gradient, "BLOCK_BYTES", block_bytes)
        assert_close(*both(function, WEIGHTS, x, w))


@pytest.mark.thorough
@settings(max_examples=20)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(5, 9), st.integers(5, 9), st.integers(1, 2)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=pads,
)
def test_few_channels(shape, kernel, stride, padding):
    x, w = normal(*shape), normal(*kernel, shape[-1], 5, seed=1)
    function = functools.partial(with_gradients, stride=stride, padding=padding)
    assert_close(*both(function, FEW, x, w))


@pytest.mark.parametrize(("channels", "left"), [(1, 0), (2, 1)])
def test_few_channels_are_few(channels, left):
    x, w = normal(2, 8, 8, channels), normal(3, 3, channels, 4)
    assert compiled_text(convolve, FEW, x, w).count("stablehlo.convolution") == left


def test_few_channels_batched_and_inside_shard_map():
    x, w = normal(3, 2, 6, 6, 1), normal(3, 3, 1, 4)
    function = jax.vmap(with_gradients, in_axes=(0, None))
    assert_close(*both(function, FEW, x, w))
    mesh = jax.sharding.Mesh(jax.devices("cpu")[:2], ("replica",))
    cut, whole = PartitionSpec("replica"), PartitionSpec()
    local = jax.shard_map(convolve, mesh=mesh, in_specs=(cut, whole), out_specs=cut)
    assert_close(*both(local, FEW, x[0], w))


@pytest.mark.parametrize(("name", "kernel"), [(POINTWISE, 1), (WEIGHTS, 3)])
def test_replaces_the_original(name, kernel):
    x, w = normal(2, 8, 8, 16), normal(kernel, kernel, 16, 4)
    text = compiled_text(with_gradients, name, x, w)
    assert text.count("stablehlo.convolution") == (0 if kernel == 1 else 2)


@pytest.mark.parametrize(
    ("options", "w_shape"),
    [
        ({"feature_group_count": 2}, (1, 1, 2, 4)),
        ({"dimension_numbers": ("NCHW", "OIHW", "NCHW")}, (4, 8, 1, 1)),
    ],
)
def test_leaves_what_it_does_not_cover(options, w_shape):
    x = normal(2, 8, 8, 4)
    function = functools.partial(convolve, **options)
    assert "stablehlo.convolution" in compiled_text(function, POINTWISE, x, normal(*w_shape))


@pytest.mark.parametrize(
    ("dtype", "preferred", "tolerance"),
    [("bfloat16", None, 1e-2), ("bfloat16", "float32", 1e-5), ("float64", None, 1e-12)],
)
def test_dtypes(dtype, preferred, tolerance):
    with jax.enable_x64(True):
        x, w = normal(2, 5, 5, 8, dtype=dtype), normal(1, 1, 8, 4, dtype=dtype)
        function = functools.partial(
            convolve, preferred_element_type=preferred, precision=lax.Precision.HIGHEST
        )
        original, replaced = both(function, POINTWISE, x, w)
        assert replaced.dtype == jnp.dtype(preferred or dtype)
        assert_close(original, replaced, tolerance)
        assert "HIGHEST" in compiled_text(function, POINTWISE, x, w)


@pytest.mark.parametrize(("name", "kernel"), [(POINTWISE, 1), (WEIGHTS, 3)])
def test_batched_and_differentiated_twice(name, kernel):
    x, w = normal(3, 2, 6, 6, 16), normal(kernel, kernel, 16, 4)

    def penalty(x, w):
        inner = jax.grad(lambda w: jnp.sum(jnp.sin(convolve(x, w))))(w)
        return jnp.sum(inner**2)

    function = jax.vmap(jax.grad(penalty, argnums=(0, 1)), in_axes=(0, None))
    assert_close(*both(function, name, x, w), 1e-4)


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize(("name", "kernel"), [(POINTWISE, 1), (WEIGHTS, 3)])
def test_inside_shard_map(name, kernel, checked, monkeypatch):
    monkeypatch.setattr(weight_gradient, "BLOCK_BYTES", 1)
    mesh = jax.sharding.Mesh(jax.devices("cpu")[:2], ("replica",))
    data, whole = PartitionSpec("replica"), PartitionSpec()

    def local(x, w):
        y, dx, dw = with_gradients(x, w)
        return y, dx, dw if checked else lax.psum(dw, "replica")

    function = jax.shard_map(
        local, mesh=mesh, in_specs=(data, whole), out_specs=(data, data, whole), check_vma=checked
    )
    x, w = normal(4, 6, 6, 16), normal(kernel, kernel, 16, 4)
    assert_close(*both(function, name, x, w))


def test_weight_gradient_is_left_to_the_compiler_that_partitions():
    mesh = jax.sharding.Mesh(jax.devices("cpu")[:2], ("replica",))
    x = jax.device_put(
        normal(4, 6, 6, 16), jax.sharding.NamedSharding(mesh, PartitionSpec("replica"))
    )
    w = normal(3, 3, 16, 4)
    assert compiled_text(with_gradients, WEIGHTS, x, w).count("stablehlo.convolution") == 3
