"""Eigen computes convolutions where jaxlib would let YNNPACK, and programs can still choose."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from drumline.cpu_kernels import jax_internals
from drumline.cpu_kernels.registry import OPTION, WITHOUT_CONVOLUTIONS
from tests.cpu_kernels.toggled import both, only

NAME = "eigen_convolution"
YNNPACK = "__ynn_fusion"

needs_the_option = pytest.mark.skipif(
    not jax_internals.knows_option(OPTION, WITHOUT_CONVOLUTIONS),
    reason="this jaxlib gives no convolutions to YNNPACK",
)


def convolve(x, w):
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@pytest.fixture
def operands():
    numbers = np.random.default_rng(0)
    return tuple(jnp.asarray(numbers.random(s), "float32") for s in ((4, 9, 9, 32), (3, 3, 32, 48)))


def compiled(*operands, **options):
    return jax.jit(lambda x, w: convolve(x, w), **options).lower(*operands).compile().as_text()


@needs_the_option
def test_ynnpack_gets_no_convolution(operands):
    with only():
        assert YNNPACK in compiled(*operands)
    with only(NAME):
        assert YNNPACK not in compiled(*operands)


@needs_the_option
def test_products_stay_with_ynnpack(operands):
    x, w = operands
    with only(NAME):
        product = jax.jit(jnp.matmul).lower(x.reshape(-1, 32), w[0, 0]).compile()
    assert YNNPACK in product.as_text()


@needs_the_option
def test_a_programs_own_option_is_kept(operands):
    chosen = {OPTION: "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"}
    with only(NAME):
        assert YNNPACK in compiled(*operands, compiler_options=chosen)


@needs_the_option
def test_float64_keeps_the_library_that_knows_it(operands):
    with only(NAME), jax.enable_x64(True):
        assert YNNPACK in compiled(*(operand.astype("float64") for operand in operands))


def test_results_agree(operands):
    original, replaced = both(convolve, NAME, *operands)
    np.testing.assert_allclose(replaced, original, rtol=1e-5)


def test_an_option_that_jaxlib_does_not_know_is_known_not_to_be():
    assert not jax_internals.knows_option("xla_cpu_no_such_option", "1")


def test_options_are_known_while_a_mesh_is_in_force():
    known = jax_internals.knows_option(OPTION, WITHOUT_CONVOLUTIONS)
    jax_internals.knows_option.cache_clear()
    with jax.set_mesh(jax.make_mesh((2,), ("replica",))):
        assert jax_internals.knows_option(OPTION, WITHOUT_CONVOLUTIONS) == known
