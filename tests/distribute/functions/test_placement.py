"""A function's arrays may lie on a device each, as shares of different sizes do."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import drumline as dl
from drumline.distribute import MirroredStrategy


@pytest.fixture
def strategy() -> MirroredStrategy:
    return MirroredStrategy(["cpu:0", "cpu:1", "cpu:2"])


@pytest.mark.parametrize("rows", [2, 6, 7])
@pytest.mark.parametrize("with_variable", [False, True])
def test_shares_of_any_size(strategy: MirroredStrategy, rows: int, with_variable: bool) -> None:
    with strategy.scope():
        seen = dl.Variable(0.0, aggregation="SUM")

    def step(x: Any) -> Any:
        if with_variable:
            seen.assign_add(x.sum())
        return x.sum()

    @dl.function
    def run(batch: Any, factor: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(step, args=(batch,))) * factor

    values = np.arange(rows, dtype=np.float32)
    (batch,) = strategy.experimental_distribute_dataset([values])
    elsewhere = jax.device_put(jnp.float32(10), jax.devices("cpu")[1])
    assert float(run(batch, elsewhere)) == 10 * values.sum()
    assert float(run(batch, np.float32(1))) == values.sum()
    assert float(seen.value) == (2 * values.sum() if with_variable else 0)


def test_a_variable_of_another_device_draws_the_arrays_there() -> None:
    with dl.distribute.OneDeviceStrategy("cpu:2").scope():
        v = dl.Variable(3.0)
    there = jax.device_put(jnp.float32(2), jax.devices("cpu")[1])
    product = dl.function(lambda x: x * v.value)(there)
    assert float(product) == 6.0
    assert product.devices() == {jax.devices("cpu")[2]}
