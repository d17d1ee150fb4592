"""Starting an epoch: the delay until its first batch, of a pipeline that has run before."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch, Epochs, measure_pipeline
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads import map_batch
from benchmarks.workloads.images import LAST_BIT, Images, Prepare, make_images


def measured(prepare: Prepare, libraries: tuple[str, ...]) -> Callable[[Scale], Measurement]:
    """The contender whose pipeline ``prepare`` builds, of each epoch of which one batch is read."""

    def run(scale: Scale) -> Measurement:
        images = make_images(scale.elements)

        def started() -> Callable[[], Iterable[Batch]]:
            build = prepare(images, scale)

            def first_batches() -> Iterable[Batch]:
                pipeline = build()
                return Epochs(lambda: itertools.islice(iter(pipeline), 1))

            return first_batches

        return measure_pipeline(
            started,
            functools.partial(evidence, images),
            1,
            scale.later_epochs,
            ("numpy", *libraries),
        )

    return run


def evidence(images: Images, batches: Iterable[Batch]) -> dict[str, Any]:
    """Whether the batch holds elements as they should be, and the labels of its first few."""
    ((pixels, labels),) = ([np.array(part) for part in batch] for batch in batches)
    wanted = images[0][labels][:, :, ::-1] / np.float32(255.0)
    right = pixels.shape == wanted.shape and np.abs(pixels - wanted).max() <= LAST_BIT
    return {
        "right": bool(right and pixels.dtype == np.float32 and len(set(labels.tolist())) > 1),
        "size": len(labels),
        "labels": labels[:8].tolist(),
    }


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Every batch must be whole and right, and another one in each epoch."""
    problems: Problems = {}
    for name, measurement in measurements.items():
        one, other = measurement.evidence["epochs"]
        if measurement.evidence["batches"] != [1]:
            problems[name] = f"gave {measurement.evidence['batches']} batches an epoch, not 1"
        elif not (one["right"] and other["right"]):
            problems[name] = "did not give images flipped, divided by 255, with their labels"
        elif {one["size"], other["size"]} != {scale.batch_size}:
            problems[name] = f"gave batches of {one['size']} and {other['size']}"
        elif one["labels"] == other["labels"]:
            problems[name] = "gave the same batch in two epochs"
    return problems


WORKLOAD = Workload(
    name="first_batch",
    title="starting an epoch of 60,000 images: shuffle(60000), map(flip, / 255), batch(64)",
    unit="starts",
    baseline="tf.data",
    full=Scale(elements=60_000, batch_size=64, later_epochs=20),
    quick=Scale(elements=2_000, batch_size=64, later_epochs=3),
    contenders=(
        Contender(
            "drumline",
            "from_tensor_slices, shuffle, map, batch, prefetch",
            ("drumline", "jax"),
            measured(map_batch.drumline, ("drumline", "jax")),
        ),
        Contender(
            "tf.data",
            "from_tensor_slices, shuffle, map(num_parallel_calls=AUTOTUNE), batch, prefetch",
            ("tensorflow",),
            measured(map_batch.tf_data, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "tf.data expert",
            "shuffled indices batched, then gather, reverse and multiply",
            ("tensorflow",),
            measured(map_batch.tf_data_expert, ("tensorflow-cpu", "tensorflow")),
        ),
    ),
    floors=(
        Floor("later", at_least=20.0),
        Floor("later", at_least=1.0, against="tf.data"),
        Floor("later", at_least=1.0, against="tf.data expert"),
    ),
    check=check,
)
