"""The images of the input workloads, and how a pipeline's copy of them is checked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.digest import image_evidence
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Build, measure_pipeline
from benchmarks.harness.workload import Problems, Scale

Images = tuple[NDArray[np.float32], NDArray[np.int64]]
Prepare = Callable[[Images, Scale], Build]

SHAPE = (28, 28, 1)
LAST_BIT = 1e-6


class ImageSource:
    """Random access to single (image, label) pairs, as peers ask of a source."""

    def __init__(self, images: Images) -> None:
        self._pixels, self._labels = images

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[NDArray[np.float32], np.int64]:
        return self._pixels[index], self._labels[index]


def make_images(elements: int) -> Images:
    """Images (n, 28, 28, 1), float32 of whole numbers from 0 to 255, and labels 0 to n - 1.

    The label is the element's place, so that labels alone show order and completeness.
    """
    pixels = np.random.RandomState(20).bytes(elements * 28 * 28)
    images = np.frombuffer(pixels, np.uint8).astype(np.float32).reshape(elements, *SHAPE)
    return images, np.arange(elements, dtype=np.int64)


def measured(
    prepare: Prepare, libraries: tuple[str, ...], levels_per_unit: float
) -> Callable[[Scale], Measurement]:
    """The contender that builds its pipeline with ``prepare``, made measurable."""
    observe = functools.partial(image_evidence, levels_per_unit=levels_per_unit)

    def run(scale: Scale) -> Measurement:
        images = make_images(scale.elements)
        return measure_pipeline(
            lambda: prepare(images, scale),
            observe,
            scale.elements,
            scale.later_epochs,
            ("numpy", *libraries),
        )

    return run


def check_images(
    transform: Callable[[NDArray[np.float32]], NDArray[np.float32]], levels_per_unit: float
) -> Callable[[Scale, Mapping[str, Measurement]], Problems]:
    """The check that every epoch was a full shuffle of ``transform`` applied to the images."""

    def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
        images, labels = make_images(scale.elements)
        wanted = image_evidence([(transform(images), labels)], levels_per_unit)
        found = {
            name: problem_with(measurement, scale, wanted)
            for name, measurement in measurements.items()
        }
        return {name: problem for name, problem in found.items() if problem}

    return check


def problem_with(measurement: Measurement, scale: Scale, wanted: Mapping[str, Any]) -> str:
    """What is wrong with a run's evidence; empty if nothing is.

    Args:
        measurement: the run.
        scale: what it was asked to do.
        wanted: the evidence of the same content in the source's order.
    """
    count = -(-scale.elements // scale.batch_size)
    batches = measurement.evidence["batches"]
    epochs = measurement.evidence["epochs"]
    problems = []
    if batches != [count]:
        problems.append(f"gave {' or '.join(map(str, batches))} batches an epoch, not {count}")
    if len({epoch["order"] for epoch in epochs}) < len(epochs):
        problems.append("repeated the order of an earlier epoch")
    for epoch in epochs:
        problems += _epoch_problems(epoch, scale, wanted)
    return "; ".join(dict.fromkeys(problems))


def _epoch_problems(
    epoch: Mapping[str, Any], scale: Scale, wanted: Mapping[str, Any]
) -> Iterator[str]:
    rest = scale.elements % scale.batch_size
    sizes = [scale.batch_size, rest] if rest else [scale.batch_size]
    if not epoch["once"]:
        yield "did not deliver every element exactly once"
    if not 0.28 < epoch["displacement"] < 0.39:
        yield (
            f"moved elements by {epoch['displacement']:.3f} of the length on average; "
            "a full shuffle moves them by a third"
        )
    if epoch["batch_sizes"] != sizes:
        yield f"gave batches of {epoch['batch_sizes']}, not of {sizes}"
    if epoch["content"] != wanted["content"]:
        yield f"delivered content {epoch['content']}, not {wanted['content']}"
    if epoch["max_error"] > LAST_BIT:
        yield f"gave pixels off by {epoch['max_error']:g}"
    if epoch["dtypes"] != wanted["dtypes"]:
        yield f"gave dtypes {epoch['dtypes']}, not {wanted['dtypes']}"
