"""An epoch of 10,000 tiny steps: one compiled function, or a Python loop over ``strategy.run``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.training import check_training
from benchmarks.harness.workload import Contender, Scale, Workload

FEATURES = 8
OURS = ("drumline", "jax", "keras")


def training(scale: Scale, *, staged: bool) -> Callable[[], Loop]:
    """Linear regression by gradient descent, a batch a step."""
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import jax.numpy as jnp

    import drumline as dl

    jax.devices()
    random = np.random.RandomState(5)
    inputs = random.standard_normal((scale.elements, FEATURES)).astype(np.float32)
    noise = random.standard_normal(scale.elements).astype(np.float32)
    targets = inputs @ np.linspace(-1, 1, FEATURES, dtype=np.float32) + noise
    strategy = dl.distribute.OneDeviceStrategy("cpu:0")

    def build() -> Loop:
        dataset = dl.data.Dataset.from_tensor_slices((inputs, targets)).batch(scale.batch_size)
        distributed = strategy.experimental_distribute_dataset(dataset)
        with strategy.scope():
            weights = dl.Variable(np.zeros(FEATURES, np.float32))

        def step(x: Any, y: Any) -> Any:
            with dl.GradientTape() as tape:
                loss = jnp.mean((x @ weights.value - y) ** 2)
            weights.assign_sub(1e-4 * tape.gradient(loss, weights))
            return loss

        def epoch(batches: Any) -> Any:
            total = 0.0
            for x, y in batches:
                total += strategy.run(step, args=(x, y))
            return total

        run = dl.function(epoch) if staged else epoch
        steps = -(-scale.elements // scale.batch_size)
        return Loop(
            lambda: [np.asarray(weights.value)],
            lambda: (float(run(distributed)) / steps, steps),
        )

    return build


def function(scale: Scale) -> Callable[[], Loop]:
    """The epoch in `dl.function`."""
    return training(scale, staged=True)


def python_loop(scale: Scale) -> Callable[[], Loop]:
    """The same function without it."""
    return training(scale, staged=False)


WORKLOAD = Workload(
    name="function_epoch",
    title="10,000 tiny steps: dl.function over the epoch",
    unit="steps",
    baseline="Python loop",
    full=Scale(elements=10_000, batch_size=1, later_epochs=3),
    quick=Scale(elements=1_000, batch_size=1, later_epochs=1),
    contenders=(
        Contender("drumline", "dl.function", OURS, measured_loop(function, *OURS)),
        Contender(
            "Python loop", "for batch in dataset: run", OURS, measured_loop(python_loop, *OURS)
        ),
    ),
    floors=(Floor("later", at_least=3.0, against="Python loop"),),
    check=check_training(tolerance=1e-4, falls_to=1.0),
)
