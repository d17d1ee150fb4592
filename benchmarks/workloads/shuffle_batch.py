"""Images and labels in memory: slices, shuffled over their whole length, batched by 64."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
            .batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def tf_data_expert(images: Images, scale: Scale) -> Build:
    """Shuffles and batches indices, then gathers whole batches on every core."""
    import tensorflow as tf

    def gather(pixels: Any, labels: Any, index: Any) -> tuple[Any, Any]:
        return tf.gather(pixels, index), tf.gather(labels, index)

    return index_batches.tf_expert(images, scale, gather)


def grain_dataset(images: Images, scale: Scale) -> Build:
    """As Grain's guide writes it, with no reading threads, as it advises for data in memory."""
    import grain

    def build() -> Iterable[Batch]:
        seeds = iter(range(1_000_000))
        return Epochs(
            lambda: iter(
                grain.MapDataset.source(ImageSource(images))
                .shuffle(seed=next(seeds))
                .batch(scale.batch_size)
                .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
            )
        )

    return build


def grain_expert(images: Images, scale: Scale) -> Build:
    """Shuffles and batches indices and gathers whole batches."""
    import grain

    pixels, labels = images

    def build() -> Iterable[Batch]:
        seeds = iter(range(1_000_000))
        return Epochs(
            lambda: iter(
                grain.MapDataset.range(scale.elements)
                .shuffle(seed=next(seeds))
                .batch(scale.batch_size)
                .map(lambda index: (pixels[index], labels[index]))
                .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
            )
        )

    return build


def torch_loader(images: Images, scale: Scale) -> Build:
    """As PyTorch's guide writes it; no workers, which only cost for data in memory."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    def build() -> Iterable[Batch]:
        columns = TensorDataset(*(torch.from_numpy(column) for column in images))
        return DataLoader(columns, batch_size=scale.batch_size, shuffle=True)

    return build


def torch_expert(images: Images, scale: Scale) -> Build:
    """Samples tensors of indices, so that the dataset is indexed once for each batch."""
    import torch
    from torch.utils.data import TensorDataset

    def columns() -> Any:
        return TensorDataset(*(torch.from_numpy(column) for column in images))

    return index_batches.torch_expert(columns, scale)


def numpy_gather(images: Images, scale: Scale) -> Build:
    """A bare gather for each batch into fresh memory, which the receiver may keep."""
    pixels, labels = images
    return index_batches.by_hand(scale, lambda i: (pixels.take(i, axis=0), labels.take(i)))


WORKLOAD = Workload(
    name="shuffle_batch",
    title="60,000 images 28x28x1: slices, shuffle(60000), batch(64)",
    unit="elements",
    baseline="tf.data",
    full=Scale(elements=60_000, batch_size=64, later_epochs=3),
    quick=Scale(elements=3_000, batch_size=64, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "from_tensor_slices, shuffle, batch, prefetch",
            ("drumline", "jax"),
            measured(drumline, ("drumline", "jax"), 1.0),
        ),
        Contender(
            "tf.data",
            "from_tensor_slices, shuffle, batch, prefetch(AUTOTUNE), iterated eagerly",
            ("tensorflow",),
            measured(tf_data, ("tensorflow-cpu", "tensorflow"), 1.0),
        ),
        Contender(
            "tf.data expert",
            "shuffled indices batched, then tf.gather of whole batches on every core, "
            "no autotuning",
            ("tensorflow",),
            measured(tf_data_expert, ("tensorflow-cpu", "tensorflow"), 1.0),
        ),
        Contender(
            "Grain",
            "MapDataset of a source, shuffle, batch; num_threads=0",
            ("grain",),
            measured(grain_dataset, ("grain",), 1.0),
        ),
        Contender(
            "Grain expert",
            "shuffled indices batched, then a numpy gather of whole batches",
            ("grain",),
            measured(grain_expert, ("grain",), 1.0),
        ),
        Contender(
            "torch",
            "TensorDataset, DataLoader(shuffle=True), no workers",
            ("torch",),
            measured(torch_loader, ("torch",), 1.0),
        ),
        Contender(
            "torch expert",
            "TensorDataset indexed with a tensor of indices for each batch, no workers",
            ("torch",),
            measured(torch_expert, ("torch",), 1.0),
        ),
        Contender(
            "numpy",
            "a permutation, then one take for each batch into fresh memory",
            (),
            measured(numpy_gather, (), 1.0),
        ),
    ),
    floors=(
        Floor("later", at_least=4.0, against="tf.data"),
        Floor("first", at_least=15.0, against="tf.data"),
        Floor("later", aim=0.8, against="numpy"),
    ),
    check=check_images(lambda images: images, 1.0),
)
