"""Feature columns give what TensorFlow's give, where it is installed: numbers, specs and errors."""

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

TABLE = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)


class State:
    """What TensorFlow's columns ask for their variables and tables."""

    def get_variable(self, column, name):
        inner = column.categorical_column
        return theirs.constant(TABLE[: inner.num_buckets])

    def has_resource(self, column, name):
        return False

    def add_resource(self, column, name, resource):
        pass


def features(tf):
    return {
        "words": tf.constant([["a", "b"], ["", "zz"], ["c", "c"]]),
        "word": tf.constant(["b", "", "new"]),
        "small": tf.constant([3, -1, 0]),
        "wide": tf.constant([[2**40], [7], [-1]], tf.int64),
        "number": tf.constant([1.5, float("nan"), -20.0]),
        "pair": tf.constant([[1.0, 10.0], [2.0, 20.0], [0.0, -1.0]]),
        "weight": tf.constant([[0.5, 2.0], [1.0, 0.0], [3.0, 1.0]]),
        "sparse": tf.SparseTensor([[0, 0], [2, 0], [2, 1], [2, 2]], ["a", "b", "none", ""], [3, 3]),
        "sparse_numbers": tf.SparseTensor(
            [[0, 0], [2, 0], [2, 1]], tf.constant([5, 2, 2], tf.int64), [3, 4]
        ),
        "sparse_weights": tf.SparseTensor([[0, 0], [2, 0], [2, 1]], [0.5, -2.0, 3.0], [3, 4]),
    }


def vocabulary(tf, key="words", **options):
    return tf.feature_column.categorical_column_with_vocabulary_list(
        key, ["a", "b", "c"], **options
    )


def hashed(tf, key, kind="string", size=300):
    return tf.feature_column.categorical_column_with_hash_bucket(key, size, getattr(tf, kind))


def numbers(tf, key, size=10, default=None):
    return tf.feature_column.categorical_column_with_identity(key, size, default)


def ranges(tf, key="number", shape=(1,)):
    source = tf.feature_column.numeric_column(key, shape=shape)
    return tf.feature_column.bucketized_column(source, [-3.0, 1.5, 10.0])


CATEGORIES = {
    "vocabulary": vocabulary,
    "vocabulary of one": lambda tf: vocabulary(tf, "word"),
    "vocabulary of sparse": lambda tf: vocabulary(tf, "sparse"),
    "vocabulary with a default": lambda tf: vocabulary(tf, default_value=1),
    "vocabulary with buckets": lambda tf: vocabulary(tf, num_oov_buckets=7),
    "vocabulary of sparse with buckets": lambda tf: vocabulary(tf, "sparse", num_oov_buckets=7),
    "vocabulary of numbers": lambda tf: tf.feature_column.categorical_column_with_vocabulary_list(
        "wide", [7, 9, 2**40]
    ),
    "vocabulary of small numbers": lambda tf: (
        tf.feature_column.categorical_column_with_vocabulary_list("small", [0, 3])
    ),
    "hashes": lambda tf: hashed(tf, "words"),
    "hashes of sparse": lambda tf: hashed(tf, "sparse"),
    "hashes of numbers": lambda tf: hashed(tf, "wide", "int64"),
    "hashes of small numbers": lambda tf: hashed(tf, "small", "int32"),
    "identity": lambda tf: numbers(tf, "small"),
    "identity with a default": lambda tf: numbers(tf, "wide", default=4),
    "identity of sparse": lambda tf: numbers(tf, "sparse_numbers"),
    "ranges": ranges,
    "ranges of pairs": lambda tf: ranges(tf, "pair", (2,)),
    "weighted": lambda tf: tf.feature_column.weighted_categorical_column(
        numbers(tf, "sparse_numbers"), "sparse_weights"
    ),
    "cross of strings": lambda tf: tf.feature_column.crossed_column(["words", "word"], 300),
    "cross of sparse and dense": lambda tf: tf.feature_column.crossed_column(
        ["words", "sparse"], 300
    ),
    "cross of columns": lambda tf: tf.feature_column.crossed_column(
        [ranges(tf), vocabulary(tf), "word"], 300
    ),
    "cross with a key": lambda tf: tf.feature_column.crossed_column(
        ["word", ranges(tf, "pair", (2,))], 300, hash_key=5
    ),
    "cross of a cross": lambda tf: tf.feature_column.crossed_column(
        [tf.feature_column.crossed_column(["word", "words"], 9), numbers(tf, "small")], 300
    ),
}
NUMBERS = {
    "numeric": lambda tf: tf.feature_column.numeric_column("number"),
    "numeric of pairs": lambda tf: tf.feature_column.numeric_column("pair", shape=(2,)),
    "numeric of integers": lambda tf: tf.feature_column.numeric_column("wide", dtype=tf.int64),
    "normalized": lambda tf: tf.feature_column.numeric_column(
        "pair", shape=2, normalizer_fn=lambda x: (x - 3.0) / tf.constant(4.2)
    ),
    "ranges": ranges,
    "ranges of pairs": lambda tf: ranges(tf, "pair", (2,)),
}
EMBEDDINGS = {
    f"{name}, {combiner}": (make, {"combiner": combiner})
    for name, make in CATEGORIES.items()
    for combiner in (("mean", "sqrtn", "sum") if "weigh" in name else ("mean",))
} | {"cut to a norm": (vocabulary, {"max_norm": 0.8})}


def their_output(column):
    from tensorflow.python.feature_column.feature_column_v2 import FeatureTransformationCache

    made = column.get_dense_tensor(FeatureTransformationCache(features(theirs)), State())
    return np.asarray(made).reshape(3, -1)


def our_output(column):
    layer = ours.keras.layers.DenseFeatures([column])
    for variable in layer.weights:
        variable.assign(TABLE[: variable.shape[0]])
    return np.asarray(layer(features(ours)))


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_equal(name):
    np.testing.assert_allclose(
        our_output(NUMBERS[name](ours)), their_output(NUMBERS[name](theirs)), rtol=1e-6
    )


@pytest.mark.parametrize("name", CATEGORIES)
def test_indicators_are_equal(name):
    def column(tf):
        return tf.feature_column.indicator_column(CATEGORIES[name](tf))

    np.testing.assert_array_equal(our_output(column(ours)), their_output(column(theirs)))


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_embeddings_are_equal(name):
    make, options = EMBEDDINGS[name]

    def column(tf):
        return tf.feature_column.embedding_column(make(tf), 3, **options)

    np.testing.assert_allclose(
        our_output(column(ours)), their_output(column(theirs)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", [*CATEGORIES, *NUMBERS])
def test_specs_and_names_are_equal(name):
    make = {**CATEGORIES, **NUMBERS}[name]
    mine, other = make(ours), make(theirs)
    assert mine.name == other.name
    a, b = (
        tf.feature_column.make_parse_example_spec([column])
        for tf, column in ((ours, mine), (theirs, other))
    )
    assert a.keys() == b.keys()
    for key, spec in b.items():
        assert type(a[key]).__name__ == type(spec).__name__
        assert ours.as_dtype(a[key].dtype).name == spec.dtype.name
        if hasattr(spec, "shape"):
            assert tuple(a[key].shape) == tuple(spec.shape)
            assert a[key].default_value == spec.default_value


def test_vocabularies_of_files_are_equal(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("c\na\nb\n")

    def column(tf, **options):
        file = tf.feature_column.categorical_column_with_vocabulary_file(
            "words", str(path), **options
        )
        return tf.feature_column.indicator_column(file)

    for options in ({}, {"num_oov_buckets": 5}, {"vocabulary_size": 2}, {"default_value": 0}):
        np.testing.assert_array_equal(
            our_output(column(ours, **options)), their_output(column(theirs, **options))
        )


def test_linear_models_are_equal():
    from tensorflow.python.feature_column.feature_column_v2 import (
        FeatureTransformationCache,
        _create_weighted_sum,
    )

    for make in (*CATEGORIES.values(), *NUMBERS.values()):
        column, found = make(ours), {}
        linear = ours.compat.v1.make_template(
            "linear",
            ours.compat.v1.feature_column.linear_model,
            feature_columns=[column],
            units=3,
            cols_to_vars=found,
        )
        linear(features(ours))
        (weights,) = found[column]
        weights.assign(TABLE[: weights.shape[0]])
        other = _create_weighted_sum(
            make(theirs),
            FeatureTransformationCache(features(theirs)),
            State(),
            "sum",
            theirs.constant(TABLE[: weights.shape[0]]),
        )
        np.testing.assert_allclose(linear(features(ours)), other, rtol=1e-4, atol=1e-5)


ERRORS = {
    "no shape": lambda fc, tf: fc.numeric_column("a", shape=(0,)),
    "a shape of floats": lambda fc, tf: fc.numeric_column("a", shape=(1.5,)),
    "strings as numbers": lambda fc, tf: fc.numeric_column("a", dtype=tf.string),
    "a default of a shape": lambda fc, tf: fc.numeric_column("a", default_value=[1.0, 2.0]),
    "a default of a type": lambda fc, tf: fc.numeric_column("a", default_value=1.5, dtype=tf.int32),
    "a normalizer": lambda fc, tf: fc.numeric_column("a", normalizer_fn=3),
    "a number for a key": lambda fc, tf: fc.numeric_column(5),
    "ranges of categories": lambda fc, tf: fc.bucketized_column(numbers(tf, "a"), [1]),
    "no boundaries": lambda fc, tf: fc.bucketized_column(fc.numeric_column("a"), []),
    "boundaries in no order": lambda fc, tf: fc.bucketized_column(fc.numeric_column("a"), [2, 1]),
    "no buckets": lambda fc, tf: fc.categorical_column_with_hash_bucket("a", 0),
    "hashes of floats": lambda fc, tf: fc.categorical_column_with_hash_bucket("a", 5, tf.float32),
    "an empty vocabulary": lambda fc, tf: fc.categorical_column_with_vocabulary_list("a", []),
    "a word twice": lambda fc, tf: fc.categorical_column_with_vocabulary_list("a", ["x", "x"]),
    "buckets and a default": lambda fc, tf: fc.categorical_column_with_vocabulary_list(
        "a", ["x"], default_value=3, num_oov_buckets=2
    ),
    "another type": lambda fc, tf: fc.categorical_column_with_vocabulary_list(
        "a", ["x"], dtype=tf.int64
    ),
    "no file": lambda fc, tf: fc.categorical_column_with_vocabulary_file("a", "/nothing.txt"),
    "a default out of range": lambda fc, tf: fc.categorical_column_with_identity("a", 3, 3),
    "one key to cross": lambda fc, tf: fc.crossed_column(["a"], 5),
    "hashes to cross": lambda fc, tf: fc.crossed_column(
        ["a", fc.categorical_column_with_hash_bucket("b", 5)], 5
    ),
    "numbers to cross": lambda fc, tf: fc.crossed_column(["a", fc.numeric_column("b")], 5),
    "no dimension": lambda fc, tf: fc.embedding_column(numbers(tf, "a"), 0),
    "an initializer": lambda fc, tf: fc.embedding_column(numbers(tf, "a"), 2, initializer=3),
    "two specs of a feature": lambda fc, tf: fc.make_parse_example_spec(
        [fc.numeric_column("a"), numbers(tf, "a")]
    ),
    "no columns": lambda fc, tf: fc.make_parse_example_spec(["a"]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_equal(name):
    found = []
    for tf in (ours, theirs):
        with pytest.raises((TypeError, ValueError)) as raised:
            ERRORS[name](tf.feature_column, tf)
        found.append(raised.value)
    assert type(found[0]) is type(found[1])
    assert str(found[0])[:5] == str(found[1])[:5]
