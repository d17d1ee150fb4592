"""Gradients through `all_reduce` and `all_gather` are those of one device on the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import drumline as dl
from drumline.distribute import MirroredStrategy, get_replica_context

WEIGHTS = np.linspace(0.5, 1.5, 3).astype(np.float32)
Loss = Callable[[Any, Any], Any]


@pytest.fixture(params=[False, True], ids=["compiled", "eager"])
def _eagerly(request: pytest.FixtureRequest) -> Iterator[None]:
    dl.config.run_functions_eagerly(request.param)
    yield
    dl.config.run_functions_eagerly(False)


def _loss(mean: Callable[[Any], Any], weights: Any, x: Any) -> Any:
    h = x * weights
    center = mean(h)
    return jnp.sum((h - center) ** 3) + h.shape[0] * jnp.sum(center**2)


def _by_sums(h: Any) -> Any:
    total, rows = get_replica_context().all_reduce("SUM", (h.sum(0), h.shape[0]))
    return total / rows


def _by_rows(h: Any) -> Any:
    return get_replica_context().all_gather(h).mean(0)


def _by_columns(h: Any) -> Any:
    return get_replica_context().all_gather(h.T, axis=1).mean(1)


def _with_jax(loss: Loss, v: dl.Variable, x: Any) -> Any:
    return jax.grad(loss)(v.value, x)


def _with_variables(loss: Loss, v: dl.Variable, x: Any) -> Any:
    return dl.value_and_grad(lambda: loss(v.value, x), v)()[1]


def _with_tape(loss: Loss, v: dl.Variable, x: Any) -> Any:
    with dl.GradientTape() as tape:
        value = loss(v.value, x)
    return tape.gradient(value, v)


@pytest.mark.usefixtures("_eagerly")
@pytest.mark.parametrize(
    ("gradient", "mean", "rows"),
    [
        (_with_jax, _by_sums, 7),
        (_with_variables, _by_rows, 7),
        (_with_tape, _by_sums, 7),
        (_with_tape, _by_columns, 7),
        (_with_tape, _by_rows, 2),
        (_with_tape, _by_sums, 6),
    ],
)
def test_equal_to_one_device(gradient: Any, mean: Any, rows: int) -> None:
    x = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
    expected = jax.grad(lambda w: _loss(lambda h: h.mean(0), w, x))(jnp.asarray(WEIGHTS))
    strategy = MirroredStrategy(["cpu:0", "cpu:1", "cpu:2"])
    with strategy.scope():
        v = dl.Variable(WEIGHTS)

    def step(x: Any) -> Any:
        found = gradient(lambda w, x: _loss(mean, w, x), v, x)
        return get_replica_context().all_reduce("SUM", found)

    dataset = dl.data.Dataset.from_tensor_slices(x).batch(rows)
    (batch,) = strategy.experimental_distribute_dataset(dataset)
    found = strategy.experimental_local_results(strategy.run(step, args=(batch,)))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def _run(step: Any, rows: int) -> Any:
    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    x = np.arange(1, rows + 1, dtype=np.float32)
    dataset = dl.data.Dataset.from_tensor_slices(x).batch(rows)
    (batch,) = strategy.experimental_distribute_dataset(dataset)
    return strategy.experimental_local_results(strategy.run(step, args=(batch,)))


@pytest.mark.parametrize("mean", [_by_sums, _by_rows])
def test_a_replica_without_rows_has_the_gradients_too(mean: Any) -> None:
    """What a step returned of the last batch of an epoch is given back in the next one."""
    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    data = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)

    def step(weights: Any, x: Any) -> Any:
        gradient = jax.grad(lambda w: _loss(mean, w, x))(weights)
        return weights - 0.01 * get_replica_context().all_reduce("SUM", gradient)

    weights: Any = jnp.asarray(WEIGHTS)
    expected = jnp.asarray(WEIGHTS)
    dataset = dl.data.Dataset.from_tensor_slices(data).batch(4)
    for _ in range(2):
        for batch in strategy.experimental_distribute_dataset(dataset):
            weights = strategy.run(step, args=(weights, batch))
        for x in dataset:
            slope = jax.grad(lambda w, x=x: _loss(lambda h: h.mean(0), w, x))(expected)
            expected = expected - 0.01 * slope
    for found in strategy.experimental_local_results(weights):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_second_derivatives_and_means() -> None:
    def step(x: Any) -> Any:
        def loss(w: Any) -> Any:
            return get_replica_context().all_reduce("MEAN", jnp.sum(x) * w) ** 3

        return jax.grad(jax.grad(loss))(jnp.float32(1.0))

    # Both replicas have the sum 3, so m = (3 u + 3 v) / 2 and both losses are m^3. By either of u
    # and v the sum of both has the derivative 9 m^2, and the sum of these 54 m, with m = 3.
    np.testing.assert_allclose(_run(step, 3), [162, 162])


def test_inside_of_a_traced_function_it_is_refused() -> None:
    def step(x: Any) -> Any:
        inner = jax.jit(lambda w: get_replica_context().all_reduce("SUM", jnp.sum(x * w)))
        return inner(jnp.float32(2.0))

    with pytest.raises(RuntimeError, match=r"all_reduce\(SUM\) was called inside a function"):
        _run(step, 3)
    np.testing.assert_allclose(_run(step, 4), [20, 20])
