"""Many steps on as many CPU devices as XLA has threads: they must not block one another."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import numpy as np, drumline as dl, keras
with dl.distribute.MirroredStrategy().scope():
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(), layers.Flatten(), layers.Dense(64, activation="relu"),
        layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
x = np.random.default_rng(0).random((6400, 28, 28, 1), dtype=np.float32)
model.fit(x, np.arange(6400) % 10, batch_size=64, epochs=3, verbose=0)
model.evaluate(x, np.arange(6400) % 10, batch_size=64, verbose=0)
print(dl.distribute.MirroredStrategy().num_replicas_in_sync, "replicas done")
"""
FEW_THREADS = {
    "JAX_NUM_CPU_DEVICES": "2",
    "NPROC": "2",
    "XLA_FLAGS": "--xla_cpu_collective_call_terminate_timeout_seconds=10",
}


def test_steps_do_not_starve_one_another() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **FEW_THREADS, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert "2 replicas done" in run.stdout
