"""What a backup at the end of each epoch costs a `fit` that nothing disturbs."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Callable
from typing import Any

from benchmarks.harness.floors import Floor
from benchmarks.harness.training import Prepared, check_training, from_dataset, measured
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import CONVNET, FALLS_TO


def prepared(backup: bool, scale: Scale) -> Prepared:
    """The tutorial's convnet from a dataset; with `backup`, all is saved after each epoch."""
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    import drumline as dl

    jax.devices()
    strategy = dl.distribute.OneDeviceStrategy("cpu:0")
    keras, build = from_dataset(CONVNET, keras, dl.data, scale, strategy.scope)
    if not backup:
        return keras, build

    def build_with_backup() -> Any:
        model, fit = build()
        return model, functools.partial(_fit_with_backup, fit, dl)

    return keras, build_with_backup


def _fit_with_backup(
    fit: Callable[..., None], dl: Any, *, epochs: int, callbacks: list[Any]
) -> None:
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory())
        backup = dl.keras.callbacks.Checkpointing(place, every_epochs=1)
        fit(epochs=epochs, callbacks=[*callbacks, backup])
        if not os.path.exists(os.path.join(place, f"ckpt-{epochs}.safetensors")):
            raise RuntimeError(f"the {epochs} epochs were not saved")


WORKLOAD = Workload(
    name="fit_backup",
    title="tutorial convnet, Keras fit, everything saved after each epoch, 1 device",
    unit="images",
    baseline="without",
    full=Scale(elements=16_000, batch_size=64, later_epochs=4),
    quick=Scale(elements=1_280, batch_size=64, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "fit with dl.keras.callbacks.Checkpointing",
            ("drumline", "jax", "keras"),
            measured(functools.partial(prepared, True), "drumline", "jax"),
        ),
        Contender(
            "without",
            "the same fit without it",
            ("drumline", "jax", "keras"),
            measured(functools.partial(prepared, False), "drumline", "jax"),
        ),
    ),
    floors=(Floor("later", at_least=0.98, against="without"),),
    check=check_training(0.0, FALLS_TO),
)
