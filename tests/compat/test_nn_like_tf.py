"""Convolutions, pooling, normalization and losses give TensorFlow's numbers and gradients."""

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(dtype)


def compare(mine, reference, tolerance=1e-5):
    if isinstance(reference, (tuple, list)):
        assert len(mine) == len(reference)
        for one, other in zip(mine, reference, strict=True):
            compare(one, other, tolerance)
        return
    if reference is None:
        assert mine is None
        return
    assert mine.dtype.name == reference.dtype.name
    assert tuple(mine.shape) == tuple(reference.shape)
    np.testing.assert_allclose(mine.numpy(), reference.numpy(), tolerance, tolerance)


def with_gradients(tf, call, *arrays):
    inputs = [tf.constant(each) for each in arrays]
    with tf.GradientTape() as tape:
        for each in inputs:
            tape.watch(each)
        made = call(tf, *inputs)
        total = tf.reduce_sum(made * made)
    return [made, *tape.gradient(total, inputs)]


IMAGES, LINES, VOLUMES = normal(2, 7, 8, 4), normal(2, 9, 4), normal(2, 5, 6, 4, 4)
CONVOLUTIONS = {
    "2d": (lambda tf, x, w: tf.nn.conv2d(x, w, 1, "SAME"), IMAGES, normal(3, 3, 4, 5)),
    "2d strides": (
        lambda tf, x, w: tf.nn.conv2d(x, w, [1, 2, 3, 1], "VALID"),
        IMAGES,
        normal(3, 2, 4, 5),
    ),
    "2d explicit": (
        lambda tf, x, w: tf.nn.conv2d(x, w, 2, [[0, 0], [1, 2], [0, 3], [0, 0]]),
        IMAGES,
        normal(3, 3, 4, 5),
    ),
    "2d dilated": (
        lambda tf, x, w: tf.nn.conv2d(x, w, 1, "SAME", dilations=[2, 3]),
        IMAGES,
        normal(3, 3, 4, 5),
    ),
    "2d of many rows": (
        lambda tf, x, w: tf.nn.conv2d(x, w, 1, "SAME"),
        normal(2, 3, 5, 6, 4),
        normal(3, 3, 4, 5),
    ),
    "1d": (lambda tf, x, w: tf.nn.conv1d(x, w, 2, "SAME"), LINES, normal(3, 4, 5)),
    "1d former": (
        lambda tf, x, w: tf.nn.conv1d(x, filters=w, stride=1, padding="VALID"),
        LINES,
        normal(3, 4, 5),
    ),
    "3d": (
        lambda tf, x, w: tf.nn.conv3d(x, w, [1, 2, 1, 1, 1], "SAME"),
        VOLUMES,
        normal(3, 2, 3, 4, 2),
    ),
    "any": (lambda tf, x, w: tf.nn.convolution(x, w, padding="SAME"), LINES, normal(3, 4, 5)),
    "any strides": (
        lambda tf, x, w: tf.nn.convolution(x, w, [2, 1]),
        IMAGES,
        normal(3, 3, 4, 5),
    ),
    "depthwise": (
        lambda tf, x, w: tf.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME"),
        IMAGES,
        normal(3, 3, 4, 2),
    ),
    "depthwise dilated": (
        lambda tf, x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID", dilations=[2, 2]),
        IMAGES,
        normal(3, 3, 4, 2),
    ),
    "atrous": (lambda tf, x, w: tf.nn.atrous_conv2d(x, w, 2, "SAME"), IMAGES, normal(3, 3, 4, 5)),
    "transposed": (
        lambda tf, x, w: tf.nn.conv2d_transpose(x, w, [2, 14, 16, 5], 2, "SAME"),
        IMAGES,
        normal(3, 3, 5, 4),
    ),
    "transposed odd": (
        lambda tf, x, w: tf.nn.conv2d_transpose(x, w, [2, 13, 15, 5], 2),
        IMAGES,
        normal(3, 3, 5, 4),
    ),
    "transposed valid": (
        lambda tf, x, w: tf.nn.conv2d_transpose(x, w, [2, 9, 10, 5], 1, "VALID"),
        IMAGES,
        normal(3, 3, 5, 4),
    ),
    "transposed 1d": (
        lambda tf, x, w: tf.nn.conv1d_transpose(x, w, [2, 18, 5], 2),
        LINES,
        normal(3, 5, 4),
    ),
    "transposed 3d": (
        lambda tf, x, w: tf.nn.conv3d_transpose(x, w, [2, 10, 12, 8, 3], 2),
        VOLUMES,
        normal(3, 3, 3, 3, 4),
    ),
    "transposed any": (
        lambda tf, x, w: tf.nn.conv_transpose(x, w, [2, 18, 5], [2]),
        LINES,
        normal(3, 5, 4),
    ),
    "atrous transposed": (
        lambda tf, x, w: tf.nn.atrous_conv2d_transpose(x, w, [2, 11, 12, 5], 2, "VALID"),
        IMAGES,
        normal(3, 3, 5, 4),
    ),
    "dilation": (
        lambda tf, x, w: tf.nn.dilation2d(x, w, [1, 2, 1, 1], "SAME", "NHWC", [1, 1, 2, 1]),
        IMAGES,
        normal(3, 2, 4),
    ),
    "erosion": (
        lambda tf, x, w: tf.nn.erosion2d(x, w, [1, 1, 1, 1], "VALID", "NHWC", [1, 1, 1, 1]),
        IMAGES,
        normal(3, 2, 4),
    ),
}


def with_holes(tf, w, rows, columns):
    """A kernel that does without dilation what `w` does with it."""
    height, width, *channels = w.shape
    holes = tf.pad(
        tf.reshape(w, [height, 1, width, 1, *channels]),
        [[0, 0], [0, rows - 1], [0, 0], [0, columns - 1], [0, 0], [0, 0]],
    )
    holes = tf.reshape(holes, [height * rows, width * columns, *channels])
    return holes[: height * rows - rows + 1, : width * columns - columns + 1]


# TensorFlow has no gradients of dilated convolutions on CPUs without AVX-512.
SAME_BY_OTHER_MEANS = {
    "2d dilated": lambda tf, x, w: tf.nn.conv2d(x, with_holes(tf, w, 2, 3), 1, "SAME")
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    call, *arrays = CONVOLUTIONS[name]
    same = SAME_BY_OTHER_MEANS.get(name, call)
    compare(with_gradients(ours, call, *arrays), with_gradients(theirs, same, *arrays), 1e-4)
    if same is not call:
        compare(*(call(tf, *map(tf.constant, arrays)) for tf in (ours, theirs)), 1e-4)


def test_separable_convolutions():
    arrays = IMAGES, normal(3, 3, 4, 2), normal(1, 1, 8, 5)
    compare(
        *(
            with_gradients(
                tf,
                lambda tf, x, d, p: tf.nn.separable_conv2d(x, d, p, [1, 2, 2, 1], "SAME"),
                *arrays,
            )
            for tf in (ours, theirs)
        ),
        1e-4,
    )


POOLING = {
    "max": lambda tf, x: tf.nn.max_pool(x, 2, 2, "VALID"),
    "max 2d": lambda tf, x: tf.nn.max_pool2d(x, [1, 3, 2, 1], [1, 2, 2, 1], "SAME"),
    "max explicit": lambda tf, x: tf.nn.max_pool2d(x, 3, 2, [[0, 0], [1, 0], [1, 1], [0, 0]]),
    "avg": lambda tf, x: tf.nn.avg_pool(x, 2, 2, "SAME"),
    "avg 2d": lambda tf, x: tf.nn.avg_pool2d(x, 3, 2, "SAME"),
    "pool": lambda tf, x: tf.nn.pool(x, [2, 3], "AVG", padding="SAME"),
    "pool max": lambda tf, x: tf.nn.pool(x, [2, 2], "MAX", [2, 1], "VALID"),
}


@pytest.mark.parametrize("name", POOLING)
def test_pooling(name):
    both = [with_gradients(tf, POOLING[name], IMAGES) for tf in (ours, theirs)]
    compare(*both)


def test_pooling_of_other_ranks_and_types():
    for call in (
        lambda tf: tf.nn.max_pool1d(LINES, 2, 2, "VALID"),
        lambda tf: tf.nn.avg_pool1d(LINES, 3, 1, "SAME"),
        lambda tf: tf.nn.max_pool3d(VOLUMES, 2, 2, "SAME"),
        lambda tf: tf.nn.avg_pool3d(VOLUMES, 2, 2, "VALID"),
        lambda tf: tf.nn.max_pool2d(tf.reshape(tf.range(32), [1, 4, 4, 2]), 2, 2, "SAME"),
        lambda tf: tf.nn.conv2d(
            IMAGES.astype(np.float64), normal(2, 2, 4, 1, dtype=np.float64), 1, "SAME"
        ),
    ):
        compare(call(ours), call(theirs))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("of_batch", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_places_of_the_largest(padding, of_batch, dtype):
    def call(tf):
        return tf.nn.max_pool_with_argmax(
            IMAGES, 3, 2, padding, output_dtype=dtype, include_batch_in_index=of_batch
        )

    compare(tuple(call(ours)), tuple(call(theirs)))


GRADIENTS = [
    lambda tf: tf.compat.v1.nn.conv2d_backprop_input(
        [2, 7, 8, 4], normal(3, 3, 4, 5), normal(2, 4, 4, 5), [1, 2, 2, 1], "SAME"
    ),
    lambda tf: tf.compat.v1.nn.conv2d_backprop_filter(
        IMAGES, [3, 3, 4, 5], normal(2, 4, 4, 5), [1, 2, 2, 1], "SAME"
    ),
    lambda tf: tf.nn.depthwise_conv2d_backprop_input(
        [2, 7, 8, 4], normal(3, 3, 4, 2), normal(2, 7, 8, 8), [1, 1, 1, 1], "SAME"
    ),
    lambda tf: tf.nn.depthwise_conv2d_backprop_filter(
        IMAGES, [3, 3, 4, 2], normal(2, 7, 8, 8), [1, 1, 1, 1], "SAME"
    ),
]


@pytest.mark.parametrize("call", GRADIENTS)
def test_gradients_by_name(call):
    compare(call(ours), call(theirs), 1e-4)


ROWS, LABELS = normal(6, 4), np.abs(normal(6, 4, seed=3))
OTHERS = {
    "batch norm": lambda tf: tf.nn.batch_normalization(
        ROWS, ROWS[0], LABELS[0], ROWS[1], ROWS[2], 1e-3
    ),
    "batch norm plain": lambda tf: tf.nn.batch_normalization(
        ROWS, ROWS[0], LABELS[0], None, None, 1e-3
    ),
    "global norm": lambda tf: tf.nn.batch_norm_with_global_normalization(
        IMAGES, ROWS[0], LABELS[0], ROWS[1], ROWS[2], 1e-3, True
    ),
    "fused": lambda tf: tuple(tf.compat.v1.nn.fused_batch_norm(IMAGES, ROWS[0], ROWS[1])),
    "fused inference": lambda tf: tuple(
        tf.compat.v1.nn.fused_batch_norm(
            IMAGES, ROWS[0], ROWS[1], ROWS[2], LABELS[0], is_training=False
        )
    )[0],
    "moments": lambda tf: tf.nn.moments(IMAGES, [0, 1, 2]),
    "weighted moments": lambda tf: tf.nn.weighted_moments(ROWS, [0], LABELS),
    "weighted moments kept": lambda tf: tf.nn.weighted_moments(
        ROWS, [0], LABELS[:, :1], keepdims=True
    ),
    "statistics": lambda tf: tuple(tf.nn.sufficient_statistics(ROWS, [0], shift=0.5))[:3],
    "normalized": lambda tf: tf.nn.normalize_moments(
        *tuple(tf.nn.sufficient_statistics(ROWS, [0]))[:3], None
    ),
    "lrn": lambda tf: tf.nn.local_response_normalization(normal(2, 3, 3, 8), 2, 1.5, 0.3, 0.75),
    "crelu": lambda tf: tf.nn.crelu(ROWS),
    "weighted cross entropy": lambda tf: tf.nn.weighted_cross_entropy_with_logits(
        LABELS, ROWS, 2.5
    ),
    "poisson": lambda tf: tf.nn.log_poisson_loss(LABELS, ROWS),
    "poisson full": lambda tf: tf.nn.log_poisson_loss(LABELS * 3, ROWS, True),
    "embedding": lambda tf: tf.nn.embedding_lookup(ROWS, [[1, 2], [0, 5]]),
    "embedding norm": lambda tf: tf.nn.embedding_lookup(ROWS, [[1, 2], [0, 5]], max_norm=1.0),
    "embedding parts": lambda tf: tf.nn.embedding_lookup([ROWS[:3], ROWS[3:]], [0, 3, 4]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others(name):
    compare(OTHERS[name](ours), OTHERS[name](theirs))


@pytest.mark.parametrize("loss", ["nce_loss", "sampled_softmax_loss"])
@pytest.mark.parametrize("accidental", [False, True])
def test_sampled_losses(loss, accidental):
    weights, biases, rows = normal(10, 4), normal(10), normal(3, 4)
    labels = np.array([[1, 2], [3, 4], [5, 9]])
    sample = np.array([7, 1, 4]), np.float32(LABELS[:3, :2]), np.float32([0.5, 0.3, 0.8])

    def call(tf):
        given = [tf.constant(each) for each in sample]
        return getattr(tf.nn, loss)(weights, biases, labels, rows, 3, 10, 2, given, accidental)

    compare(call(ours), call(theirs))


@pytest.mark.parametrize("kind", ["uniform", "log_uniform"])
@pytest.mark.parametrize("unique", [False, True])
def test_candidates_are_drawn_by_their_chances(kind, unique):
    def call(tf):
        function = getattr(tf.random, f"{kind}_candidate_sampler")
        return function(tf.constant([[0, 3]], tf.int64), 2, 5, unique, 8)

    mine, reference = call(ours), call(theirs)
    for one, other in zip(mine, reference, strict=True):
        assert one.dtype.name == other.dtype.name and tuple(one.shape) == tuple(other.shape)
    if not unique:
        compare(mine[1], reference[1])
    ours.random.set_seed(1)
    drawn = [np.bincount(call(ours)[0].numpy(), minlength=8) for _ in range(1000)]
    expected = call(ours)[1].numpy()[0]
    assert not unique or max(each.max() for each in drawn) == 1
    np.testing.assert_allclose(np.mean(drawn, 0)[[0, 3]], expected, atol=0.12)


@pytest.mark.parametrize(
    "call",
    [
        lambda tf: tf.nn.conv2d(IMAGES, normal(3, 3, 3, 5), 1, "SAME"),
        lambda tf: tf.nn.conv2d(IMAGES, normal(3, 3, 4, 5), [2, 1, 1, 1], "SAME"),
        lambda tf: tf.nn.conv2d(IMAGES, normal(3, 3, 4, 5), 1, "SOME"),
        lambda tf: tf.nn.conv2d_transpose(IMAGES, normal(3, 3, 5, 4), [2, 9, 9, 5], 2),
        lambda tf: tf.nn.depthwise_conv2d(IMAGES, normal(3, 3, 3, 5), [1, 1, 1, 1], "SAME"),
        lambda tf: tf.nn.pool(IMAGES, [2, 2], "SUM"),
    ],
)
def test_what_is_refused(call):
    for tf in (theirs, ours):
        with pytest.raises((ValueError, tf.errors.OpError)):
            call(tf)
