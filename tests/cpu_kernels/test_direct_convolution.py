"""drumline's own convolutions agree with XLA's, and take no more than they cover."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from drumline.cpu_kernels import kernels
from tests.cpu_kernels.layers import (
    assert_close,
    convolve,
    normal,
    pads,
    pooled_with_gradients,
    with_gradients,
)
from tests.cpu_kernels.toggled import both, compiled_text, only

NAME = "direct_convolution"
TARGETS = ("drumline_convolution", "drumline_weight_gradient")

pytestmark = pytest.mark.skipif(not kernels.available(), reason="needs AVX2 or AVX-512")


def calls(function, *operands):
    """How often the program calls each of drumline's functions, and XLA's convolution."""
    text = compiled_text(function, NAME, *operands)
    return [text.count(f"@{name}(") for name in TARGETS] + [text.count("stablehlo.convolution")]


@settings(max_examples=15)
@given(
    shape=st.tuples(
        st.integers(1, 3), st.integers(5, 9), st.integers(5, 9), st.sampled_from([1, 3, 8, 17])
    ),
    kernel=st.tuples(st.integers(1, 3), st.integers(2, 4)),
    filters=st.sampled_from([8, 31, 32, 33]),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=pads,
)
def test_agrees(shape, kernel, filters, stride, padding):
    x, w = normal(*shape), normal(*kernel, shape[-1], filters, seed=1)
    function = functools.partial(with_gradients, stride=stride, padding=padding)
    assert_close(*both(function, NAME, x, w))


@pytest.mark.parametrize(
    ("shape", "filters", "expected"),
    [((64, 13, 13, 32), 64, [2, 1, 0]), ((64, 28, 28, 1), 32, [1, 1, 1])],
)
def test_the_tutorials_layers_in_double_precision(shape, filters, expected):
    x, w = normal(*shape), normal(3, 3, shape[-1], filters, seed=1)
    function = functools.partial(with_gradients, padding="VALID")
    assert calls(function, x, w) == expected
    with jax.enable_x64(True), only():
        exact = jax.jit(function)(x.astype("float64"), w.astype("float64"))
        exact = jax.tree.map(lambda a: np.asarray(a, "float32"), exact)
    with only(NAME):
        assert_close(exact, jax.jit(lambda x, w: function(x, w))(x, w))


@pytest.mark.parametrize("shape", [(0, 8, 8, 16), (3, 1, 1, 16), (3, 2, 2, 16), (1, 1, 9, 16)])
def test_empty_batches_and_kernels_larger_than_images(shape):
    assert_close(*both(with_gradients, NAME, normal(*shape), normal(3, 3, 16, 8)))


def test_batched_and_differentiated_twice():
    x, w = normal(3, 2, 7, 7, 16), normal(3, 3, 16, 8)

    def penalty(x, w):
        inner = jax.grad(lambda w: jnp.sum(jnp.sin(convolve(x, w))))(w)
        return jnp.sum(inner**2)

    function = jax.vmap(jax.grad(penalty, argnums=(0, 1)), in_axes=(0, None))
    assert_close(*both(function, NAME, x, w), 1e-4)


@pytest.mark.parametrize("checked", [True, False])
def test_inside_shard_map(checked):
    mesh = jax.sharding.Mesh(jax.devices("cpu")[:4], ("replica",))
    cut, whole = PartitionSpec("replica"), PartitionSpec()

    def local(x, w):
        y, dx, dw = with_gradients(x, w)
        return y, dx, dw if checked else jax.lax.psum(dw, "replica")

    function = jax.shard_map(
        local, mesh=mesh, in_specs=(cut, whole), out_specs=(cut, cut, whole), check_vma=checked
    )
    x, w = normal(8, 7, 7, 16), normal(3, 3, 16, 8)
    assert calls(function, x, w) == [2, 1, 0]
    assert_close(*both(function, NAME, x, w))


def test_is_left_to_the_compiler_that_partitions():
    mesh = jax.sharding.Mesh(jax.devices("cpu")[:2], ("replica",))
    x = jax.device_put(normal(4, 6, 6, 16), NamedSharding(mesh, PartitionSpec("replica")))
    assert calls(with_gradients, x, normal(3, 3, 16, 8)) == [0, 0, 3]


def test_an_exported_program_needs_no_drumline():
    x, w = normal(2, 7, 7, 16), normal(3, 3, 16, 8)
    with only(NAME):
        exported = jax.export.export(jax.jit(convolve))(x, w)
    assert "custom_call" not in exported.mlir_module()
    assert exported.serialize()


@pytest.mark.parametrize(
    ("options", "w_shape", "dtype"),
    [
        ({}, (3, 3, 8, 7), "float32"),
        ({}, (1, 1, 8, 16), "float32"),
        ({}, (3, 3, 8, 16), "bfloat16"),
        ({"feature_group_count": 2}, (3, 3, 4, 16), "float32"),
        ({"rhs_dilation": (2, 2)}, (3, 3, 8, 16), "float32"),
        ({"padding": ((-1, 0), (0, 0))}, (3, 3, 8, 16), "float32"),
        ({"dimension_numbers": ("NCHW", "HWIO", "NHWC")}, (3, 3, 9, 16), "float32"),
        ({"dimension_numbers": ("NHWC", "OIHW", "NHWC")}, (16, 8, 3, 3), "float32"),
    ],
)
def test_leaves_what_it_does_not_cover(options, w_shape, dtype):
    function = functools.partial(convolve, **options)
    x, w = normal(2, 9, 9, 8, dtype=dtype), normal(*w_shape, dtype=dtype)
    assert calls(function, x, w) == [0, 0, 1]


def results():
    """Of the tutorial's second layer, with and without what is around it."""
    x, w, b = normal(9, 13, 13, 32), normal(3, 3, 32, 64, seed=1), normal(64, seed=2)
    alone = jax.jit(lambda x, w: with_gradients(x, w))(x, w)
    return (*alone, *jax.jit(lambda *a: pooled_with_gradients(*a))(x, w, b))


ON_ONE_CPU = f"""
import os, sys
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
import numpy
from drumline import cpu_kernels
from tests.cpu_kernels.test_direct_convolution import results
cpu_kernels.install(("{NAME}", "pooled_convolution"))
numpy.savez(sys.argv[1], *results())
"""


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a choice of processors")
def test_results_do_not_depend_on_the_number_of_threads(tmp_path):
    path = tmp_path / "one.npz"
    command = [sys.executable, "-c", ON_ONE_CPU, str(path)]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    with only(NAME, "pooled_convolution"):
        here = results()
    with np.load(path) as alone:
        for ours, theirs in zip(here, alone.values(), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_call_that_makes_no_sense_is_an_error():
    kernels.register()
    x, w = normal(1, 5, 5, 8), normal(3, 3, 8, 8)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"drumline_convolution: strides 0, 1"):
        kernels.convolution(x, w, (3, 3), (0, 1), (0, 0), False).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match="do not belong together"):
        kernels.convolution(
            x, normal(3, 3, 9, 8), (3, 3), (1, 1), (0, 0), False
        ).block_until_ready()
