"""Keras's ``fit``, from a dataset or from arrays: times its epochs and records the losses."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.digest import weights_digest
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Contender, Problems, Scale


class Fit(Protocol):
    """Trains a built and compiled model for a number of epochs, telling the callbacks."""

    def __call__(self, *, epochs: int, callbacks: list[Any]) -> None: ...


ModelAndFit = tuple[Any, Fit]
Prepared = tuple[Any, Callable[[], ModelAndFit]]


def fit(model: Any, x: Any, *, epochs: int, callbacks: list[Any], **options: Any) -> None:
    """Keras's ``fit`` without output; partially applied, it is a ``Fit``."""
    model.fit(x, epochs=epochs, callbacks=callbacks, verbose=0, **options)


def measured(
    prepare: Callable[[Scale], Prepared], *libraries: str
) -> Callable[[Scale], Measurement]:
    """The contender that ``prepare`` prepares, made measurable.

    Args:
        prepare: see ``measure_training``.
        libraries: the distributions whose versions to state.
    """

    def run(scale: Scale) -> Measurement:
        return measure_training(functools.partial(prepare, scale), scale, libraries)

    return run


def seed_weights(model: Any, seed: int = 3) -> None:
    """Gives a Keras model the same initial weights under every backend.

    Kernels are drawn as He's normal initializer draws them; scales and variances start at
    one, offsets and means at zero.
    """
    random = np.random.RandomState(seed)
    values = []
    for variable in model.weights:
        shape = tuple(variable.shape)
        role = variable.path.rsplit("/", 1)[-1]
        if role == "kernel":
            spread = np.sqrt(2.0 / np.prod(shape[:-1]))
            values.append((random.standard_normal(shape) * spread).astype(np.float32))
        elif role in ("gamma", "moving_variance"):
            values.append(np.ones(shape, np.float32))
        elif role in ("bias", "beta", "moving_mean"):
            values.append(np.zeros(shape, np.float32))
        else:
            raise ValueError(f"no initial value is defined for the weight {variable.path}")
    model.set_weights(values)


def timeline(keras: Any) -> Any:
    """A Keras callback that notes when training began and each epoch ended, and its loss."""

    class Timeline(keras.callbacks.Callback):
        async_safe = True

        def __init__(self) -> None:
            super().__init__()
            self.first_step_at: float | None = None
            self.epoch_ends: list[float] = []
            self.losses: list[float] = []
            self.steps = 0

        def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
            if self.first_step_at is None:
                self.first_step_at = time.perf_counter()
            self.steps += 1

        def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            self.losses.append(float((logs or {})["loss"]))
            self.epoch_ends.append(time.perf_counter())

    return Timeline()


def measure_training(
    prepare: Callable[[], Prepared], scale: Scale, libraries: Iterable[str]
) -> Measurement:
    """Measures a training from the building of its model to its last epoch.

    Args:
        prepare: imports the libraries and starts their runtime; returns the ``keras``
            module and the function that gives the compiled model, with its initial weights,
            and the function that fits it. Timed as importing.
        scale: examples in an epoch and epochs after the first.
        libraries: the distributions whose versions to state.

    The first epoch runs from the call of ``fit`` and so includes tracing and compiling;
    building the model is stated in the evidence and is part of no epoch.
    """
    before = time.perf_counter()
    keras, build = prepare()
    ready = time.perf_counter()
    model, fit = build()
    initial = weights_digest(model.get_weights())
    callback = timeline(keras)
    start = time.perf_counter()
    fit(epochs=1 + scale.later_epochs, callbacks=[callback])
    ends = [start, *callback.epoch_ends]
    elapsed = [after - earlier for earlier, after in itertools.pairwise(ends)]
    return Measurement(
        elements=scale.elements,
        import_s=ready - before,
        first_batch_s=callback.first_step_at - start,
        first_epoch_s=elapsed[0],
        later_epochs_s=tuple(elapsed[1:]),
        evidence={
            "steps": callback.steps,
            "losses": callback.losses,
            "initial_weights": initial,
            "build_model_s": start - ready,
            "backend": keras.backend.backend(),
        },
        versions=versions(("numpy", "keras", *libraries)),
    )


def check_training(
    tolerance: float, falls_to: float
) -> Callable[[Scale, Mapping[str, Measurement]], Problems]:
    """The check that all trained alike.

    Args:
        tolerance: how far a loss of an epoch may be from the median of all contenders', as
            a share of it.
        falls_to: the share of the first epoch's loss that the last one may have at most.
    """

    def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
        if not measurements:
            return {}
        wanted_steps = (1 + scale.later_epochs) * -(-scale.elements // scale.batch_size)
        weights = [m.evidence["initial_weights"] for m in measurements.values()]
        curves = {name: np.asarray(m.evidence["losses"]) for name, m in measurements.items()}
        whole = [curve for curve in curves.values() if len(curve) == 1 + scale.later_epochs]
        wanted = _Wanted(
            steps=wanted_steps,
            weights=max(set(weights), key=weights.count),
            losses=np.nanmedian(whole, axis=0) if whole else np.empty(0),
            tolerance=tolerance,
            falls_to=falls_to,
        )
        problems = {
            name: "; ".join(_problems(m.evidence, curves[name], wanted))
            for name, m in measurements.items()
        }
        return {name: problem for name, problem in problems.items() if problem}

    return check


@dataclass(frozen=True)
class _Wanted:
    steps: int
    weights: str
    losses: NDArray[np.float64]
    tolerance: float
    falls_to: float


def _problems(
    evidence: Mapping[str, Any], losses: NDArray[np.float64], wanted: _Wanted
) -> Iterator[str]:
    if evidence["steps"] != wanted.steps:
        yield f"took {evidence['steps']} steps, not {wanted.steps}"
    if evidence["initial_weights"] != wanted.weights:
        yield "started from other weights than the rest"
    if len(losses) != len(wanted.losses):
        yield f"gave {len(losses)} losses, not one for each epoch"
        return
    apart = float(np.max(np.abs(losses - wanted.losses) / wanted.losses))
    if not apart <= wanted.tolerance:
        yield f"has losses up to {apart:.2%} from the others' (at most {wanted.tolerance:.2%})"
    if not losses[-1] <= wanted.falls_to * losses[0]:
        yield f"has a loss that went from {losses[0]:.4f} to {losses[-1]:.4f} only"


@dataclass(frozen=True)
class Task:
    """What is trained: the examples, and the compiled model with its initial weights.

    ``make_examples`` takes how many; ``compiled_model`` takes the ``keras`` module.
    """

    make_examples: Callable[[int], Any]
    compiled_model: Callable[[Any], Any]


def from_dataset(
    task: Task, keras: Any, data: Any, scale: Scale, scope: Callable[[], Any]
) -> Prepared:
    """As guides write it: slices, batches and a prefetch.

    Args:
        data: ``drumline.data`` or ``tf.data``, which are alike in this.
        scope: gives the context in which the model is built.
    """
    examples = task.make_examples(scale.elements)

    def build() -> ModelAndFit:
        dataset = data.Dataset.from_tensor_slices(examples).batch(scale.batch_size)
        dataset = dataset.prefetch(data.AUTOTUNE)
        with scope():
            model = task.compiled_model(keras)
        return model, functools.partial(fit, model, dataset)

    return keras, build


def from_arrays(task: Task, keras: Any, scale: Scale) -> Prepared:
    """From the arrays themselves, which is the fastest input of Keras on JAX."""
    inputs, labels = task.make_examples(scale.elements)

    def build() -> ModelAndFit:
        model = task.compiled_model(keras)
        return model, functools.partial(
            fit, model, inputs, y=labels, batch_size=scale.batch_size, shuffle=False
        )

    return keras, build


def one_device_contenders(task: Task) -> tuple[Contender, ...]:
    """drumline, Keras on TensorFlow and Keras on JAX, on one device each."""

    def drumline(scale: Scale) -> Prepared:
        os.environ["KERAS_BACKEND"] = "jax"
        import jax
        import keras

        import drumline as dl

        jax.devices()
        strategy = dl.distribute.OneDeviceStrategy("cpu:0")
        return from_dataset(task, keras, dl.data, scale, strategy.scope)

    def keras_on_tensorflow(scale: Scale) -> Prepared:
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras
        import tensorflow as tf

        tf.constant(0)
        return from_dataset(task, keras, tf.data, scale, contextlib.nullcontext)

    def keras_on_jax(scale: Scale) -> Prepared:
        os.environ["KERAS_BACKEND"] = "jax"
        import jax
        import keras

        jax.devices()
        return from_arrays(task, keras, scale)

    return (
        Contender(
            "drumline",
            "Dataset, OneDeviceStrategy, Keras fit",
            ("drumline", "jax", "keras"),
            measured(drumline, "drumline", "jax"),
        ),
        Contender(
            "Keras on TensorFlow",
            "tf.data, Keras fit",
            ("tensorflow", "keras"),
            measured(keras_on_tensorflow, "tensorflow-cpu", "tensorflow"),
        ),
        Contender(
            "Keras on JAX",
            "arrays in memory, Keras fit",
            ("jax", "keras"),
            measured(keras_on_jax, "jax"),
        ),
    )
