"""Maps over elements of 1 kB to 1 MB, in memory and in order: bytes to floats, and floats.

Images of bytes become floats between 0 and 1; of those of floats each is centered and turned upside
down, and its number counted up. Batches are small enough that several fit into memory.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Problems, Scale, Workload

Side = int | None
"""Of images of bytes; ``None`` stands for 32 x 32 images of floats with their numbers."""

_CLOSE = 1e-5


@functools.lru_cache(1)
def columns(scale: Scale, side: Side) -> tuple[np.ndarray, ...]:
    """The images (n, side, side, 3), and for those of floats their numbers, int64 (n,)."""
    generator = np.random.default_rng(0)
    if side is None:
        images = generator.standard_normal((scale.elements, 32, 32, 3), np.float32)
        return images, np.arange(scale.elements)
    size = scale.elements * side * side * 3
    return (np.frombuffer(generator.bytes(size), np.uint8).reshape(-1, side, side, 3),)


def evidence(batches: Iterable[Batch]) -> dict[str, Any]:
    """Sums of each batch, weighted by place within it, its length, and the dtypes that occurred."""
    sums, lengths, dtypes = [], [], set()
    for batch in batches:
        arrays = [
            np.asarray(leaf) for leaf in (batch if isinstance(batch, tuple | list) else [batch])
        ]
        dtypes.add(", ".join(str(array.dtype) for array in arrays))
        lengths.append(len(arrays[0]))
        for array in arrays:
            flat = array.reshape(len(array), -1)
            rows = flat @ np.cos(np.arange(flat.shape[1])).astype(flat.dtype)
            sums.append(float(rows @ np.sin(1.0 + np.arange(len(rows)))))
    return {"sums": sums, "lengths": lengths, "dtypes": sorted(dtypes)}


def check(side: Side) -> Callable[[Scale, Mapping[str, Measurement]], Problems]:
    """That every epoch gave the batches that numpy gives, in order, nearly to rounding."""

    def found(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
        wanted = evidence(numpy_by_hand(scale, side)())
        problems = {
            name: _problem(measurement.evidence["epochs"], wanted)
            for name, measurement in measurements.items()
        }
        return {name: problem for name, problem in problems.items() if problem}

    return found


def _problem(epochs: list[dict[str, Any]], wanted: dict[str, Any]) -> str:
    for epoch in epochs:
        if epoch["lengths"] != wanted["lengths"]:
            return "did not give the expected number of elements in each batch"
        if epoch["dtypes"] != wanted["dtypes"]:
            return f"gave dtypes {epoch['dtypes']}, not {wanted['dtypes']}"
        scale = float(np.abs(wanted["sums"]).max())
        if not np.allclose(epoch["sums"], wanted["sums"], rtol=0, atol=_CLOSE * scale):
            return "did not give the expected batches in order"
    return ""


def _function(side: Side, mean: Callable[[Any], Any]) -> Callable[..., Any]:
    if side is None:
        return lambda image, number: ((image - mean(image))[::-1], number + 1)
    return lambda image: image / 255


def drumline(scale: Scale, side: Side) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    data = columns(scale, side)
    function = _function(side, lambda image: image.mean())

    def build() -> Iterable[Batch]:
        return (
            dl.data.Dataset.from_tensor_slices(data if side is None else data[0])
            .map(function, num_parallel_calls=dl.data.AUTOTUNE)
            .batch(scale.batch_size)
            .prefetch(dl.data.AUTOTUNE)
        )

    return build


def numpy_by_hand(scale: Scale, side: Side) -> Build:
    """A slice for each batch, into fresh memory, in one thread."""
    images, *numbers = columns(scale, side)
    reciprocal = np.float32(1 / 255)

    def epoch() -> Iterator[Batch]:
        for start in range(0, scale.elements, scale.batch_size):
            part = images[start : start + scale.batch_size]
            if side is None:
                centered = part - part.mean((1, 2, 3), keepdims=True)
                turned = np.ascontiguousarray(centered[:, ::-1])
                yield turned, numbers[0][start : start + scale.batch_size] + 1
            else:
                yield part * reciprocal

    return lambda: Epochs(epoch)


def jit_by_hand(scale: Scale, side: Side) -> Build:
    """A call of ``jit(vmap)`` for each batch, on all of XLA's threads."""
    import jax

    jax.devices("cpu")
    images, *numbers = columns(scale, side)
    compiled = jax.jit(jax.vmap(_function(side, lambda image: image.mean())))

    def epoch() -> Iterator[Batch]:
        for start in range(0, scale.elements, scale.batch_size):
            rows = slice(start, start + scale.batch_size)
            with jax.enable_x64(True):
                made = compiled(images[rows], *(column[rows] for column in numbers))
            yield tuple(map(np.asarray, made)) if side is None else np.asarray(made)

    return lambda: Epochs(epoch)


def tf_data(scale: Scale, side: Side) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    data = columns(scale, side)
    function = _function(side, tf.reduce_mean) if side is None else _as_floats

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.from_tensor_slices(data if side is None else data[0])
            .map(function, num_parallel_calls=tf.data.AUTOTUNE)
            .batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def _as_floats(image: Any) -> Any:
    import tensorflow as tf

    return tf.cast(image, tf.float32) / 255.0


def tf_data_expert(scale: Scale, side: Side) -> Build:
    """Batches of positions; slices, and computes whole batches, on every core."""
    import tensorflow as tf

    data = columns(scale, side)
    options = tf.data.Options()
    options.autotune.enabled = False

    def batch(held: list[Any], start: Any) -> Any:
        parts = [column[start : start + scale.batch_size] for column in held]
        if side is not None:
            return tf.cast(parts[0], tf.float32) * (1.0 / 255.0)
        mean = tf.reduce_mean(parts[0], axis=(1, 2, 3), keepdims=True)
        return tf.reverse(parts[0] - mean, axis=[1]), parts[1] + 1

    def build() -> Iterable[Batch]:
        held = [tf.Variable(column, trainable=False) for column in data]
        return (
            tf.data.Dataset.range(0, scale.elements, scale.batch_size)
            .map(lambda start: batch(held, start), num_parallel_calls=os.cpu_count())
            .prefetch(tf.data.AUTOTUNE)
            .with_options(options)
        )

    return build


class Rows:
    """Random access to what the function makes of an element, as peers ask of a source."""

    def __init__(self, data: tuple[np.ndarray, ...], change: Callable[..., Any]):
        self._data = data
        self._change = change

    def __len__(self) -> int:
        return len(self._data[0])

    def __getitem__(self, index: int) -> Any:
        return self._change(*(column[index] for column in self._data))


def grain_dataset(scale: Scale, side: Side) -> Build:
    """As Grain's guide writes it, with no reading threads, as it advises for data in memory."""
    import grain

    data = columns(scale, side)

    def change(*leaves: Any) -> Any:
        if side is None:
            return (leaves[0] - leaves[0].mean())[::-1], leaves[1] + 1
        return leaves[0] / np.float32(255)

    def build() -> Iterable[Batch]:
        return Epochs(
            lambda: iter(
                grain.MapDataset.source(Rows(data, change))
                .batch(scale.batch_size)
                .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
            )
        )

    return build


def torch_loader(scale: Scale, side: Side) -> Build:
    """As PyTorch's guide writes it: a dataset that transforms each item; no workers."""
    import torch
    from torch.utils.data import DataLoader

    def change(*leaves: Any) -> Any:
        image = torch.from_numpy(leaves[0])
        return ((image - image.mean()).flip(0), leaves[1] + 1) if side is None else image / 255

    data = tuple(np.array(column) for column in columns(scale, side))

    def build() -> Iterable[Batch]:
        return DataLoader(Rows(data, change), batch_size=scale.batch_size)

    return build


_CONTENDERS: tuple[tuple[str, str, tuple[str, ...], Callable[..., Build]], ...] = (
    (
        "drumline",
        "from_tensor_slices, map(num_parallel_calls=AUTOTUNE), batch, prefetch(AUTOTUNE)",
        ("drumline", "jax"),
        drumline,
    ),
    ("tf.data", "the same, with AUTOTUNE", ("tensorflow",), tf_data),
    (
        "tf.data expert",
        "slices of variables, whole batches on every core, no autotuning",
        ("tensorflow",),
        tf_data_expert,
    ),
    ("Grain", "MapDataset of a source, batch; num_threads=0", ("grain",), grain_dataset),
    ("torch", "a Dataset that transforms each item, no workers", ("torch",), torch_loader),
    ("numpy", "a slice for each batch, in one thread", (), numpy_by_hand),
    ("jit(vmap)", "a compiled call for each batch", ("jax",), jit_by_hand),
)


def _workload(name: str, title: str, side: Side, elements: int, batch_size: int) -> Workload:
    measured = measured_by(evidence)
    return Workload(
        name=name,
        title=f"{elements:,} x {title}, batch({batch_size})",
        unit="elements",
        baseline="tf.data",
        full=Scale(elements=elements, batch_size=batch_size, later_epochs=3),
        quick=Scale(elements=5 * batch_size + 3, batch_size=batch_size, later_epochs=1),
        contenders=tuple(
            Contender(who, about, requires, measured(prepare, requires, side))
            for who, about, requires, prepare in _CONTENDERS
        ),
        floors=(
            Floor("later", at_least=0.7, aim=1.0, against="numpy"),
            Floor("later", at_least=0.5, aim=1.0, against="jit(vmap)"),
        ),
        check=check(side),
    )


WORKLOADS = (
    _workload("map_1kB", "uint8[18,18,3]: / 255", 18, 200_000, 256),
    _workload("map_12kB", "uint8[64,64,3]: / 255", 64, 20_000, 64),
    _workload("map_150kB", "uint8[224,224,3]: / 255", 224, 2_000, 32),
    _workload("map_1MB", "uint8[592,592,3]: / 255", 592, 300, 16),
    _workload("map_floats", "float32[32,32,3]: centered, upside down", None, 30_000, 50),
)
