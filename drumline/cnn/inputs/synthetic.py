"""Images and labels that no file is read for: made once, on the devices."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from drumline.cnn.inputs.options import ImageInputOptions

MEAN = 127.0
STDDEV = 60.0
CLASSES = 1001


@dataclasses.dataclass(frozen=True)
class Synthetic:
    """One batch, given in every step: an endless iterable of the same pair.

    Attributes:
        images: (batch_size, *image_size, 3) of the options' dtype, or with the channels before the
            size for ``"NCHW"``; on the devices.
        labels: int32 (batch_size,), on the devices.
    """

    images: jax.Array
    labels: jax.Array

    def __iter__(self) -> Iterator[tuple[jax.Array, jax.Array]]:
        while True:
            yield self.images, self.labels


def synthetic(
    options: ImageInputOptions, sharding: jax.sharding.Sharding | jax.Device | None = None
) -> Synthetic:
    """A batch of random images and labels on devices, the same in every step.

    Images are of a normal distribution with the mean 127 and the deviation 60, cut off at two of
    these, and labels uniform from 0 to ``num_classes - 2``: those of tf_cnn_benchmarks, which also
    does not scale them. Nothing runs on the host when a batch is taken.

    Args:
        options: size, dtype, layout and seed; the other options have no effect.
        sharding: how a batch lies on devices, such as a strategy's; a device; or JAX's default one.

    Raises:
        ValueError: there are fewer than two classes, of which labels are drawn.

    Example:
        >>> batch = synthetic(ImageInputOptions(batch_size=4, image_size=(8, 8)))
        >>> batch.images.shape, batch.labels.dtype
        ((4, 8, 8, 3), dtype('int32'))
    """
    classes = CLASSES if options.num_classes is None else options.num_classes
    if classes < 2:
        raise ValueError(f"synthetic: num_classes must be at least 2, got {classes}")
    if isinstance(sharding, jax.Device):
        sharding = jax.sharding.SingleDeviceSharding(sharding)
    height, width = options.image_size
    axes = (3, height, width) if options.data_format == "NCHW" else (height, width, 3)
    make = functools.partial(
        _made, shape=(options.batch_size, *axes), dtype=options.dtype, classes=classes
    )
    compiled = jax.jit(make) if sharding is None else jax.jit(make, out_shardings=sharding)
    return Synthetic(*compiled(jax.random.key(options.shard_seed)))


def _made(key: Any, shape: tuple[int, ...], dtype: Any, classes: int) -> tuple[Any, Any]:
    of_images, of_labels = jax.random.split(key)
    images = jax.random.truncated_normal(of_images, -2.0, 2.0, shape, jnp.float32)
    labels = jax.random.randint(of_labels, shape[:1], 0, classes - 1, jnp.int32)
    return (images * STDDEV + MEAN).astype(dtype), labels
