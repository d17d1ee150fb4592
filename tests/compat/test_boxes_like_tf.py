"""Boxes in images, and the quality and colors of images, are TensorFlow's."""

import numpy as np
import pytest

from drumline.compat import tf as ours
from tests.compat.comparing import compare, named

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

RANDOM = np.random.default_rng(5)
IMAGES = RANDOM.uniform(size=(2, 24, 30, 3)).astype(np.float32)
OTHERS = np.clip(IMAGES + RANDOM.normal(size=IMAGES.shape) * 0.1, 0, 1).astype(np.float32)
CORNERS = RANDOM.uniform(size=(20, 4)).astype(np.float32)
SCORES = RANDOM.uniform(size=20).astype(np.float32)


@pytest.mark.parametrize("name", ["rgb_to_yiq", "yiq_to_rgb", "rgb_to_yuv", "yuv_to_rgb"])
def test_colors(name):
    for images in (IMAGES, IMAGES[0], IMAGES[:, :, 0]):
        compare(*(named(tf.image, name)(images) for tf in (ours, theirs)), 1e-5)


def test_differences_of_neighbors():
    for mine, other in zip(
        *(tf.image.image_gradients(tf.constant(IMAGES)) for tf in (ours, theirs)), strict=True
    ):
        compare(mine, other)
    for tf in (ours, theirs):
        with pytest.raises(ValueError, match="4D"):
            tf.image.image_gradients(tf.constant(IMAGES[0]))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("rates", [[1, 1, 1, 1], [1, 2, 3, 1]])
def test_patches(padding, rates):
    sizes, steps = [1, 3, 2, 1], [1, 4, 5, 1]

    def run(tf, images):
        return tf.image.extract_patches(images, sizes, steps, rates, padding)

    compare(run(ours, IMAGES), run(theirs, IMAGES))
    compare(ours.function(lambda x: run(ours, x))(IMAGES), run(theirs, IMAGES))


@pytest.mark.parametrize("kind", ["float32", "uint8"])
def test_quality(kind):
    scale = 255 if kind == "uint8" else 1
    a, b = ((each * scale).astype(kind) for each in (IMAGES, OTHERS))
    for name, options in [
        ("psnr", {}),
        ("ssim", {}),
        ("ssim", {"filter_size": 5, "filter_sigma": 1.0, "k1": 0.02, "return_index_map": True}),
        ("ssim_multiscale", {"filter_size": 3, "power_factors": (0.3, 0.3, 0.4)}),
    ]:
        for x, y in ((a, b), (a[0, :23, :29], b[0, :23, :29])):
            made = [named(tf.image, name)(x, y, scale, **options) for tf in (ours, theirs)]
            compare(*made, 1e-4)


def test_quality_has_gradients():
    def run(tf):
        x = tf.constant(IMAGES)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.image.ssim(x, OTHERS, 1.0))
        return tape.gradient(loss, x)

    compare(run(ours), run(theirs), 1e-4)
    for tf in (ours, theirs):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            tf.image.ssim(IMAGES, OTHERS[:, :20], 1.0)
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            tf.image.ssim(IMAGES[:, :8], OTHERS[:, :8], 1.0)


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("least", [float("-inf"), 0.4])
def test_suppression(threshold, least):
    def run(tf):
        shared = np.abs(np.corrcoef(CORNERS)).astype(np.float32)
        hard = tf.image.non_max_suppression(CORNERS, SCORES, 8, threshold, least)
        soft = tf.image.non_max_suppression_with_scores(CORNERS, SCORES, 8, threshold, least, 0.3)
        return [
            hard,
            tf.image.non_max_suppression_overlaps(shared, SCORES, 8, threshold, least),
            *tf.image.non_max_suppression_with_scores(CORNERS, SCORES, 8, threshold, least),
            *soft,
        ]

    for mine, other in zip(run(ours), run(theirs), strict=True):
        compare(mine, other, 1e-5)


def test_suppression_in_batches():
    boxes, scores = CORNERS.reshape(2, 10, 4), SCORES.reshape(2, 10)

    def run(tf, boxes, scores):
        return tf.image.non_max_suppression_padded(
            tf.constant(boxes) if isinstance(boxes, np.ndarray) else boxes,
            tf.constant(scores) if isinstance(scores, np.ndarray) else scores,
            6,
            0.3,
            0.1,
            pad_to_max_output_size=True,
        )

    expected = run(theirs, boxes, scores)
    compiled = ours.function(lambda b, s: run(ours, b, s))
    for mine in (run(ours, boxes, scores), compiled(boxes, scores)):
        for a, b in zip(mine, expected, strict=True):
            compare(a, b)
    kept = [
        tf.image.non_max_suppression_padded(*map(tf.constant, (boxes[0], scores[0])), 6, 0.3)
        for tf in (ours, theirs)
    ]
    for a, b in zip(*kept, strict=True):
        compare(a, b)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("per_class", [False, True])
def test_suppression_of_classes(shared, per_class):
    boxes = RANDOM.uniform(-0.1, 1.1, size=(2, 9, 1 if shared else 3, 4)).astype(np.float32)
    scores = RANDOM.uniform(size=(2, 9, 3)).astype(np.float32)

    def run(tf, boxes, scores):
        return tf.image.combined_non_max_suppression(
            boxes, scores, 2, 10, 0.3, 0.2, pad_per_class=per_class, clip_boxes=shared
        )

    expected = run(theirs, boxes, scores)
    compiled = ours.function(lambda b, s: run(ours, b, s))
    for mine in (run(ours, boxes, scores), compiled(boxes, scores)):
        assert mine._fields == expected._fields
        for a, b in zip(mine, expected, strict=True):
            compare(a, b)


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(5, 7), (1, 3)])
def test_parts_of_images(method, size):
    boxes = np.array([[0, 0, 1, 1], [0.9, 0.2, 0.1, 0.6], [-0.5, 0.5, 0.5, 1.5]], np.float32)

    def run(tf):
        images, corners = tf.constant(IMAGES), tf.constant(boxes)
        with tf.GradientTape() as tape:
            tape.watch([images, corners])
            made = tf.image.crop_and_resize(images, corners, [1, 0, 1], size, method, 0.25)
            loss = tf.reduce_sum(made * made)
        return [made, *(tape.gradient(loss, [images, corners]) if method == "bilinear" else [])]

    for a, b in zip(run(ours), run(theirs), strict=True):
        compare(a, b, 2e-3)
    for tf in (ours, theirs):
        with pytest.raises(tf.errors.OutOfRangeError):
            tf.image.crop_and_resize(IMAGES, boxes, [0, 5, 0], size)


def test_drawn_boxes():
    corners = np.array(
        [
            [[0.1, 0.2, 0.5, 0.8], [0.0, 0.0, 1.0, 1.0]],
            [[-0.5, 0.5, 0.4, 1.2], [0.9, 0.9, 0.2, 0.1]],
        ],
        np.float32,
    )
    for colors in (np.array([[1, 0, 0], [0, 0.5, 1]], np.float32), None):
        compare(*(tf.image.draw_bounding_boxes(IMAGES, corners, colors) for tf in (ours, theirs)))


@pytest.mark.parametrize(
    "call",
    [
        lambda tf: tf.image.non_max_suppression(CORNERS[:, :3], SCORES, 3),
        lambda tf: tf.image.non_max_suppression(CORNERS, SCORES[:5], 3),
        lambda tf: tf.image.non_max_suppression(CORNERS, SCORES, 3, 1.5),
        lambda tf: tf.image.non_max_suppression_overlaps(CORNERS, SCORES, 3),
        lambda tf: tf.image.psnr(IMAGES, OTHERS[:, :3], 1.0),
    ],
)
def test_errors(call):
    for tf in (ours, theirs):
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
            call(tf)
