"""A Python function of about a millisecond of numpy, over 2,000 elements, batched by 16."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness.digest import batch_evidence
from benchmarks.harness.floors import Floor
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads.exact_batches import same_as

WIDTH = 16_384


def work(row: Any) -> np.ndarray:
    """About a millisecond on one core; an array of as many float32."""
    value = np.asarray(row, np.float64)
    for _ in range(4):
        value = np.sin(value) + 0.5 * np.cos(value)
    # Interpreters may have numpys that differ in the last bits.
    return np.round(value, 2).astype(np.float32)


def rows(scale: Scale) -> np.ndarray:
    """The elements."""
    random = np.random.default_rng(7)
    return random.standard_normal((scale.elements, WIDTH), dtype=np.float32)


def drumline(scale: Scale, calls: int | None, workers: str) -> Build:
    """As a user writes it; ``calls`` is ``num_parallel_calls``."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    data = rows(scale)
    options = dl.data.Options()
    options.python_workers = workers

    def build() -> Iterable[Batch]:
        source = dl.data.Dataset.from_tensor_slices(data)
        mapped = source.map(work, num_parallel_calls=calls)
        return mapped.batch(scale.batch_size).with_options(options)

    return build


def tf_data(scale: Scale) -> Build:
    """As TensorFlow's guides write it: the function wrapped, called in parallel."""
    import tensorflow as tf

    data = rows(scale)

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.from_tensor_slices(data)
            .map(
                lambda row: tf.numpy_function(work, [row], tf.float32),
                num_parallel_calls=tf.data.AUTOTUNE,
            )
            .batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def torch_loader(scale: Scale) -> Build:
    """As PyTorch's guide writes it: a dataset that works on each item, two worker processes."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Worked(Dataset):
        def __init__(self) -> None:
            self._rows = rows(scale)

        def __len__(self) -> int:
            return len(self._rows)

        def __getitem__(self, index: int) -> Any:
            return torch.from_numpy(work(self._rows[index]))

    def build() -> Iterable[Batch]:
        return DataLoader(
            Worked(), batch_size=scale.batch_size, num_workers=2, persistent_workers=True
        )

    return build


def numpy_by_hand(scale: Scale) -> Build:
    """A loop on one thread."""
    data = rows(scale)

    def epoch() -> Iterator[Batch]:
        for start in range(0, scale.elements, scale.batch_size):
            yield np.stack([work(row) for row in data[start : start + scale.batch_size]])

    return lambda: Epochs(epoch)


measured = measured_by(batch_evidence)


def expected(scale: Scale) -> list[np.ndarray]:
    """The batches of a loop."""
    data = rows(scale)
    size = scale.batch_size
    return [
        np.stack([work(row) for row in data[start : start + size]])
        for start in range(0, scale.elements, size)
    ]


_OURS = ("drumline", "jax")

WORKLOAD = Workload(
    name="python_map",
    title="2,000 elements: map(1 ms of numpy in Python), batch(16)",
    unit="elements",
    baseline="one thread",
    full=Scale(elements=2_000, batch_size=16, later_epochs=2),
    quick=Scale(elements=200, batch_size=16, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "map(num_parallel_calls=2), batch",
            _OURS,
            measured(drumline, _OURS, 2, "threads"),
        ),
        Contender(
            "drumline AUTOTUNE",
            "map(num_parallel_calls=AUTOTUNE), batch",
            _OURS,
            measured(drumline, _OURS, -1, "threads"),
        ),
        Contender(
            "drumline processes",
            'map(num_parallel_calls=2), batch; Options.python_workers = "processes"',
            _OURS,
            measured(drumline, _OURS, 2, "processes"),
        ),
        Contender(
            "one thread",
            "drumline without num_parallel_calls",
            _OURS,
            measured(drumline, _OURS, None, "threads"),
        ),
        Contender(
            "tf.data",
            "map(numpy_function, num_parallel_calls=AUTOTUNE), batch, prefetch(AUTOTUNE)",
            ("tensorflow",),
            measured(tf_data, ("tensorflow-cpu", "tensorflow")),
        ),
        Contender(
            "torch",
            "a Dataset that works on each item, DataLoader with two worker processes",
            ("torch",),
            measured(torch_loader, ("torch",)),
        ),
        Contender("numpy", "a loop on one thread", (), measured(numpy_by_hand, ())),
    ),
    floors=(Floor("later", at_least=1.8, against="one thread"),),
    check=same_as(expected),
)
