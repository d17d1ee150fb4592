"""A step of ``strategy.run`` beside the same step written by hand with ``jax.jit``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.training import check_training
from benchmarks.harness.workload import Contender, Scale, Workload

SIDE = 320
"""Rows and columns of a matrix whose product takes about a millisecond on 2 cores."""

ELEMENTS = 4
"""Elements of a variable."""


def _work(jnp: Any, matrix: Any) -> Any:
    """What makes a step long enough to be one: two products."""
    return jnp.mean(jnp.tanh(matrix @ jnp.tanh(matrix @ matrix)))


def by_run(variables: int) -> Callable[[Scale], Callable[[], Loop]]:
    """`strategy.run` of a step that reads and writes so many variables."""

    def prepare(scale: Scale) -> Callable[[], Loop]:
        os.environ["KERAS_BACKEND"] = "jax"
        import jax
        import jax.numpy as jnp

        import drumline as dl

        strategy = dl.distribute.OneDeviceStrategy("cpu:0")
        matrix = jax.device_put(_matrix(), jax.devices()[0])

        def build() -> Loop:
            with strategy.scope():
                state = [dl.Variable(value) for value in _values(variables)]

            def step(x: Any) -> Any:
                change = _work(jnp, x) * 1e-6
                for variable in state:
                    variable.assign_sub(change * variable.value)
                return jnp.sum(state[0].value)

            def epoch() -> tuple[float, int]:
                for _ in range(scale.elements):
                    result = strategy.run(step, args=(matrix,))
                    result.block_until_ready()
                return float(result), scale.elements

            return Loop(lambda: [np.asarray(variable.value) for variable in state], epoch)

        return build

    return prepare


def by_hand(variables: int) -> Callable[[Scale], Callable[[], Loop]]:
    """A jitted function of a list of arrays, which it donates."""

    def prepare(scale: Scale) -> Callable[[], Loop]:
        os.environ["KERAS_BACKEND"] = "jax"
        import jax
        import jax.numpy as jnp

        # The same lowerings and the same memory: what is compared is what surrounds the step.
        import drumline as dl  # noqa: F401

        device = jax.devices()[0]
        matrix = jax.device_put(_matrix(), device)

        def build() -> Loop:
            state = [jax.device_put(value, device) for value in _values(variables)]

            def step(values: Any, x: Any) -> Any:
                change = _work(jnp, x) * 1e-6
                values = [value - change * value for value in values]
                return values, jnp.sum(values[0])

            compiled = jax.jit(step, donate_argnums=0)

            def epoch() -> tuple[float, int]:
                nonlocal state
                for _ in range(scale.elements):
                    state, result = compiled(state, matrix)
                    result.block_until_ready()
                return float(result), scale.elements

            return Loop(lambda: [np.asarray(value) for value in state], epoch)

        return build

    return prepare


def _matrix() -> np.ndarray:
    return np.random.RandomState(0).standard_normal((SIDE, SIDE)).astype(np.float32)


def _values(variables: int) -> list[np.ndarray]:
    return [np.full(ELEMENTS, 1.0 + index, np.float32) for index in range(variables)]


def _workload(variables: int, steps: int) -> Workload:
    return Workload(
        name=f"run_{variables}",
        title=f"strategy.run, {variables:,} variables, and the same step in a donated jax.jit",
        unit="steps",
        baseline="jax.jit by hand",
        full=Scale(elements=steps, batch_size=1, later_epochs=9),
        quick=Scale(elements=20, batch_size=1, later_epochs=1),
        contenders=(
            Contender(
                "drumline",
                "dl.Variable, strategy.run",
                ("drumline", "jax"),
                measured_loop(by_run(variables), "drumline", "jax"),
            ),
            Contender(
                "jax.jit by hand",
                "a list of arrays, donated",
                ("jax",),
                measured_loop(by_hand(variables), "jax"),
            ),
        ),
        floors=(Floor("later", at_least=0.95, aim=1.0, against="jax.jit by hand"),),
        check=check_training(tolerance=1e-4, falls_to=1.0),
    )


WORKLOADS = (_workload(30, 500), _workload(300, 300), _workload(3000, 60))
