"""A loop written by hand gives on several replicas what it gives on one device."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

from drumline import config
from tests.distribute.step.loops import Loop, mirrored, train

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "clipped momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9, global_clipnorm=0.5),
    "averaged": lambda: keras.optimizers.Adam(1e-2, use_ema=True, ema_overwrite_frequency=2),
    "accumulating": lambda: keras.optimizers.Adam(1e-2, gradient_accumulation_steps=2),
    "loss scaling": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.Adam(1e-2), initial_scale=1.0
    ),
}


@pytest.mark.parametrize("replicas", [2, 4])
def test_batches_that_divide(one_device: Callable[..., Loop], replicas: int) -> None:
    train(mirrored(replicas)).assert_same(one_device())


@pytest.mark.parametrize(("replicas", "rows"), [(2, 21), (4, 21), (4, 18)])
def test_a_last_batch_that_does_not(
    one_device: Callable[..., Loop], replicas: int, rows: int
) -> None:
    """The last batch has 5 rows, or 2: fewer than the replicas."""
    train(mirrored(replicas), rows=rows).assert_same(one_device(rows=rows))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_an_optimizer_does_comes_after_the_sum(
    one_device: Callable[..., Loop], name: str
) -> None:
    make = OPTIMIZERS[name]
    train(mirrored(2), rows=21, optimizer=make).assert_same(one_device(rows=21, optimizer=make))


def test_eight_replicas() -> None:
    program = """
import os
os.environ["KERAS_BACKEND"] = "jax"
import jax
jax.config.update("jax_num_cpu_devices", 8)
from tests.distribute.step.loops import mirrored, train
train(mirrored(8), rows=21).assert_same(train(mirrored(1), rows=21))
print("same")
"""
    process = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        capture_output=True,
        text=True,
    )
    assert process.stdout.strip() == "same", process.stderr


@pytest.mark.thorough
def test_eagerly(one_device: Callable[..., Loop], eagerly: None) -> None:
    eager = train(mirrored(2), rows=6, batch=3, epochs=1)
    config.run_functions_eagerly(False)
    eager.assert_same(one_device(rows=6, batch=3, epochs=1))
