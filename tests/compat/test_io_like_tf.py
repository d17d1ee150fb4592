"""Strings, records and images give what TensorFlow's give, where it is installed."""

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

WORDS = ["Hello world", "", "a  b", "Ünïcode é"]
IMAGE = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)


def features_of_any_length(tf):
    """As scripts for detection read boxes and names of classes."""

    def record(boxes, names):
        feature = {
            "x": tf.train.Feature(float_list=tf.train.FloatList(value=boxes)),
            "name": tf.train.Feature(bytes_list=tf.train.BytesList(value=names)),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    features = {"x": tf.io.VarLenFeature(tf.float32), "name": tf.io.VarLenFeature(tf.string)}

    def parse(serialized):
        parsed = tf.io.parse_single_example(serialized, features)
        assert isinstance(parsed["x"], tf.SparseTensor)
        names = tf.sparse.to_dense(parsed["name"], default_value="")
        boxes = tf.expand_dims(parsed["x"].values, 0)
        return tf.pad(names, [[0, 3 - tf.shape(names)[0]]]), boxes, tf.sparse.to_dense(parsed["x"])

    records = [record([0.5, 0.25], [b"a", b"b"]), record([], []), record([1.0], [b"c"])]
    found = [leaf for row in tf.data.Dataset.from_tensor_slices(records).map(parse) for leaf in row]
    one = tf.io.parse_single_example(records[0], features)["x"]
    found += [one.indices, one.dense_shape, tf.sparse.to_dense(tf.sparse.reset_shape(one, [4]))]
    found += [(one * 2.0).values, tf.sparse.reduce_sum(one)]
    batch = tf.io.parse_example(tf.constant(records), features)
    return [*found, tf.sparse.to_dense(batch["x"], -1.0), batch["x"].values]


PROGRAMS = {
    "features of any length": features_of_any_length,
    "lower": lambda tf: tf.strings.lower(tf.constant(WORDS)),
    "upper": lambda tf: tf.strings.upper(tf.constant("abc")),
    "length": lambda tf: tf.strings.length(tf.constant(WORDS)),
    "length of characters": lambda tf: tf.strings.length(tf.constant(WORDS), unit="UTF8_CHAR"),
    "join": lambda tf: tf.strings.join([tf.constant(["a", "b"]), tf.constant(["c", "d"])], "-"),
    "reduce_join": lambda tf: tf.strings.reduce_join(tf.constant(["a", "b"]), separator=" "),
    "substr": lambda tf: tf.strings.substr(tf.constant("hello"), 1, 3),
    "split of one": lambda tf: tf.strings.split("a b  c"),
    "strip": lambda tf: tf.strings.strip(tf.constant(["  a ", "b"])),
    "regex_replace": lambda tf: tf.strings.regex_replace(tf.constant(WORDS), "[aeiou]", "_"),
    "regex_full_match": lambda tf: tf.strings.regex_full_match(tf.constant(WORDS), ".*b"),
    "hash": lambda tf: tf.strings.to_hash_bucket_fast(tf.constant(WORDS), 1000),
    "to_number": lambda tf: tf.strings.to_number(tf.constant(["1.5", "-2e3"])),
    "to_number of integers": lambda tf: tf.strings.to_number(tf.constant(["7"]), tf.int64),
    "as_string": lambda tf: tf.strings.as_string(tf.constant([1, 22])),
    "bytes_split": lambda tf: tf.strings.bytes_split(tf.constant("héy")),
    "unicode_split": lambda tf: tf.strings.unicode_split("héy", "UTF-8"),
    "decode_raw": lambda tf: tf.io.decode_raw(tf.constant([b"abcd", b"efgh"]), tf.uint16),
    "decode_csv": lambda tf: tf.io.decode_csv(tf.constant(["1,x", "2,"]), [0, "none"]),
    "base64": lambda tf: tf.io.encode_base64(tf.constant([b"\xff\xfe\xfd\xfc", b"x"]), pad=True),
    "parse": lambda tf: tf.io.parse_tensor(
        tf.io.serialize_tensor(tf.constant([[1.5, 2.5]])), tf.float32
    ),
    "png": lambda tf: tf.io.decode_png(tf.io.encode_png(tf.constant(IMAGE))),
    "resize": lambda tf: tf.image.resize(tf.constant(IMAGE), [3, 5]),
    "flip": lambda tf: tf.image.flip_up_down(tf.constant(IMAGE)),
    "to floats": lambda tf: tf.image.convert_image_dtype(tf.constant(IMAGE), tf.float32),
    "grayscale": lambda tf: tf.image.rgb_to_grayscale(tf.constant(IMAGE)),
    "crop": lambda tf: tf.image.central_crop(tf.constant(IMAGE), 0.5),
    "pad": lambda tf: tf.image.resize_with_crop_or_pad(tf.constant(IMAGE), 10, 4),
    "standardized": lambda tf: tf.image.per_image_standardization(tf.constant(IMAGE)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_equal(name):
    mine, other = PROGRAMS[name](ours), PROGRAMS[name](theirs)
    pairs = zip(mine, other, strict=True) if isinstance(other, list) else [(mine, other)]
    for a, b in pairs:
        assert a.dtype.name == b.dtype.name
        assert tuple(a.shape) == tuple(b.shape)
        if b.dtype == theirs.string:
            assert np.asarray(a.numpy()).tolist() == np.asarray(b.numpy()).tolist()
        else:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
