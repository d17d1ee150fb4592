"""Inputs of the CNN program beside TensorFlow's functions, which tf_cnn_benchmarks calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.cnn.inputs import ImageInputOptions, imagenet
from drumline.cnn.inputs.colors import with_colors
from drumline.cnn.inputs.decoding import decode_at_size
from drumline.cnn.inputs.options import RESIZE_METHODS
from drumline.data.functions.native.apply import apply
from drumline.image.random_windows import FirstCovering, candidate_windows
from tests.cnn.inputs.record_files import jpegs, record, write
from tests.image.samples import encoded, picture

tf = pytest.importorskip("tensorflow", reason="compares with TensorFlow, which the bench extra has")

METHODS = dict(zip(RESIZE_METHODS, (1, 0, 2, 3), strict=True))
"""The numbers of ``tf.compat.v1.image.ResizeMethod``."""

SIZES = [(224, 224), (64, 80), (17, 9)]
RNG = np.random.default_rng(11)


def pixels_of(jpeg: bytes) -> Any:
    return tf.io.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE")


def resized(pixels: Any, size: tuple[int, int], method: str) -> np.ndarray:
    made = tf.compat.v1.image.resize_images(pixels, size, METHODS[method], align_corners=False)
    return np.asarray(made, np.float32)


def evaluated(jpeg: bytes, size: tuple[int, int], method: str) -> np.ndarray:
    """The middle of an image whose sides are 1.145 times the model's at least."""
    pixels = pixels_of(jpeg)
    given = np.array(pixels.shape[:2], np.float32)
    ratio = np.float32(max(np.float32(size) / given))
    whole = (given * ratio * np.float32(1.145)).astype(int)
    top, left = (whole - size) // 2
    part = resized(pixels, tuple(whole), method)[top : top + size[0], left : left + size[1]]
    return part / 127.5 - 1


@pytest.mark.parametrize("method", RESIZE_METHODS)
@pytest.mark.parametrize("size", SIZES)
def test_evaluation_images_are_tensorflows(
    tmp_path: Path, method: str, size: tuple[int, int]
) -> None:
    files = [encoded(picture(h, w, h), quality=95) for h, w in ((50, 70), (300, 200), (64, 64))]
    files += [encoded(picture(90, 40), quality=90, mode="L")]
    write(tmp_path, "validation", [[record(jpeg, 1) for jpeg in files]])
    options = ImageInputOptions(len(files), size, resize_method=method)
    images, _ = next(iter(imagenet(tmp_path, "validation", options)))
    wanted = np.stack([evaluated(jpeg, size, method) for jpeg in files])
    # Where a nearest pixel is chosen at a tie of float32 it may be the next one.
    np.testing.assert_allclose(images, wanted, atol=1e-5)


@pytest.mark.parametrize("method", RESIZE_METHODS)
@pytest.mark.parametrize("whole", [False, True])
def test_windows_are_cropped_mirrored_and_resized_as_by_tensorflow(
    method: str, whole: bool
) -> None:
    number = np.int32(RESIZE_METHODS.index(method))
    for jpeg in jpegs(6):
        pixels = pixels_of(jpeg)
        height, width, _ = pixels.shape
        top, left = (int(RNG.integers(0, side // 2)) for side in (height, width))
        tall, wide = int(RNG.integers(1, height - top + 1)), int(RNG.integers(1, width - left + 1))
        window, size = np.array([top, left, tall, wide], np.int32), SIZES[tall % 3]
        for flip in (False, True):
            made = decode_at_size(jpeg, size, number, b"", window, flip=np.bool_(flip), whole=whole)
            part = tf.slice(pixels, [top, left, 0], [tall, wide, 3])
            part = tf.image.flip_left_right(part) if flip else part
            np.testing.assert_allclose(made, resized(part, size, method), atol=2e-3)


SMALL = [[0.2, 0.6, 0.5, 0.9], [0.0, 0.0, 0.1, 0.1]]


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """How far two distribution functions are apart, as Kolmogorov and Smirnov measure it."""
    places = np.sort(np.concatenate([one, other]))
    parts = [np.searchsorted(np.sort(v), places, "right") / len(v) for v in (one, other)]
    return float(np.abs(parts[0] - parts[1]).max())


@pytest.mark.parametrize("boxes", [[], SMALL])
@pytest.mark.parametrize("covered", [0.1, 0.5])
def test_random_windows_are_distributed_as_tensorflows(
    boxes: list[list[float]], covered: float
) -> None:
    count, size = 4000, (120, 160)
    corners = np.array(boxes, np.float32).reshape(-1, 4).T

    def ours(*given: Any) -> Any:
        windows, fits = candidate_windows(size, seed=5)
        return apply(FirstCovering(covered), windows, fits, np.array(size, np.int32), *given)

    columns = [
        dl.RaggedArray.from_row_lengths(np.tile(column, count), [len(boxes)] * count)
        for column in corners
    ]
    rows = np.array(list(dl.data.Dataset.from_tensor_slices(tuple(columns)).map(ours)))
    tensor = tf.constant(boxes, tf.float32, shape=(1, len(boxes), 4))

    @tf.function
    def theirs(number: Any) -> Any:
        begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
            (*size, 3),
            tensor,
            seed=(number, 7),
            min_object_covered=covered,
            aspect_ratio_range=(0.75, 1.33),
            area_range=(0.05, 1.0),
            max_attempts=100,
            use_image_if_no_bounding_boxes=True,
        )
        return tf.concat([begin[:2], extent[:2]], 0)

    wanted = tf.data.Dataset.range(count).map(lambda k: theirs(tf.cast(k, tf.int32)))
    others = np.array(list(wanted.as_numpy_iterator()))
    # Twice in a thousand such samples of one distribution are this far apart.
    limit = 1.86 * np.sqrt(2 / count)
    for name, one, other in zip(("top", "left", "height", "width"), rows.T, others.T, strict=True):
        assert distance(one, other) < limit, name
    ratios = [sample[:, 3] / sample[:, 2] for sample in (rows, others)]
    areas = [sample[:, 3] * sample[:, 2] for sample in (rows, others)]
    assert distance(*ratios) < limit and distance(*areas) < limit


@pytest.mark.parametrize(
    "numbers", [(0.1, 1.4, 0.15, 1.3), (-0.12, 0.6, -0.2, 0.7), (0.0, 1.0, 0.0, 1.0)]
)
@pytest.mark.parametrize("last", [True, False])
def test_colors_are_tensorflows(numbers: tuple[float, ...], last: bool) -> None:
    brightness, saturation, hue, contrast = numbers
    image = (picture(37, 53, 4) / 255).astype(np.float32)
    image[0, :4] = [[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [1, 0, 0]]
    made = with_colors(image, last, False, *numbers)
    wanted = tf.image.adjust_brightness(image, brightness)
    steps = [
        lambda image: tf.image.adjust_saturation(image, saturation),
        lambda image: tf.image.adjust_hue(image, hue),
    ]
    of_contrast = [lambda image: tf.image.adjust_contrast(image, contrast)]
    for step in steps + of_contrast if last else of_contrast + steps:
        wanted = step(wanted)
    np.testing.assert_allclose(made, tf.clip_by_value(wanted, 0.0, 1.0), atol=1e-5)
