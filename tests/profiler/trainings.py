"""Profiled trainings in the processes of a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np

import drumline as dl

SECONDS = 0.03


def member(delayed: int | None, implementation: str, folder: str) -> None:
    """Train by `fit` and by a loop; process `delayed` rests in each step.

    Each process is told a folder of its own for what is tracked.
    """
    strategy = dl.distribute.MultiWorkerMirroredStrategy(
        communication_options=dl.distribute.experimental.CommunicationOptions(
            implementation=implementation
        )
    )
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]

    def rest(*_: Any, **__: Any) -> None:
        if index == delayed:
            time.sleep(SECONDS)

    directory = Path(folder, str(index))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        profile = fit(strategy, rest, directory)
    facts: dict[str, Any] = {
        "fit": [_facts(epoch) for epoch in profile.epochs],
        "printed": printed.getvalue().splitlines(),
        "files": [path.name for path in directory.rglob("*")],
        "loop": [_facts(epoch) for epoch in loop(strategy, rest).epochs],
    }
    print(json.dumps({"facts": facts}), flush=True)


def _facts(epoch: Any) -> dict[str, Any]:
    return {**dataclasses.asdict(epoch), "line": str(epoch)}


def fit(strategy: Any, rest: Any, directory: Path) -> Any:
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((32,)), keras.layers.Dense(64), keras.layers.Dense(1)]
        )
        model.compile(keras.optimizers.SGD(1e-3), "mse")
    profiler = dl.keras.callbacks.StepProfiler(prometheus=directory / "metrics.prom")
    track = dl.keras.callbacks.Track("tensorboard", directory=directory)
    rests = keras.callbacks.LambdaCallback(on_train_batch_end=rest)
    ones = np.ones((96, 32), np.float32), np.ones((96, 1), np.float32)
    model.fit(*ones, batch_size=8, epochs=3, verbose=0, callbacks=[profiler, track, rests])
    return profiler.profile


def loop(strategy: Any, rest: Any) -> Any:
    with strategy.scope():
        weights = keras.Variable(np.ones(32, np.float32))

    def step(batch: Any) -> Any:
        context = dl.distribute.get_replica_context()
        weights.assign_sub(1e-3 * context.all_reduce("MEAN", batch.sum(0)))
        return weights.value.sum()

    rows = dl.data.Dataset.from_tensor_slices(np.ones((96, 32), np.float32)).batch(8)
    batches = strategy.experimental_distribute_dataset(rows)
    with dl.profile_steps() as profile:
        for _ in range(3):
            for batch in batches:
                total = strategy.run(step, args=(batch,))
                rest()
            float(strategy.reduce("SUM", total, axis=None))
            profile.end_epoch()
    return profile
