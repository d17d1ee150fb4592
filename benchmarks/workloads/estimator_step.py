"""A training step of an Estimator beside the same model in a custom loop.

Both do the same work: the custom loop, too, has each step's loss and counts its steps in a
variable, as loops do that log and save. It neither looks at losses nor has hooks and summaries.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.digest import weights_digest
from benchmarks.harness.floors import Floor
from benchmarks.harness.loops import Loop, measured_loop
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.training import check_training, seed_weights
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import CLASSES, FALLS_TO, SHAPE, TOLERANCE, make_examples

Build = Callable[[Any], Any]

WITHIN = 0.91
"""A step within 10 %, also where steps are mostly what surrounds them."""


def convnet(keras: Any) -> Any:
    """The tutorial's convnet, whose step is mostly computation."""
    return keras.Sequential(
        [
            keras.layers.Input(SHAPE),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(CLASSES),
        ]
    )


def small(keras: Any) -> Any:
    """A model of two small layers, whose step is mostly what surrounds it."""
    return keras.Sequential(
        [
            keras.layers.Input(SHAPE),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(CLASSES),
        ]
    )


def _updated(dl: Any, keras: Any, model: Any, optimizer: Any, images: Any, labels: Any) -> Any:
    """Make a step: both contenders' own code."""
    with dl.GradientTape() as tape:
        logits = model(images, training=True)
        each = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        loss = keras.ops.mean(each)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


def by_hand(make: Build) -> Callable[[Scale], Callable[[], Loop]]:
    """A loop over a dataset, which calls a `dl.function`."""

    def prepare(scale: Scale) -> Callable[[], Loop]:
        os.environ["KERAS_BACKEND"] = "jax"
        import jax
        import keras

        import drumline as dl

        jax.devices()
        examples = make_examples(scale.elements)

        def build() -> Loop:
            model, optimizer = make(keras), keras.optimizers.Adam(0.001)
            seed_weights(model)
            optimizer.build(model.trainable_variables)
            total = dl.Variable(np.float32(0), trainable=False)
            count = dl.Variable(np.int32(0), trainable=False)

            @dl.function
            def step(images: Any, labels: Any) -> Any:
                loss = _updated(dl, keras, model, optimizer, images, labels)
                total.assign_add(loss)
                count.assign_add(1)
                return loss

            data = iter(_batches(dl, examples, scale))
            steps = scale.elements // scale.batch_size

            def epoch() -> tuple[float, int]:
                before = float(total.numpy())
                for _ in range(steps):
                    step(*next(data))
                return (float(total.numpy()) - before) / steps, steps

            return Loop(model.get_weights, epoch)

        return build

    return prepare


def by_estimator(make: Build) -> Callable[[Scale], Measurement]:
    """One call of `Estimator.train`, of which a hook notes when its epochs have ended."""

    def run(scale: Scale) -> Measurement:
        before = time.perf_counter()
        os.environ["KERAS_BACKEND"] = "jax"
        import jax
        import keras

        import drumline as dl

        jax.devices()
        ready = time.perf_counter()
        examples = make_examples(scale.elements)
        made: dict[str, Any] = {}

        def model_fn(features: Any, labels: Any, mode: str) -> Any:
            model, optimizer = make(keras), keras.optimizers.Adam(0.001)
            total = dl.Variable(np.float32(0), name="total", trainable=False)
            loss = _updated(dl, keras, model, optimizer, features, labels)
            made.setdefault("model", model)
            made.setdefault("total", total)
            return dl.estimator.EstimatorSpec(mode, loss=loss, train_op=total.assign_add(loss))

        steps = scale.elements // scale.batch_size

        class Epochs(dl.estimator.SessionRunHook):  # type: ignore[misc]
            def __init__(self) -> None:
                self.ends: list[float] = []
                self.totals = [0.0]
                self.initial = ""
                self._left = steps

            def after_create_session(self, session: Any, coord: Any) -> None:
                seed_weights(made["model"])
                self.initial = weights_digest(made["model"].get_weights())
                self.ends.append(time.perf_counter())

            def after_run(self, run_context: Any, run_values: Any) -> None:
                self._left -= 1
                if self._left == 0:
                    self.totals.append(float(made["total"].numpy()))
                    self.ends.append(time.perf_counter())
                    self._left = steps

        epochs = Epochs()
        with tempfile.TemporaryDirectory() as folder:
            dl.estimator.Estimator(model_fn, folder).train(
                lambda: _batches(dl, examples, scale),
                steps=steps * (1 + scale.later_epochs),
                hooks=[epochs],
            )
        first, *later = np.diff(epochs.ends).tolist()
        return Measurement(
            elements=scale.elements,
            import_s=ready - before,
            first_batch_s=first,
            first_epoch_s=first,
            later_epochs_s=tuple(later),
            evidence={
                "steps": steps * (len(epochs.ends) - 1),
                "losses": (np.diff(epochs.totals) / steps).tolist(),
                "initial_weights": epochs.initial,
                "build_model_s": epochs.ends[0] - ready,
            },
            versions=versions(("numpy", "drumline", "jax", "keras")),
        )

    return run


def _batches(dl: Any, examples: Any, scale: Scale) -> Any:
    data = dl.data.Dataset.from_tensor_slices(examples)
    return data.batch(scale.batch_size, drop_remainder=True).repeat().prefetch(2)


def _workload(
    name: str, title: str, make: Build, elements: int, batch_size: int, floor: float | None
) -> Workload:
    return Workload(
        name=f"estimator_{name}",
        title=f"{title} in Estimator.train, and in a custom loop",
        unit="images",
        baseline="custom loop",
        full=Scale(elements=elements, batch_size=batch_size, later_epochs=5),
        quick=Scale(elements=640, batch_size=batch_size, later_epochs=1),
        contenders=(
            Contender(
                "drumline",
                "dl.estimator.Estimator, with its own checkpoints and summaries",
                ("drumline", "jax", "keras"),
                by_estimator(make),
            ),
            Contender(
                "custom loop",
                "dl.function, GradientTape",
                ("drumline", "jax", "keras"),
                measured_loop(by_hand(make), "drumline", "jax", "keras"),
            ),
        ),
        floors=(Floor("later", at_least=floor, aim=WITHIN, against="custom loop"),),
        check=check_training(TOLERANCE, FALLS_TO),
    )


WORKLOADS = (
    _workload("convnet", "a convnet, batch 64,", convnet, 6_400, 64, WITHIN),
    _workload("small", "two small layers, batch 32,", small, 32_000, 32, WITHIN),
)
