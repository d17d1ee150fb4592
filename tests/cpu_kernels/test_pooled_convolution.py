"""Layers of convolution, bias, relu and pooling in one kernel give what XLA's operations give."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

import drumline as dl
from drumline.cpu_kernels import kernels
from tests.cpu_kernels.layers import (
    assert_close,
    convolve,
    integers,
    normal,
    pooled,
    pooled_with_gradients,
)
from tests.cpu_kernels.toggled import both, compiled_text, only

NAME = "pooled_convolution"
TARGETS = ("pooled_convolution", "pooled_bias_gradient", "pooled_weight_gradient")
TARGETS = tuple(f"drumline_{name}" for name in (*TARGETS, "pooled_input_gradient", "unpooling"))

pytestmark = pytest.mark.skipif(not kernels.available(), reason="needs AVX2 or AVX-512")


def calls(function, *operands):
    """How often the program calls each of drumline's functions, and XLA's convolution."""
    text = compiled_text(function, NAME, *operands)
    return [text.count(f"@{name}(") for name in TARGETS] + [text.count("stablehlo.convolution")]


def assert_equal(original, replaced):
    for a, b in zip(jax.tree.leaves(original), jax.tree.leaves(replaced), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def pooled_by_numpy(x, w, b, *, pool, **options):
    """The layer with NaN wherever one is in a window; XLA's pooling loses some of them."""
    with only():
        y = np.asarray(jax.nn.relu(convolve(x, w, **options) + b))
    rows, columns = (size // window for size, window in zip(y.shape[1:3], pool, strict=True))
    y = y[:, : rows * pool[0], : columns * pool[1]]
    return y.reshape(len(y), rows, pool[0], columns, pool[1], -1).max((2, 4))


@example((2, 7, 8, 16), (3, 3), 33, (1, 1), "SAME", (2, 2), np.nan)
@example((2, 7, 8, 16), (3, 3), 33, (1, 1), "SAME", (2, 2), None)
@settings(max_examples=4, phases=[Phase.explicit, Phase.generate])
@given(
    shape=st.tuples(
        st.integers(1, 3), st.integers(6, 9), st.integers(6, 9), st.sampled_from([1, 3, 16, 48])
    ),
    kernel=st.tuples(st.integers(1, 3), st.integers(2, 4)),
    filters=st.sampled_from([8, 31, 32, 33]),
    stride=st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 2)]),
    padding=st.sampled_from(["SAME", "VALID", ((2, 1), (0, 3))]),
    pool=st.sampled_from([(2, 2), (1, 2), (3, 2), (2, 3)]),
    special=st.sampled_from([None, np.nan, np.inf, -np.inf]),
)
def test_agrees_exactly_where_sums_are_exact(
    shape, kernel, filters, stride, padding, pool, special
):
    x, w = integers(*shape), integers(*kernel, shape[-1], filters, seed=1)
    if special is not None:
        x = x.at[0, 2, 3, 0].set(special)
    options = {"stride": stride, "padding": padding, "pool": pool}
    function = functools.partial(pooled_with_gradients, **options)
    operands = (x, w, integers(filters, seed=2, most=4))
    assert calls(function, *operands)[:3] == [1, 1, 1]
    original, replaced = both(function, NAME, *operands)
    assert_equal(original[1:], replaced[1:])
    np.testing.assert_array_equal(pooled_by_numpy(*operands, **options), replaced[0])


@pytest.mark.parametrize(
    ("shape", "filters", "expected"),
    [((64, 28, 28, 1), 32, [1, 1, 1, 0, 1, 1]), ((64, 13, 13, 32), 64, [1, 1, 1, 1, 0, 0])],
)
def test_the_tutorials_layers_in_double_precision(shape, filters, expected):
    x, w, b = integers(*shape), integers(3, 3, shape[-1], filters, seed=1), integers(filters)
    x, w = x * 1.1, w * 1.3  # ties stay ties
    function = functools.partial(pooled_with_gradients, padding="VALID")
    assert calls(function, x, w, b) == expected
    with jax.enable_x64(True), only():
        exact = jax.jit(function)(*(a.astype("float64") for a in (x, w, b)))
        exact = jax.tree.map(lambda a: np.asarray(a, "float32"), exact)
    with only(NAME):
        found = jax.jit(lambda *a: function(*a))(x, w, b)
    assert_close(exact[0], found[0])


def test_without_bias_and_batched():
    x, w = integers(2, 3, 8, 8, 16), integers(3, 3, 16, 8, seed=1)

    def function(x, w):
        y, pull = jax.vjp(lambda x, w: pooled(x, w, None), x, w)
        return y, *pull(jnp.ones_like(y))

    assert calls(function, x[0], w) == [1, 0, 1, 1, 0, 0]
    assert_equal(*both(function, NAME, x[0], w))
    assert_equal(*both(lambda x, w: lax.map(lambda x: function(x, w), x), NAME, x, w))
    assert_equal(*both(jax.vmap(function, in_axes=(0, None)), NAME, x, w))


def test_weights_that_are_not_finite_spread_as_in_a_convolution():
    x, w = integers(2, 8, 8, 16), integers(3, 3, 16, 8, seed=1).at[1, 1, 3, 2].set(np.inf)
    function = functools.partial(pooled_with_gradients, padding="VALID")
    original, replaced = both(function, NAME, x, w, integers(8))
    assert_equal(original[0], replaced[0])
    inside = np.s_[:, 2:-2, 2:-2]  # at the edges XLA also multiplies the padding
    assert np.isnan(np.asarray(original[1])[inside]).any()
    assert_equal(np.asarray(original[1])[inside], np.asarray(replaced[1])[inside])


def test_a_gradient_that_is_used_otherwise_is_written_out():
    x, w, b = integers(2, 8, 8, 16), integers(3, 3, 16, 8, seed=1), integers(8)

    def function(x, w, b):
        y, pull = jax.vjp(lambda z: pooled(x, w, b + z), jnp.zeros((2, 8, 8, 8)))
        return y, pull(jnp.ones_like(y))

    def pooled(x, w, z):
        y = jax.nn.relu(convolve(x, w) + 0.5 * z)
        return lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    assert calls(function, x, w, b) == [0] * 5 + [1]

    def with_full_size_gradient(x, w, b):
        y, pull = jax.vjp(lambda x, w: layer(x, w, b), x, w)
        return y, *pull(jnp.ones_like(y))

    def layer(x, w, b):
        y = convolve(jnp.concatenate([x, x], 0), w, stride=(2, 1))
        y = jax.nn.relu(y + b.reshape(1, 1, 1, -1))
        return lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    assert calls(with_full_size_gradient, x, w, b) == [1, 0, 1, 0, 1, 1]
    assert_equal(*both(with_full_size_gradient, NAME, x, w, b))


def other_uses(x, w, b, *, use):
    y = jax.nn.relu(convolve(x, w) + b.reshape(1, 1, 1, -1))
    windows = {
        "overlapping": ((1, 3, 3, 1), (1, 2, 2, 1), "VALID"),
        "padded": ((1, 3, 3, 1), (1, 3, 3, 1), "SAME"),
        "batch": ((2, 2, 2, 1), (2, 2, 2, 1), "VALID"),
    }
    by_two = ((1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    z = lax.reduce_window(y, -jnp.inf, lax.max, *windows.get(use, by_two))
    return jnp.sum(z * z) + (jnp.sum(y) if use == "summed" else 0), y if use == "kept" else z


@pytest.mark.parametrize("use", ["overlapping", "padded", "batch", "summed", "kept"])
def test_leaves_what_it_does_not_cover(use):
    x, w, b = integers(2, 8, 8, 16), integers(3, 3, 16, 8, seed=1), integers(8)
    function = functools.partial(other_uses, use=use)
    gradient = jax.value_and_grad(function, argnums=(0, 1, 2), has_aux=True)
    assert calls(gradient, x, w, b)[:5] == [0] * 5
    assert_equal(*both(gradient, NAME, x, w, b))


@pytest.mark.parametrize("name", ["negative", "leaky", "other bias"])
def test_leaves_what_is_no_relu(name):
    activate = {
        "negative": lambda y: jnp.maximum(y, -1.0),
        "leaky": jax.nn.leaky_relu,
        "other bias": lambda y: jax.nn.relu(y + jnp.arange(8.0).reshape(8, 1)),
    }[name]

    def function(x, w):
        y = activate(convolve(x, w))
        return lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    x, w = integers(2, 8, 8, 16), integers(3, 3, 16, 8, seed=1)
    assert calls(function, x, w)[:5] == [0] * 5


@pytest.mark.parametrize("shape", [(0, 8, 8, 16), (2, 1, 1, 16)])
def test_empty_results(shape):
    function = functools.partial(pooled_with_gradients, padding="SAME")
    assert_equal(*both(function, NAME, integers(*shape), integers(3, 3, 16, 8), integers(8)))


@pytest.mark.parametrize("checked", [True, False])
def test_inside_shard_map_but_not_where_the_compiler_partitions(checked):
    mesh = jax.sharding.Mesh(jax.devices("cpu")[:2], ("replica",))
    cut, whole = PartitionSpec("replica"), PartitionSpec()

    def local(x, w, b):
        y, dx, *rest = pooled_with_gradients(x, w, b, padding="VALID")
        return y, dx, rest if checked else lax.psum(rest, "replica")

    specs = {"in_specs": (cut, whole, whole), "out_specs": (cut, cut, whole)}
    function = jax.shard_map(local, mesh=mesh, check_vma=checked, **specs)
    x, w, b = integers(4, 8, 8, 16), integers(3, 3, 16, 8, seed=1), integers(8)
    assert_equal(*both(function, NAME, x, w, b))
    if not checked:
        assert calls(function, x, w, b) == [1, 1, 1, 1, 0, 0]
    x = jax.device_put(x, NamedSharding(mesh, cut))
    assert calls(pooled_with_gradients, x, w, b)[:5] == [0] * 5


def test_an_exported_program_needs_no_drumline():
    x, w, b = normal(2, 7, 7, 16), normal(3, 3, 16, 8), normal(8)
    with only(NAME):
        exported = jax.export.export(jax.jit(lambda *a: pooled(*a)))(x, w, b)
    assert "custom_call" not in exported.mlir_module()


def model():
    keras.utils.set_random_seed(0)
    built = keras.Sequential(
        [
            keras.layers.Input((14, 14, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(8, 3, activation="relu", padding="same"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )
    built.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return built


def fitted(replicas):
    """The weights after fit, and how many of the programs compiled for it call each kernel."""
    client = jax.devices("cpu")[0].client
    before = client.live_executables()
    x, y = np.asarray(normal(16, 14, 14, 1)), np.arange(16) % 3
    with dl.distribute.MirroredStrategy([f"cpu:{i}" for i in range(replicas)]).scope():
        trained = model()
    trained.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    calling = [np.array(counts(programs)) for programs in (before, client.live_executables())]
    return trained.get_weights(), (calling[1] - calling[0]).tolist()


def counts(programs):
    texts = [program.hlo_modules()[0].to_string() for program in programs]
    return [sum(f'"{name}"' in text for text in texts) for name in TARGETS]


@pytest.mark.parametrize("replicas", [1, 2])
def test_fit_runs_the_kernels(replicas):
    with only(NAME):
        weights, calling = fitted(replicas)
    assert calling == [1, 1, 1, 1, 0]
    with only("direct_convolution"):
        others, calling = fitted(replicas)
    assert calling == [0, 0, 0, 0, 0]
    assert_close(others, weights)
