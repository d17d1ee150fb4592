"""Shuffled images, each flipped left to right and scaled to 0..1, batched by 64."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.pipelines import Batch, Build, Epochs
from benchmarks.harness.workload import Contender, Scale, Workload
from benchmarks.workloads import index_batches
from benchmarks.workloads.images import Images, ImageSource, check_images, measured


def drumline(images: Images, scale: Scale) -> Build:
    """As a user writes it."""
    import jax

    import drumline as dl

    jax.devices("cpu")

    def build() -> Iterable[Batch]:
        return (
            dl.data.Dataset.from_tensor_slices(images)
            .shuffle(scale.elements)
            .map(lambda image, label: (image[:, ::-1] / 255.0, label))
            .batch(scale.batch_size)
            .prefetch(dl.data.AUTOTUNE)
        )

    return build


def tf_data(images: Images, scale: Scale) -> Build:
    """As TensorFlow's guides write it."""
    import tensorflow as tf

    tf.constant(0)

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.from_tensor_slices(images)
            .shuffle(scale.elements)
            .map(
                lambda image, label: (tf.image.flip_left_right(image) / 255.0, label),
                num_parallel_calls=tf.data.AUTOTUNE,
            )
            .batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_data_batch_first(images: Images, scale: Scale) -> Build:
    """As TensorFlow's performance guide advises: the batch before the map."""
    import tensorflow as tf

    tf.constant(0)

    def build() -> Iterable[Batch]:
        return (
            tf.data.Dataset.from_tensor_slices(images)
            .shuffle(scale.elements)
            .batch(scale.batch_size)
            .map(
                lambda image, label: (tf.image.flip_left_right(image) / 255.0, label),
                num_parallel_calls=tf.data.AUTOTUNE,
            )
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_data_expert(images: Images, scale: Scale) -> Build:
    """Shuffles and batches indices; gathers, flips and scales whole batches on every core."""
    import tensorflow as tf

    def gather(pixels: Any, labels: Any, index: Any) -> tuple[Any, Any]:
        flipped = tf.reverse(tf.gather(pixels, index), axis=[2])
        return flipped * (1.0 / 255.0), tf.gather(labels, index)

    return index_batches.tf_expert(images, scale, gather)


def grain_dataset(images: Images, scale: Scale) -> Build:
    """As Grain's guide writes it, with no reading threads, as it advises for data in memory."""
    import grain

    def flip_and_scale(element: Batch) -> Batch:
        image, label = element
        return image[:, ::-1] / np.float32(255.0), label

    def build() -> Iterable[Batch]:
        seeds = iter(range(1_000_000))
        return Epochs(
            lambda: iter(
                grain.MapDataset.source(ImageSource(images))
                .shuffle(seed=next(seeds))
                .map(flip_and_scale)
                .batch(scale.batch_size)
                .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
            )
        )

    return build


def torch_loader(images: Images, scale: Scale) -> Build:
    """As PyTorch's guide writes it: a dataset that transforms each item; no workers."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Transformed(Dataset):
        def __init__(self) -> None:
            self._pixels, self._labels = (torch.from_numpy(column) for column in images)

        def __len__(self) -> int:
            return len(self._labels)

        def __getitem__(self, index: int) -> Batch:
            return self._pixels[index].flip(1) / 255.0, self._labels[index]

    def build() -> Iterable[Batch]:
        return DataLoader(Transformed(), batch_size=scale.batch_size, shuffle=True)

    return build


def torch_expert(images: Images, scale: Scale) -> Build:
    """Samples tensors of indices; gathers, flips and scales whole batches."""
    import torch
    from torch.utils.data import Dataset

    class Transformed(Dataset):
        def __init__(self) -> None:
            self._pixels, self._labels = (torch.from_numpy(column) for column in images)

        def __getitem__(self, index: Any) -> Batch:
            return self._pixels[index].flip(2).mul_(1.0 / 255.0), self._labels[index]

    return index_batches.torch_expert(Transformed, scale)


def numpy_by_hand(images: Images, scale: Scale) -> Build:
    """For each batch a gather, a flipped view, and one multiplication into fresh memory."""
    pixels, labels = images
    reciprocal = np.float32(1.0 / 255.0)

    def take(index: Any) -> Batch:
        return pixels.take(index, axis=0)[:, :, ::-1] * reciprocal, labels.take(index)

    return index_batches.by_hand(scale, take)


WORKLOAD = Workload(
    name="map_batch",
    title="the same: shuffle(60000), map(flip left-right, / 255), batch(64)",
    unit="elements",
    baseline="tf.data",
    full=Scale(elements=60_000, batch_size=64, later_epochs=3),
    quick=Scale(elements=3_000, batch_size=64, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "from_tensor_slices, shuffle, map, batch, prefetch",
            ("drumline", "jax"),
            measured(drumline, ("drumline", "jax"), 255.0),
        ),
        Contender(
            "tf.data",
            "map(num_parallel_calls=AUTOTUNE) of each element, then batch, prefetch(AUTOTUNE)",
            ("tensorflow",),
            measured(tf_data, ("tensorflow-cpu", "tensorflow"), 255.0),
        ),
        Contender(
            "tf.data batch-first",
            "batch, then map(num_parallel_calls=AUTOTUNE) of whole batches, prefetch(AUTOTUNE)",
            ("tensorflow",),
            measured(tf_data_batch_first, ("tensorflow-cpu", "tensorflow"), 255.0),
        ),
        Contender(
            "tf.data expert",
            "shuffled indices batched, then gather, reverse and multiply on every core, "
            "no autotuning",
            ("tensorflow",),
            measured(tf_data_expert, ("tensorflow-cpu", "tensorflow"), 255.0),
        ),
        Contender(
            "Grain",
            "MapDataset of a source, shuffle, map, batch; num_threads=0",
            ("grain",),
            measured(grain_dataset, ("grain",), 255.0),
        ),
        Contender(
            "torch",
            "a Dataset that transforms each item, DataLoader(shuffle=True), no workers",
            ("torch",),
            measured(torch_loader, ("torch",), 255.0),
        ),
        Contender(
            "torch expert",
            "gather, flip and multiply in place for each batch of indices, no workers",
            ("torch",),
            measured(torch_expert, ("torch",), 255.0),
        ),
        Contender(
            "numpy",
            "take, a flipped view, one multiplication for each batch into fresh memory",
            (),
            measured(numpy_by_hand, (), 255.0),
        ),
    ),
    floors=(
        Floor("later", at_least=15.0, against="tf.data"),
        Floor("later", at_least=4.0, against="tf.data batch-first"),
        Floor("later", aim=0.5, against="numpy"),
    ),
    check=check_images(lambda images: images[:, :, ::-1] / np.float32(255.0), 255.0),
)
