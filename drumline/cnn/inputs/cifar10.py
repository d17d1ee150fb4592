"""CIFAR-10 from its Python batches, to batches for a model."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline import image as images
from drumline.cnn.inputs.cifar_batches import read_batch
from drumline.cnn.inputs.imagenet import batched, finished, is_training
from drumline.cnn.inputs.options import ImageInputOptions
from drumline.data import Dataset

CLASSES = 11
"""As many as tf_cnn_benchmarks gives its models; labels are 0 to 9."""

FOLDER = "cifar-10-batches-py"

_FILES = {
    "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
    "validation": ("test_batch",),
}

MARGIN = 4
"""Pixels of zeros on each side of an image, before a random window is taken."""


def cifar10(data_dir: str | os.PathLike[str], split: str, options: ImageInputOptions) -> Dataset:
    """Batches of a split, for ever unless ``options.num_epochs`` says how often.

    With ``options.distortions`` training images get 4 zeros on each side, a random window of the
    model's size, and half of them are mirrored. Else, and in evaluation, they are cut or filled up
    with zeros to that size. All images are held in memory. Follows ``preprocessing.py`` of
    https://github.com/tensorflow/benchmarks.

    Args:
        data_dir: where ``data_batch_1`` to ``data_batch_5`` and ``test_batch`` are, or their folder
            ``cifar-10-batches-py``.
        split: ``"train"``, in random order, or ``"validation"``, in the file's order.
        options: what to make of them. Those of ImageNet and its files have no effect:
            ``match_mlperf``, ``resize_method``, ``distort_color_in_yiq``,
            ``fuse_decode_and_crop``, ``datasets_use_caching`` and
            ``datasets_parallel_interleave_*``, as all images are in memory.

    Returns:
        As of `imagenet`.

    Raises:
        FileNotFoundError: a file of the split is not there.
        CifarBatchError: a file is no batch of CIFAR-10's.
        ValueError: there is no such split, or labels of 10 classes are too many.

    Example:
        >>> options = ImageInputOptions(batch_size=128, image_size=(32, 32), distortions=True)
        >>> train = cifar10("/data/cifar10", "train", options)  # doctest: +SKIP
    """
    training = is_training(split)
    classes = options.num_classes or CLASSES
    if classes < 10:
        raise ValueError(f"cifar10: labels are 0 to 9, but num_classes is {classes}")
    pixels, labels = read_split(data_dir, split)
    elements = Dataset.from_tensor_slices((pixels, labels.astype(np.int32)))
    if options.shard_count > 1:
        elements = elements.shard(options.shard_count, options.shard_index)
    if options.datasets_repeat_cached_sample:
        elements = elements.take(1).cache().repeat()
    elif training:
        elements = elements.shuffle(len(labels), options.shard_seed)
    return batched(elements, _preparation(training, options), options)


def read_split(data_dir: str | os.PathLike[str], split: str) -> tuple[np.ndarray, np.ndarray]:
    """All images uint8 (n, 3, 32, 32) of a split and their labels int64 (n,).

    Raises:
        FileNotFoundError, CifarBatchError: as of `cifar10`.
    """
    names, folder = _FILES[split], Path(data_dir)
    if not (folder / names[0]).is_file() and (folder / FOLDER).is_dir():
        folder = folder / FOLDER
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{folder} has no {', '.join(missing)}: unpack cifar-10-python.tar.gz, of "
            "https://www.cs.toronto.edu/~kriz/cifar.html, there"
        )
    batches = [read_batch(folder / name) for name in names]
    pixels, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return pixels, labels


def _preparation(training: bool, options: ImageInputOptions) -> Callable[[Any, Any], Any]:
    """From an element's number, its pixels (3, 32, 32) and its label to an image and the label."""
    options = dataclasses.replace(options, match_mlperf=False)
    height, width = options.image_size
    seed = options.shard_seed

    def prepare(number: Any, element: Any) -> Any:
        pixels, label = element
        image = pixels.transpose(1, 2, 0)
        if training and options.distortions:
            margins = 2 * MARGIN
            image = images.resize_with_crop_or_pad(image, height + margins, width + margins)
            image = images.random_crop(image, (height, width, 3), seed=seed)
            image = images.random_flip_left_right(image, seed=seed)
        else:
            image = images.resize_with_crop_or_pad(image, height, width)
        return finished(image.astype(jnp.float32), options), label

    return prepare
