"""Losses and decoders of label sequences, and sparse embeddings, are TensorFlow's."""

import numpy as np
import pytest

from drumline.compat import tf as ours
from tests.compat.comparing import compare

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

RANDOM = np.random.default_rng(7)
LOGITS = RANDOM.normal(size=(6, 3, 5)).astype(np.float32)
LABELS = np.array([[1, 2, 2], [3, 1, 0], [4, 0, 0]], np.int32)
COUNTS, FRAMES = np.array([3, 2, 0], np.int32), np.array([6, 5, 4], np.int32)
TABLE = RANDOM.normal(size=(10, 4)).astype(np.float32)


@pytest.mark.parametrize("major", [True, False])
@pytest.mark.parametrize("blank", [None, -1, 0])
def test_losses(major, blank):
    labels = LABELS if blank != -1 else np.minimum(LABELS, 3)

    def run(tf, compiled):
        x = tf.constant(LOGITS if major else LOGITS.swapaxes(0, 1))

        def call(x):
            return tf.nn.ctc_loss(
                labels, x, COUNTS, FRAMES, logits_time_major=major, blank_index=blank
            )

        call = tf.function(call) if compiled else call
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = call(x)
            total = tf.reduce_sum(loss * np.array([1, 2, 3], np.float32))
        return [loss, tape.gradient(total, x)]

    expected = run(theirs, False)
    for compiled in (False, True):
        for mine, other in zip(run(ours, compiled), expected, strict=True):
            compare(mine, other, 1e-4)


def test_loss_of_labels_that_do_not_fit():
    found = ours.nn.ctc_loss([[1, 1]], LOGITS[:2, :1], [2], [2])
    assert found.numpy().tolist() == [float("inf")]
    with pytest.raises(ours.errors.InvalidArgumentError):
        ours.nn.ctc_loss(LABELS, LOGITS, COUNTS, FRAMES, blank_index=9)


def sparse(tf, mine, other):
    for part in ("indices", "values", "dense_shape"):
        compare(ours.constant(getattr(mine, part)), getattr(other, part))


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("blank", [None, 0])
def test_greedy_decoding(merged, blank):
    logits = np.repeat(LOGITS, 2, 0)

    def run(tf):
        return tf.nn.ctc_greedy_decoder(tf.constant(logits), FRAMES * 2, merged, blank)

    (mine, sums), (other, expected) = run(ours), run(theirs)
    sparse(ours, mine[0], other[0])
    compare(sums, expected, 1e-5)


@pytest.mark.parametrize(("width", "paths"), [(100, 3), (3, 2)])
def test_beam_search(width, paths):
    def run(tf):
        return tf.nn.ctc_beam_search_decoder(tf.constant(LOGITS), FRAMES, width, paths)

    (mine, chances), (other, expected) = run(ours), run(theirs)
    assert len(mine) == len(other) == paths
    if width == 100:
        for a, b in zip(mine, other, strict=True):
            sparse(ours, a, b)
        compare(chances, expected, 1e-4)
    for tf in (ours, theirs):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            tf.nn.ctc_beam_search_decoder(tf.constant(LOGITS), FRAMES, 2, 3)


@pytest.mark.parametrize("combiner", ["mean", "sqrtn", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("most", [None, 1.0])
def test_sparse_embeddings(combiner, weighted, most):
    places = np.array([[0, 0], [0, 2], [2, 1]], np.int64)

    def run(tf):
        table = tf.constant(TABLE)
        ids = tf.SparseTensor(places, np.array([3, 1, 3]), [4, 3])
        shares = tf.SparseTensor(places, np.array([0.5, 2.0, 1.5], np.float32), [4, 3])
        with tf.GradientTape() as tape:
            tape.watch(table)
            made = tf.nn.embedding_lookup_sparse(
                table, ids, shares if weighted else None, combiner, most
            )
            loss = tf.reduce_sum(made * made)
        return [made, tf.convert_to_tensor(tape.gradient(loss, table))]

    for mine, other in zip(run(ours), run(theirs), strict=True):
        compare(mine, other, 1e-4)


@pytest.mark.parametrize("default", [None, 2])
@pytest.mark.parametrize("combiner", ["mean", "sum"])
def test_safe_embeddings(default, combiner):
    def run(tf, weighted):
        places = np.array([[0, 0], [0, 1], [1, 0], [3, 1]], np.int64)
        ids = tf.SparseTensor(places, np.array([3, -1, 4, 5]), [5, 2])
        shares = tf.SparseTensor(places, np.array([0.5, 2, -1, 1.5], np.float32), [5, 2])
        return tf.nn.safe_embedding_lookup_sparse(
            TABLE if tf is ours else tf.constant(TABLE),
            ids,
            shares if weighted else None,
            combiner,
            default,
        )

    for weighted in (False, True):
        compare(run(ours, weighted), run(theirs, weighted), 1e-5)


def test_embeddings_of_ragged_numbers():
    def run(tf):
        ids = tf.ragged.constant([[1, 2], [3], [4, 5, 6]], dtype=tf.int64)
        return tf.nn.embedding_lookup_sparse(tf.constant(TABLE), ids, None, "sum")

    compare(run(ours), run(theirs), 1e-5)
    for tf in (ours, theirs):
        with pytest.raises(TypeError):
            tf.nn.embedding_lookup_sparse(TABLE, [1, 2], None)
        ids = tf.SparseTensor([[0, 0]], [1], [1, 1])
        with pytest.raises(ValueError, match="combiner"):
            tf.nn.embedding_lookup_sparse(TABLE, ids, None, "median")


def test_accidental_hits():
    def run(tf):
        true = tf.constant([[1, 2], [3, 3], [7, 0]], tf.int64)
        return tf.nn.compute_accidental_hits(true, tf.constant([3, 1, 0, 3], tf.int64), 2)

    for mine, other in zip(run(ours), run(theirs), strict=True):
        compare(mine, other)
