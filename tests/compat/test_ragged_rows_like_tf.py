"""Strings in ragged tensors and ``tf.map_fn`` over rows give what TensorFlow's give."""

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)


def words(tf):
    return tf.ragged.constant([["a b", "c\u00e9"], [], ["d"]])


def deep(tf):
    return tf.ragged.constant([[["a", "b"], ["c"]], [], [[], ["d", "e", "f"]]])


def digits(tf):
    return tf.ragged.constant([[3, 1], [], [5]])


def pairs(tf):
    return tf.ragged.constant([[["a", "b"]], [["c", "d"], ["e", "f"]]], ragged_rank=1)


def rows(tf, sizes=(None,), kind="int32"):
    return tf.RaggedTensorSpec(list(sizes), kind)


PROGRAMS = {
    "split": lambda tf: tf.strings.split(words(tf)),
    "split of none": lambda tf: tf.strings.split(words(tf)[:0]),
    "bytes_split": lambda tf: tf.strings.bytes_split(words(tf)),
    "unicode_split": lambda tf: tf.strings.unicode_split(words(tf), "UTF-8"),
    "unicode_decode": lambda tf: tf.strings.unicode_decode(deep(tf), "UTF-8"),
    "decode with offsets": lambda tf: tf.strings.unicode_decode_with_offsets(words(tf), "UTF-8"),
    "split with offsets": lambda tf: tf.strings.unicode_split_with_offsets(words(tf), "UTF-8"),
    "scalar with offsets": lambda tf: tf.strings.unicode_split_with_offsets("a\u00e9b", "UTF-8"),
    "ill-formed with offsets": lambda tf: tf.strings.unicode_split_with_offsets(
        [b"a\xffb", b""], "UTF-8", errors="ignore"
    ),
    "unicode_encode": lambda tf: tf.strings.unicode_encode(
        tf.ragged.constant([[97], [98, 233], []]), "UTF-8"
    ),
    "unicode_encode nested": lambda tf: tf.strings.unicode_encode(
        tf.ragged.constant([[[97], [98, 99]], [], [[]]]), "UTF-8"
    ),
    "ngrams": lambda tf: tf.strings.ngrams(words(tf), 2),
    "ngrams nested": lambda tf: tf.strings.ngrams(deep(tf), (1, 2), separator="|"),
    "ngrams padded": lambda tf: tf.strings.ngrams(words(tf), 2, pad_values=("<", ">")),
    "join": lambda tf: tf.strings.join([words(tf), "x", words(tf)], "+"),
    "join nested": lambda tf: tf.strings.join([deep(tf), "!"]),
    "segments": lambda tf: tf.strings.unsorted_segment_join(
        [["a", "b"], ["c", "d"], ["e", "f"]], [1, 0, 1], 3, "-"
    ),
    "segments of elements": lambda tf: tf.strings.unsorted_segment_join(
        [["a", "b"], ["c", "d"]], [[0, 1], [1, 1]], 2
    ),
    "segments of empty strings": lambda tf: tf.strings.unsorted_segment_join(
        ["", "a", "", "b"], [0, 0, 0, 0], 1, "-"
    ),
    "no segments": lambda tf: tf.strings.unsorted_segment_join(
        tf.constant([], tf.string), tf.constant([], tf.int32), 2
    ),
    "map": lambda tf: tf.map_fn(tf.math.square, digits(tf)),
    "map of none": lambda tf: tf.map_fn(tf.math.square, digits(tf)[:0]),
    "map nested": lambda tf: tf.map_fn(tf.strings.upper, deep(tf)),
    "map pairs": lambda tf: tf.map_fn(tf.strings.upper, pairs(tf)),
    "map to numbers": lambda tf: tf.map_fn(tf.reduce_sum, digits(tf), fn_output_signature=tf.int32),
    "map to vectors": lambda tf: tf.map_fn(
        lambda x: tf.stack([tf.reduce_sum(x), tf.size(x)]), digits(tf), fn_output_signature=tf.int32
    ),
    "map to rows": lambda tf: tf.map_fn(
        tf.range, tf.constant([3, 0]), fn_output_signature=rows(tf)
    ),
    "map to nested": lambda tf: tf.map_fn(
        lambda x: tf.ragged.range(tf.range(x)),
        tf.constant([3, 0, 1]),
        fn_output_signature=tf.RaggedTensorSpec([None, None], tf.int32, row_splits_dtype=tf.int64),
    ),
    "map several": lambda tf: tf.map_fn(
        lambda x: {"rows": x[0] * x[1], "sum": tf.reduce_sum(x[0])},
        (digits(tf), tf.constant([1, 2, 3])),
        fn_output_signature={"rows": rows(tf), "sum": tf.int32},
    ),
    "map compiled": lambda tf: tf.function(
        lambda x: tf.map_fn(tf.math.square, digits(tf) + x), autograph=False
    )(tf.constant(2)),
    **{
        f"reduce_join {axis} {keepdims}": lambda tf, axis=axis, keepdims=keepdims: (
            tf.strings.reduce_join(words(tf), axis=axis, separator="-", keepdims=keepdims)
        )
        for axis in (None, 0, 1, -1, [0, 1])
        for keepdims in (False, True)
    },
    **{
        f"reduce_join nested {axis}": lambda tf, axis=axis: tf.strings.reduce_join(
            deep(tf), axis=axis, separator="-"
        )
        for axis in (0, 1, 2, [1, 2])
    },
    **{
        f"{name} kept": lambda tf, name=name: getattr(tf, name)(digits(tf), keepdims=True)
        for name in ("reduce_sum", "reduce_max", "reduce_mean")
    },
    "any kept": lambda tf: tf.reduce_any(digits(tf) > 3, keepdims=True),
    "reduce_join pairs": lambda tf: tf.strings.reduce_join(pairs(tf), axis=1),
}

REFUSED = {
    "a scalar": lambda tf: tf.map_fn(tf.reduce_sum, digits(tf)),
    "another dtype": lambda tf: tf.map_fn(
        lambda x: tf.cast(x, tf.float32), digits(tf), fn_output_signature=rows(tf)
    ),
    "dense rows": lambda tf: tf.map_fn(
        lambda x: tf.ones([x, x], tf.int32),
        tf.constant([2, 1]),
        fn_output_signature=rows(tf, (None, None)),
    ),
    "other structure": lambda tf: tf.map_fn(
        lambda x: (x, x), digits(tf), fn_output_signature=rows(tf)
    ),
    "differing rows": lambda tf: tf.map_fn(lambda x: x, digits(tf), fn_output_signature=tf.int32),
    "counts": lambda tf: tf.map_fn(
        lambda x: x[0], (digits(tf), tf.constant([1, 2])), fn_output_signature=rows(tf)
    ),
    "segment": lambda tf: tf.strings.unsorted_segment_join(["a"], [2], 2),
    "negative segment": lambda tf: tf.strings.unsorted_segment_join(["a", "b"], [-1, 0], 2),
    "segments' shape": lambda tf: tf.strings.unsorted_segment_join(["a", "b"], [0], 2),
}


def plain(tf, value):
    if isinstance(value, dict):
        return {key: plain(tf, each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [plain(tf, each) for each in value]
    kind = value.dtype.name
    if isinstance(value, tf.RaggedTensor):
        return kind, value.to_list(), value.ragged_rank, value.row_splits.dtype.name
    return kind, np.asarray(value).tolist(), tuple(value.shape)


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_are_as_tensorflows(name):
    program = PROGRAMS[name]
    assert plain(ours, program(ours)) == plain(theirs, program(theirs))


@pytest.mark.parametrize("name", REFUSED)
def test_what_tensorflow_refuses_is_refused(name):
    program = REFUSED[name]
    with pytest.raises((ValueError, TypeError, theirs.errors.InvalidArgumentError)):
        program(theirs)
    with pytest.raises((ValueError, TypeError, ours.errors.InvalidArgumentError)):
        program(ours)


def test_gradients_go_through_mapped_rows():
    found = []
    for tf in (ours, theirs):
        x = tf.Variable([1.0, 2.0, 3.0])
        with tf.GradientTape() as tape:
            made = tf.map_fn(tf.math.square, tf.RaggedTensor.from_row_lengths(x * 1.0, [2, 0, 1]))
            loss = tf.reduce_sum(made.flat_values)
        found.append(np.asarray(tf.convert_to_tensor(tape.gradient(loss, x))).tolist())
    assert found[0] == found[1] == [2.0, 4.0, 6.0]
