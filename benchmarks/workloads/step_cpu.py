"""The processor time of a step that is defined in a function over an iterator, by processes.

As TensorFlow's tutorial on several workers has it: the function takes the iterator, defines the
step, and reduces its loss. All times are of the processor, user and system, of the first process;
the model is so small that most of a step is what surrounds it.
"""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.harness.digest import weights_digest
from benchmarks.harness.floors import Floor
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.ranks import Environment, in_ranks, tf_config
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.convnet import CLASSES, SHAPE, make_examples

ONE, LIKE_ONE, LIKE_TWO = "one process", "look-alike, one process", "look-alike, two processes"
BESIDE = "one process, beside another"
COPIES = "copies of the gradients"
OURS = ("drumline", "jax", "keras")
PARAMETERS = 8 * 10 + (13 * 13 * 8 + 1) * 32 + 33 * CLASSES
"""Numbers that `model_of` learns."""

Epoch = Callable[[], Any]
"""Trains for an epoch; returns its weights."""


def model_of(keras: Any) -> Any:
    """A convolution and two layers, seeded."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input(SHAPE),
            layers.Conv2D(8, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(32, activation="relu"),
            layers.Dense(CLASSES),
        ]
    )


def training(dl: Any, keras: Any, strategy: Any, reduction: str | None, scale: Scale) -> Epoch:
    """The loop; `dl` is drumline, or its look-alike of TensorFlow, which it names alike."""
    size = scale.batch_size
    examples = make_examples(64 * size)
    dataset = dl.data.Dataset.from_tensor_slices(examples).repeat().batch(size)
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    with strategy.scope():
        model = model_of(keras)
        assert model.count_params() == PARAMETERS
        optimizer = keras.optimizers.RMSprop(0.001)
        accuracy = keras.metrics.SparseCategoricalAccuracy()
        losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)

    @dl.function
    def train_step(iterator: Any) -> Any:
        def step(inputs: Any) -> Any:
            images, labels = inputs
            with dl.GradientTape() as tape:
                predictions = model(images, training=True)
                per_example = losses(labels, predictions)
                loss = dl.nn.compute_average_loss(per_example, global_batch_size=size)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            accuracy.update_state(labels, predictions)
            return loss

        per_replica = strategy.run(step, args=(next(iterator),))
        return strategy.reduce(dl.distribute.ReduceOp.SUM, per_replica, axis=None)

    def epoch() -> Any:
        for _ in range(scale.elements):
            loss = train_step(iterator)
        float(loss)
        return model.get_weights()

    return epoch


def by_own_names(scale: Scale) -> Epoch:
    """By drumline's own names."""
    os.environ["KERAS_BACKEND"] = "jax"
    import drumline as dl

    strategy = dl.distribute.MultiWorkerMirroredStrategy()
    import keras

    return training(dl, keras, strategy, None, scale)


def by_look_alike(scale: Scale) -> Epoch:
    """By `drumline.compat.tf`."""
    import drumline.compat.tf as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    return training(tf, tf.keras, strategy, "none", scale)


def copies(scale: Scale) -> Epoch:
    """What a sum of two processes' gradients in shared memory copies: the bound of its time."""
    own, other, slot, total = (np.ones(PARAMETERS, np.float32) for _ in range(4))

    def epoch() -> Any:
        for _ in range(scale.elements):
            np.copyto(slot, own)
            np.add(slot, other, out=total)
        return [total]

    return epoch


def processor_time(
    prepare: Callable[[Scale], Epoch], *libraries: str
) -> Callable[[Scale], Measurement]:
    """The contender that `prepare` prepares, its epochs measured in seconds of the processor."""

    def run(scale: Scale) -> Measurement:
        before = time.process_time()
        epoch = prepare(scale)
        ready = time.process_time()
        weights, elapsed = None, []
        for _ in range(1 + scale.later_epochs):
            began = time.process_time()
            weights = epoch()
            elapsed.append(time.process_time() - began)
        later = elapsed[1:]
        return Measurement(
            elements=scale.elements,
            import_s=ready - before,
            first_batch_s=elapsed[0],
            first_epoch_s=elapsed[0],
            later_epochs_s=tuple(later),
            evidence={
                "weights": weights_digest(weights),
                "processor_ms_per_step": 1e3 * statistics.median(later) / scale.elements,
            },
            versions=versions(("numpy", *libraries)),
        )

    return run


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> dict[str, str]:
    """The look-alike learns the same bits as drumline's own names, in as many processes."""
    problems = {}
    for own, like in ((ONE, LIKE_ONE), ("drumline", LIKE_TWO)):
        if own in measurements and like in measurements:
            found = [measurements[name].evidence["weights"] for name in (own, like)]
            if found[0] != found[1]:
                problems[like] = f"weights {found[1]}, and by drumline's own names {found[0]}"
    return problems


def clusters_of_one(count: int) -> list[Environment]:
    """Environments of processes that run at the same time and know nothing of each other."""
    return [environment for _ in range(count) for environment in tf_config(1)]


def _contender(
    name: str,
    about: str,
    processes: int,
    prepare: Callable[[Scale], Epoch],
    cluster: Callable[[int], list[Environment]] = tf_config,
) -> Any:
    run = processor_time(prepare, "drumline", "jax", "keras")
    return Contender(name, about, OURS, in_ranks(functools.partial(cluster, processes), run))


WORKLOAD = Workload(
    name="step_cpu",
    title="processor time of a small step defined in a function over an iterator, 2 processes",
    unit="steps",
    baseline=ONE,
    full=Scale(elements=500, batch_size=8, later_epochs=5),
    quick=Scale(elements=30, batch_size=8, later_epochs=1),
    contenders=(
        _contender("drumline", "MultiWorkerMirroredStrategy, 2 processes", 2, by_own_names),
        _contender(ONE, "the same in one process", 1, by_own_names),
        _contender(
            BESIDE, "two that do the same at once, each alone", 2, by_own_names, clusters_of_one
        ),
        _contender(LIKE_TWO, "import drumline.compat.tf as tf", 2, by_look_alike),
        _contender(LIKE_ONE, "the same in one process", 1, by_look_alike),
        Contender(
            COPIES, "numpy: a copy of them and a sum", ("numpy",), processor_time(copies, "numpy")
        ),
    ),
    floors=(Floor("later", at_least=0.5, aim=1.0, against=ONE),),
    check=check,
)
