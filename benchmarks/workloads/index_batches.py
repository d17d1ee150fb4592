"""Batches of shuffled indices: how an expert shuffles images that are in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness.pipelines import Batch, Build, Epochs
from benchmarks.harness.workload import Scale
from benchmarks.workloads.images import Images


def tf_expert(
    images: Images, scale: Scale, take: Callable[[Any, Any, Any], tuple[Any, Any]]
) -> Build:
    """Shuffles and batches indices in tf.data, and makes whole batches on every core.

    Args:
        images: the images and labels, kept in variables.
        scale: how many, and how many at a time.
        take: makes a batch of pixels, labels and an index (n,).
    """
    import tensorflow as tf

    tf.constant(0)
    options = tf.data.Options()
    options.autotune.enabled = False

    def build() -> Iterable[Batch]:
        pixels, labels = (tf.Variable(column, trainable=False) for column in images)
        return (
            tf.data.Dataset.range(scale.elements)
            .shuffle(scale.elements)
            .batch(scale.batch_size)
            .map(lambda index: take(pixels, labels, index), num_parallel_calls=os.cpu_count())
            .prefetch(tf.data.AUTOTUNE)
            .with_options(options)
        )

    return build


def torch_expert(columns: Callable[[], Any], scale: Scale) -> Build:
    """Samples tensors of indices, with each of which the dataset is indexed once."""
    import torch
    from torch.utils.data import DataLoader, Sampler

    class Batches(Sampler):
        def __iter__(self) -> Iterator[Batch]:
            return iter(torch.randperm(scale.elements).split(scale.batch_size))

    def build() -> Iterable[Batch]:
        return DataLoader(columns(), sampler=Batches(), batch_size=None)

    return build


def by_hand(scale: Scale, take: Callable[[Any], Batch]) -> Build:
    """A numpy permutation each epoch; ``take`` makes a batch of an index (n,)."""
    random = np.random.default_rng()

    def epoch() -> Iterator[Batch]:
        order = random.permutation(scale.elements)
        for start in range(0, scale.elements, scale.batch_size):
            yield take(order[start : start + scale.batch_size])

    return lambda: Epochs(epoch)
