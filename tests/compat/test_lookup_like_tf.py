"""Lookup tables give what TensorFlow's give, where it is installed: values, dtypes and errors."""

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

KINDS = {"int32": [3, 1, 7], "int64": [2**40, -5, 7], "string": ["x", "", "ü"]}
VALUES = {**KINDS, "float32": [0.5, -1.0, 2.0], "float64": [0.1, 1e300, 2.0]}
DEFAULTS = {"int32": -1, "int64": -1, "string": "?", "float32": 9.0, "float64": 9.0}
PAIRS = [
    ("int32", "int32"),
    ("int32", "float32"),
    ("int32", "float64"),
    ("int32", "string"),
    *(("int64", value) for value in VALUES),
    *(("string", value) for value in VALUES),
]


def same(mine, other):
    if isinstance(other, (list, tuple)):
        assert len(mine) == len(other)
        for a, b in zip(mine, other, strict=True):
            same(a, b)
        return
    if other is None:
        assert mine is None
        return
    if hasattr(other, "to_list"):
        assert mine.to_list() == other.to_list()
        return
    if hasattr(other, "dense_shape"):
        for name in ("indices", "values", "dense_shape"):
            same(getattr(mine, name), getattr(other, name))
        return
    assert mine.dtype.name == other.dtype.name
    assert tuple(mine.shape) == tuple(other.shape)
    assert np.asarray(mine).tolist() == np.asarray(other).tolist()


def outcome(program, tf):
    try:
        return program(tf)
    except Exception as error:
        return error


def kept(tf, key, value):
    pairs = tf.lookup.KeyValueTensorInitializer(KINDS[key], VALUES[value], key, value)
    return tf.lookup.StaticHashTable(pairs, tf.constant(DEFAULTS[value], value))


@pytest.mark.parametrize(("key", "value"), PAIRS)
def test_static_tables_of_all_types(key, value):
    def program(tf):
        asked = tf.constant([[*KINDS[key][:2]], [KINDS[key][2], DEFAULTS[key]]], key)
        table = kept(tf, key, value)
        return table.lookup(asked), table.size(), table[tf.constant(KINDS[key][0], key)]

    same(program(ours), program(theirs))


@pytest.mark.parametrize("key", ["int64", "string"])
def test_hashes_of_unknown_keys(key):
    def program(tf):
        pairs = tf.lookup.KeyValueTensorInitializer(KINDS[key], [0, 1, 2], key, tf.int64)
        table = tf.lookup.StaticVocabularyTable(pairs, 1000)
        more = list(range(-50, 50)) if key == "int64" else [f"word {i}" for i in range(100)]
        return table[tf.constant([*KINDS[key], *more], key)], table.size()

    same(program(ours), program(theirs))


def mutable(tf, *default, **options):
    return tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, *default, **options)


def dense(tf, **keys):
    options = {"empty_key": "", "deleted_key": "$", **keys}
    return tf.lookup.experimental.DenseHashTable(tf.string, tf.int64, -1, **options)


def of_file(tf, text, *columns, path="words", **options):
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=path, delete=False) as file:
        file.write(text)
    key, key_index, value, value_index = columns
    pairs = tf.lookup.TextFileInitializer(
        file.name, getattr(tf, key), key_index, getattr(tf, value), value_index, **options
    )
    default = "?" if value == "string" else -1
    keys, values = tf.lookup.StaticHashTable(pairs, default).export()
    order = np.argsort(np.asarray(keys))
    return [np.asarray(keys)[order].tolist(), np.asarray(values)[order].tolist()]


def changed(tf, table):
    table.insert(tf.constant([["a"], ["b"]]), [[1], [2]])
    table.insert(["b", "c"], [3, 4])
    table.remove(tf.constant(["a", "nothing"]))
    return table.lookup(tf.constant([["a", "b"], ["c", "d"]])), table.size()


PROGRAMS = {
    "sparse keys": lambda tf: kept(tf, "string", "int64").lookup(
        tf.SparseTensor([[0, 1], [1, 0]], ["x", "none"], [2, 3])
    ),
    "ragged keys": lambda tf: kept(tf, "string", "int64")[
        tf.ragged.constant([["x", "none"], [], ["ü"]])
    ],
    "no keys": lambda tf: kept(tf, "string", "int64")[tf.constant([], tf.string)],
    "keys of another type": lambda tf: kept(tf, "int64", "int64")[tf.constant([1])],
    "a key with two values": lambda tf: tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "a"], [1, 2]), -1
    ),
    "a key twice": lambda tf: tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "a"], [1, 1]), -1
    ).size(),
    "too few values": lambda tf: tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], [1]), -1
    ),
    "a default of another type": lambda tf: tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a"], [1]), 1.5
    ),
    "no buckets": lambda tf: tf.lookup.StaticVocabularyTable(None, 0),
    "buckets alone": lambda tf: tf.lookup.StaticVocabularyTable(
        None, 3, lookup_key_dtype=tf.string
    )[tf.constant(["a", "b", "c"])],
    "numbers of 32 bits": lambda tf: tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["a"], [0]), 3
    ),
    "numbers not from 0": lambda tf: tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64)), 3
    )[tf.constant(["a", "b", "x", "y"])],
    "int32 keys of an int64 vocabulary": lambda tf: tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(*[tf.constant([0, 1], tf.int64)] * 2),
        3,
        lookup_key_dtype=tf.int32,
    )[tf.constant([0, 5, 6])],
    "values that are vectors": lambda tf: (
        (table := mutable(tf, [0.0, 1.0])).insert(["a"], [[2.0, 3.0]]),
        table.lookup(tf.constant([["a"], ["z"]])),
        table.lookup(tf.constant(["a", "z"]), dynamic_default_values=[[4.0, 5.0], [6.0, 7.0]]),
    ),
    "a table that changes": lambda tf: changed_mutable(tf),
    "too many values": lambda tf: mutable(tf, 0.0).insert(["a"], [1.0, 2.0]),
    "numbers for strings": lambda tf: mutable(tf, 0.0).insert([1], [1.0]),
    "equal special keys": lambda tf: dense(tf, deleted_key=""),
    "the empty key inserted": lambda tf: dense(tf).insert(
        tf.constant([""]), tf.constant([1], tf.int64)
    ),
    "the deleted key": lambda tf: dense(tf).lookup(tf.constant(["$"])),
    "the empty key erased": lambda tf: dense(tf).erase(tf.constant([""])),
    "a dense table": lambda tf: (
        (table := dense(tf)).insert_or_assign(["a", "b"], [1, 2]),
        table.remove(tf.constant(["a"])),
        table[tf.constant(["a", "b"])],
        table.size(),
    ),
    "lines": lambda tf: of_file(tf, "x\ny\nz\n", "string", -2, "int64", -1),
    "lines without an end": lambda tf: of_file(tf, "x\ny\nz", "string", -2, "int64", -1),
    "lines with an offset": lambda tf: of_file(
        tf, "x\ny\n", "string", -2, "int64", -1, value_index_offset=3
    ),
    "numbers to lines": lambda tf: of_file(tf, "x\ny\n", "int64", -1, "string", -2),
    "some lines": lambda tf: of_file(tf, "x\ny\nz\n", "string", -2, "int64", -1, vocab_size=2),
    "too few lines": lambda tf: of_file(tf, "x\n", "string", -2, "int64", -1, vocab_size=2),
    "columns": lambda tf: of_file(tf, "x 1\ny 2\n", "string", 0, "int64", 1, delimiter=" "),
    "columns of floats": lambda tf: of_file(
        tf, "x,1.5\ny,2\n", "string", 0, "float32", 1, delimiter=","
    ),
    "too few columns": lambda tf: of_file(tf, "x\t1\ny\n", "string", 0, "int64", 1),
    "no number": lambda tf: of_file(tf, "x\ty\n", "string", 0, "int64", 1),
    "line numbers of 32 bits": lambda tf: of_file(tf, "x\n", "string", -2, "int32", -1),
    "lines as floats": lambda tf: of_file(tf, "x\n", "float32", -2, "int64", -1),
    "an index below": lambda tf: of_file(tf, "x\n", "string", -3, "int64", -1),
}


def changed_mutable(tf):
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    return changed(tf, table)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_errors_are_equal(name):
    mine, other = outcome(PROGRAMS[name], ours), outcome(PROGRAMS[name], theirs)
    if isinstance(other, Exception):
        assert type(mine).__name__ == type(other).__name__, repr(mine)
        return
    if isinstance(mine, Exception):
        raise mine
    if isinstance(other, list) and not hasattr(other[0], "dtype"):
        assert mine == other
    else:
        same(mine, other)


def test_maps_are_equal():
    def program(tf):
        table = kept(tf, "string", "int64")
        words = tf.data.Dataset.from_tensor_slices([["x", "q"], ["ü", ""]])
        mapped = words.map(lambda x: (table[x], tf.strings.length(x)))
        return [[np.asarray(part).tolist() for part in each] for each in mapped]

    assert program(ours) == program(theirs)
