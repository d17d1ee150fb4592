"""An interrupt at any moment of a step leaves the variables as some whole number of steps did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drumline as dl
from tests.interruptions import interrupted_at


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("assigned", [True, False])
def test_at_many_instructions(replicas: int, compiled: bool, assigned: bool, every: int) -> None:
    strategy = dl.distribute.MirroredStrategy([f"cpu:{i}" for i in range(replicas)])
    with strategy.scope():
        first = dl.Variable(np.zeros(3, np.float32), aggregation="mean")
        second = dl.Variable(np.zeros((), np.int32), aggregation="only_first_replica")

    def replica_step(x: Any) -> None:
        first.assign_add(x)
        second.assign_add(1)

    def step(x: Any) -> None:
        strategy.run(replica_step, args=(x,))

    run = dl.function(step) if compiled else step
    x = np.ones(3, np.float32)
    for _ in range(3):
        run(x)
    position, steps = 1, 3
    while interrupted_at(lambda: run(x), position, ["/drumline/", "/jax/"]):
        done = int(second.numpy())
        assert done in (steps, steps + 1), position
        np.testing.assert_array_equal(first.numpy(), np.full(3, done, np.float32))
        steps = done
        position += every
        if assigned:  # what a user does between steps
            second.assign(second)
            first.assign(first.value)
    assert position > 100
    run(x)
    assert int(second.numpy()) in (steps + 1, steps + 2)
