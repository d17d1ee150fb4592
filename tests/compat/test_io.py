"""Strings, files and images: what drumline's functions give, as tensors, eagerly and in maps."""

import numpy as np
import pytest

from drumline.compat import tf

IMAGE = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)


def texts(tensor):
    return tensor.numpy().tolist()


def test_strings_are_tensors_of_bytes():
    assert tf.strings.lower("ABC").numpy() == b"abc"
    assert texts(tf.strings.split("a b c")) == [b"a", b"b", b"c"]
    assert texts(tf.strings.length(tf.constant(["ab", "c"]))) == [2, 1]
    assert texts(tf.strings.bytes_split("abc")) == [b"a", b"b", b"c"]
    assert tf.strings.to_number(tf.constant(["1", "2.5"])).dtype == tf.float32


def test_bytes_of_matrices_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="a scalar or a vector"):
        tf.strings.bytes_split(tf.constant([["a"]]))


def test_in_maps_strings_stay_native():
    dataset = tf.data.Dataset.from_tensor_slices(["a b", "c"])
    upper = dataset.map(lambda text: tf.strings.split(tf.strings.upper(text)))
    assert [texts(row) for row in upper] == [[b"A", b"B"], [b"C"]]
    rows = tf.data.Dataset.from_tensor_slices(["1,2", "3,4"])
    parsed = rows.map(lambda line: tf.io.decode_csv(line, [0.0, 0.0]))
    assert [(a.numpy(), b.numpy()) for a, b in parsed] == [(1, 2), (3, 4)]
    # In a map that is traced, what has no native form makes it run as Python.
    letters = dataset.map(tf.strings.bytes_split)
    assert [texts(row) for row in letters] == [[b"a", b" ", b"b"], [b"c"]]


def test_files_are_written_and_found(tmp_path):
    path = str(tmp_path / "below" / "a.bin")
    tf.io.write_file(path, b"hello")
    assert tf.io.read_file(path).numpy() == b"hello"
    assert texts(tf.io.matching_files(str(tmp_path / "*" / "*.bin"))) == [path.encode()]
    assert texts(tf.io.matching_files(str(tmp_path / "*.none"))) == []
    gfile = tf.io.gfile
    with gfile.GFile(tf.constant(path), "rb") as file:
        assert (file.size(), file.read(2), file.tell()) == (5, b"he", 2)
    copied = gfile.join(str(tmp_path), "b.bin")
    gfile.copy(path, copied)
    with pytest.raises(tf.errors.AlreadyExistsError, match="overwrite=True"):
        gfile.copy(path, copied)
    gfile.rename(copied, path, overwrite=True)
    assert (gfile.exists(copied), gfile.isdir(tmp_path)) == (False, True)
    assert gfile.listdir(tmp_path / "below") == ["a.bin"]
    assert [files for _, _, files in gfile.walk(tmp_path)] == [[], ["a.bin"]]
    gfile.rmtree(tmp_path / "below")
    assert gfile.glob(str(tmp_path / "*")) == []


def test_errors_of_files_are_those_of_the_interface(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="listdir"):
        tf.io.gfile.listdir(tmp_path / "missing")
    with pytest.raises(tf.errors.NotFoundError, match="remove"):
        tf.io.gfile.remove(tmp_path / "missing")
    with pytest.raises(ValueError, match="local file system"):
        tf.io.gfile.exists("gs://bucket/file")


def test_images_keep_their_pixels_and_dtypes():
    png = tf.io.encode_png(tf.constant(IMAGE))
    assert png.dtype == tf.string
    np.testing.assert_array_equal(tf.io.decode_png(png).numpy(), IMAGE)
    small = tf.image.resize(tf.constant(IMAGE), (2, 2))
    assert (small.dtype, small.shape) == (tf.float32, (2, 2, 3))
    flipped = tf.image.flip_left_right(tf.constant(IMAGE))
    np.testing.assert_array_equal(flipped.numpy(), IMAGE[:, ::-1])


def test_values_survive_their_serialized_forms():
    wide = tf.constant([2**40, 1], tf.int64)
    parsed = tf.io.parse_tensor(tf.io.serialize_tensor(wide), tf.int64)
    assert (parsed.dtype, texts(parsed)) == (tf.int64, [2**40, 1])
    coded = tf.io.encode_base64(tf.constant([b"\xff\xfe", b""]))
    assert texts(coded) == [b"__4", b""]
    assert texts(tf.io.decode_base64(coded)) == [b"\xff\xfe", b""]
