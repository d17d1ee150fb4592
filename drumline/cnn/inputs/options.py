"""What inputs are made of: the options that tf_cnn_benchmarks has for them, checked."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline.data.elements.errors import did_you_mean

RESIZE_METHODS = ("nearest", "bilinear", "bicubic", "area")
"""In the order in which ``round_robin`` takes them."""

_DTYPES = ("float32", "bfloat16", "float16")


@dataclasses.dataclass(frozen=True)
class ImageInputOptions:
    """How images are read and prepared; names and defaults are those of tf_cnn_benchmarks's flags.

    Attributes:
        batch_size: images in an element of the dataset, of all devices of this process.
        image_size: height and width, as the model takes them.
        dtype: ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        num_classes: labels must be less; ``None``: 1,001 of ImageNet, 11 of CIFAR-10.
        distortions: random colors for ImageNet, random crops and flips for CIFAR-10. ImageNet is
            trained on random windows, half of them mirrored, in either case.
        resize_method: ``"nearest"``, ``"bilinear"``, ``"bicubic"``, ``"area"``, or
            ``"round_robin"``: each in turn, by the position of an image in the batch.
        distort_color_in_yiq: whether colors are turned in YIQ, and not in HSV, in ``distortions``.
        fuse_decode_and_crop: whether no more of a file is decoded than the window; the pixels are
            the same.
        match_mlperf: whether the channels' means are subtracted in place of scaling to [-1, 1], and
            windows are drawn without the objects' boxes.
        seed: of the order of files and images, of windows and colors. Shards differ.
        shard_count: how many processes share the data: by file, where there are as many; else by
            record.
        shard_index: which one this is.
        num_epochs: ``None``: images come for ever.
        drop_remainder: whether a batch at the end that is not full is left out.
        shuffle_buffer_size: among how many records each one of training is drawn.
        datasets_use_prefetch: whether batches are made ahead of their consumer.
        datasets_prefetch_buffer_size: how many of them.
        multi_device_iterator_max_buffer_size: how many more, which tf_cnn_benchmarks has waiting
            before the devices; here there is one queue.
        datasets_num_private_threads: on how many threads images are prepared; 0 and ``None`` leave
            it to `drumline.data`.
        datasets_use_caching: whether records are held in memory once they were read.
        datasets_repeat_cached_sample: whether the first record comes for ever, to measure the rest
            of the pipeline without reading.
        datasets_parallel_interleave_cycle_length: from how many files records come by turns; 10 by
            default.
        datasets_parallel_interleave_prefetch: how many of these are opened and read ahead, each on
            a thread.
        datasets_sloppy_parallel_interleave: sets ``Options.deterministic`` to false: images are
            prepared so far ahead that a slow one seldom stops the others. They come in the same
            order: here it never depends on timing.

    Raises:
        TypeError: a value is of another kind.
        ValueError: a value is not one of these.
    """

    batch_size: int
    image_size: tuple[int, int] = (224, 224)
    dtype: Any = "float32"
    data_format: str = "NHWC"
    num_classes: int | None = None
    distortions: bool = False
    resize_method: str = "bilinear"
    distort_color_in_yiq: bool = True
    fuse_decode_and_crop: bool = True
    match_mlperf: bool = False
    seed: int = 301
    shard_count: int = 1
    shard_index: int = 0
    num_epochs: int | None = None
    drop_remainder: bool = True
    shuffle_buffer_size: int = 10_000
    datasets_use_prefetch: bool = True
    datasets_prefetch_buffer_size: int = 1
    multi_device_iterator_max_buffer_size: int = 1
    datasets_num_private_threads: int | None = None
    datasets_use_caching: bool = False
    datasets_repeat_cached_sample: bool = False
    datasets_parallel_interleave_cycle_length: int | None = None
    datasets_parallel_interleave_prefetch: int | None = None
    datasets_sloppy_parallel_interleave: bool = False

    def __post_init__(self) -> None:
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be a bool, got {getattr(self, name)!r:.60}")
        for name, least in _NUMBERS.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            object.__setattr__(self, name, _whole(name, value, least))
        if self.shard_index >= self.shard_count:
            raise ValueError(
                f"shard_index must be less than shard_count, {self.shard_count}, "
                f"got {self.shard_index}"
            )
        _chosen("resize_method", self.resize_method, (*RESIZE_METHODS, "round_robin"))
        _chosen("data_format", self.data_format, ("NHWC", "NCHW"))
        kind = self.dtype if isinstance(self.dtype, str) else np.dtype(self.dtype).name
        _chosen("dtype", kind, _DTYPES)
        object.__setattr__(self, "dtype", np.dtype(jnp.dtype(kind)))
        try:
            height, width = self.image_size
        except (TypeError, ValueError):
            raise ValueError(
                f"image_size must be height and width, got {self.image_size!r:.60}"
            ) from None
        size = (_whole("image_size", height, 1), _whole("image_size", width, 1))
        object.__setattr__(self, "image_size", size)

    @property
    def buffered_batches(self) -> int:
        """How many batches are made ahead of their consumer."""
        if not self.datasets_use_prefetch:
            return 0
        return self.datasets_prefetch_buffer_size + self.multi_device_iterator_max_buffer_size

    @property
    def shard_seed(self) -> int:
        """The seed of this shard: of 0, the seed itself."""
        if self.shard_index == 0:
            return self.seed
        words = np.random.SeedSequence([self.seed, self.shard_index]).generate_state(1)
        return int(words[0]) >> 1


_SWITCHES = (
    "distortions",
    "distort_color_in_yiq",
    "fuse_decode_and_crop",
    "match_mlperf",
    "drop_remainder",
    "datasets_use_prefetch",
    "datasets_use_caching",
    "datasets_repeat_cached_sample",
    "datasets_sloppy_parallel_interleave",
)

_NUMBERS = {
    "batch_size": 1,
    "num_classes": 1,
    "seed": 0,
    "shard_count": 1,
    "shard_index": 0,
    "num_epochs": 1,
    "shuffle_buffer_size": 1,
    "datasets_prefetch_buffer_size": 0,
    "multi_device_iterator_max_buffer_size": 0,
    "datasets_num_private_threads": 0,
    "datasets_parallel_interleave_cycle_length": 1,
    "datasets_parallel_interleave_prefetch": 0,
}
"""Options that are integers, and the least value of each."""

_OPTIONAL = (
    "num_classes",
    "num_epochs",
    "datasets_num_private_threads",
    "datasets_parallel_interleave_cycle_length",
    "datasets_parallel_interleave_prefetch",
)


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be an integer, got {value!r:.60}")
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def _chosen(name: str, value: Any, names: tuple[str, ...]) -> None:
    if value not in names:
        hint = did_you_mean(str(value), names)
        raise ValueError(f"{name} must be one of {', '.join(names)}, got {value!r:.60}. {hint}")
