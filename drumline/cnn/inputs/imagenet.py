"""ImageNet in TFRecord files, as the Inception scripts write them, to batches for a model.

A file is ``train-00000-of-01024`` or ``validation-00000-of-00128``; a record is an ``Example`` with
``image/encoded`` (a JPEG file), ``image/class/label`` (1 to 1,000; 0 is the background) and the
objects' boxes, ``image/object/bbox/ymin`` and so on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline import io, random, strings
from drumline.cnn.inputs.colors import distort_color
from drumline.cnn.inputs.decoding import CheckedLabel, Of, decode_at_size, method_number
from drumline.cnn.inputs.options import ImageInputOptions
from drumline.data import AUTOTUNE, Dataset, Options, TFRecordDataset
from drumline.data.experimental import AutoShardPolicy
from drumline.data.functions.native.apply import apply
from drumline.image.jpeg import ExtractJpegShape
from drumline.image.random_windows import FirstCovering, candidate_windows

CLASSES = 1001

SPLITS = ("train", "validation")

CYCLE_LENGTH = 10
"""Files that are read by turns, as in tf_cnn_benchmarks."""

CHANNEL_MEANS = (123.68, 116.78, 103.94)
"""Of red, green and blue over ImageNet, as MLPerf's reference subtracts them."""

EVALUATION_SCALE = 1.145
"""By how much an image is larger than the part of its middle that is evaluated."""

_CORNERS = tuple(f"image/object/bbox/{name}" for name in ("ymin", "xmin", "ymax", "xmax"))


def imagenet(data_dir: str | os.PathLike[str], split: str, options: ImageInputOptions) -> Dataset:
    """Batches of a split, for ever unless ``options.num_epochs`` says how often.

    Training images are random windows around objects, half of them mirrored, resized to the model's
    size whatever their form. Evaluation takes the middle of the image, resized in its form to 1.145
    times the model's size. No Python runs for an image. Follows ``preprocessing.py`` of
    https://github.com/tensorflow/benchmarks.

    Args:
        data_dir: where ``train-*-of-*`` and ``validation-*-of-*`` are.
        split: ``"train"``, in random order, or ``"validation"``, in the files' order.
        options: what to make of them.

    Returns:
        A dataset of pairs: images (batch_size, *image_size, 3) of ``options.dtype``, or with the
        channels before the size for ``"NCHW"``, from -1 to 1; labels int32 (batch_size,).

    Raises:
        FileNotFoundError: no file matches; the message has the pattern.
        ValueError: there is no such split; or while iterating, for a record that has no image,
            label or boxes, or a label beyond the classes; the message has its file and number.
        DataLossError: while iterating, for a damaged record. It names the file and the byte.

    Example:
        >>> options = ImageInputOptions(batch_size=32, image_size=(224, 224))
        >>> train = imagenet("/data/imagenet", "train", options)  # doctest: +SKIP
    """
    training = is_training(split)
    records = _records(data_dir, split, training, options)
    if options.datasets_repeat_cached_sample:
        records = records.take(1).cache().repeat()  # All alike: neither cached again nor shuffled.
    else:
        if options.datasets_use_caching:
            records = records.cache()
        if training:
            records = records.shuffle(options.shuffle_buffer_size, options.shard_seed)
    return batched(records, _preparation(training, options), options)


def is_training(split: str) -> bool:
    """Whether a split is the training one.

    Raises:
        ValueError: there is no such split.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r:.60}")
    return split == "train"


def _records(
    data_dir: str | os.PathLike[str], split: str, training: bool, options: ImageInputOptions
) -> Dataset:
    """Triples of this shard: a record's file, its number in that and its contents."""
    pattern = os.path.join(os.fspath(data_dir), f"{split}-*-of-*")
    try:
        files = Dataset.list_files(pattern, shuffle=False)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"no file matches {pattern}; ImageNet's TFRecord files, such as "
            f"{split}-00000-of-01024, are expected there"
        ) from None
    count, index = options.shard_count, options.shard_index
    by_file = files.cardinality() >= count
    if by_file and count > 1:
        files = files.shard(count, index)
    if training:
        # Where records are shared, every shard has to read the files in one order.
        seed = options.shard_seed if by_file else options.seed
        files = files.shuffle(files.cardinality(), seed)

    def opened(path: Any) -> Dataset:
        return TFRecordDataset(path).enumerate().map(lambda number, record: (path, number, record))

    records = files.interleave(
        opened,
        cycle_length=options.datasets_parallel_interleave_cycle_length or CYCLE_LENGTH,
        num_parallel_calls=options.datasets_parallel_interleave_prefetch or None,
    )
    return records if by_file else records.shard(count, index)


def batched(elements: Dataset, prepare: Callable[..., Any], options: ImageInputOptions) -> Dataset:
    """Batches of what ``prepare`` makes of a number and an element, under the options' settings."""
    batches = (
        elements.repeat(options.num_epochs)
        .enumerate()
        .map(prepare, num_parallel_calls=AUTOTUNE)
        .batch(options.batch_size, drop_remainder=options.drop_remainder)
        .prefetch(options.buffered_batches)
    )
    settings = Options()
    settings.threading.private_threadpool_size = options.datasets_num_private_threads
    if options.datasets_sloppy_parallel_interleave:
        settings.deterministic = False
    if not options.datasets_use_prefetch:
        settings.experimental_optimization.inject_prefetch = False
    if options.shard_count > 1:  # What a strategy would divide is divided.
        settings.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
    return batches.with_options(settings)


def _preparation(training: bool, options: ImageInputOptions) -> Callable[[Any, Any], Any]:
    """From an element's number and a record of `_records` to an image and a label."""
    features: dict[str, Any] = {
        "image/encoded": io.FixedLenFeature([], bytes),
        "image/class/label": io.FixedLenFeature([], np.int64),
    }
    with_boxes = training and not options.match_mlperf
    if with_boxes:
        features |= dict.fromkeys(_CORNERS, io.VarLenFeature(np.float32))
    label_of = CheckedLabel(options.num_classes or CLASSES)

    def prepare(number: Any, element: Any) -> Any:
        path, record_number, record = element
        origin = strings.join([path, ": record ", strings.as_string(record_number)])
        parsed = io.parse_single_example(record, features, example_names=origin)
        label = apply(Of(label_of), parsed["image/class/label"], origin)
        contents = parsed["image/encoded"]
        position = number % options.batch_size
        shape = apply(Of(ExtractJpegShape(np.dtype(np.int32))), contents, origin)
        if training:
            corners = [parsed[name] for name in _CORNERS] if with_boxes else ()
            image = _training_image(contents, shape, corners, position, origin, options)
        else:
            image = _evaluation_image(contents, shape, position, origin, options)
        return finished(image, options), label

    return prepare


def _training_image(
    contents: Any, shape: Any, corners: Any, position: Any, origin: Any, options: ImageInputOptions
) -> Any:
    windows, fits = candidate_windows(shape, seed=options.shard_seed)
    window = apply(Of(FirstCovering(0.1)), windows, fits, shape[:2], *corners, origin)
    flip = random.bernoulli(0.5, seed=options.shard_seed)
    image = decode_at_size(
        contents,
        options.image_size,
        method_number(options.resize_method, position),
        origin,
        window=window,
        flip=flip,
        whole=not options.fuse_decode_and_crop,
    )
    if not options.distortions:
        return image
    yiq = options.distort_color_in_yiq
    return distort_color(image / 255, position, yiq, options.shard_seed) * 255


def _evaluation_image(
    contents: Any, shape: Any, position: Any, origin: Any, options: ImageInputOptions
) -> Any:
    height, width = options.image_size
    tall, wide = shape[0].astype(jnp.float32), shape[1].astype(jnp.float32)
    ratio = jnp.maximum(height / tall, width / wide)
    rows = (tall * ratio * EVALUATION_SCALE).astype(jnp.int32)
    columns = (wide * ratio * EVALUATION_SCALE).astype(jnp.int32)
    place = jnp.stack([rows, columns, (rows - height) // 2, (columns - width) // 2])
    method = method_number(options.resize_method, position)
    return decode_at_size(contents, options.image_size, method, origin, place=place)


def finished(image: Any, options: ImageInputOptions) -> Any:
    """Pixels of [0, 255] as the model takes them: scaled, in its type and its order of axes."""
    if options.match_mlperf:
        image = image - np.array(CHANNEL_MEANS, np.float32)
    else:
        image = image * np.float32(1 / 127.5) - np.float32(1)
    if options.data_format == "NCHW":
        image = image.transpose(2, 0, 1)
    return image if image.dtype == options.dtype else image.astype(options.dtype)
