"""TensorFlow 2.0's guides on tf.data (October 2019), in the spelling of that time.

The guides are `guide/data.ipynb` and `guide/data_performance.md`; a test is a section. What today's
guides have in the same words is in `tests/guides`.
"""

import numpy as np
import pytest

import drumline.compat.tf as tf


def test_dataset_structure():
    """guide/data, section "Dataset structure"."""
    dataset1 = tf.data.Dataset.from_tensor_slices(tf.random.uniform([4, 10]))
    dataset2 = tf.data.Dataset.from_tensor_slices(
        (tf.random.uniform([4]), tf.random.uniform([4, 100], maxval=100, dtype=tf.int32))
    )
    dataset3 = tf.data.Dataset.zip((dataset1, dataset2))
    assert [(a.shape, b.shape, c.shape) for a, (b, c) in dataset3] == [((10,), (), (100,))] * 4
    dataset4 = tf.data.Dataset.from_tensors(
        tf.SparseTensor(indices=[[0, 0], [1, 2]], values=[1, 2], dense_shape=[3, 4])
    )
    assert dataset4.element_spec.value_type is tf.SparseTensor


def test_python_generators():
    """guide/data, section "Consuming Python generators"."""

    def gen_series():
        for i in range(25):
            yield i, np.ones((i % 10,))

    ds_series = tf.data.Dataset.from_generator(
        gen_series, output_types=(tf.int32, tf.float32), output_shapes=((), (None,))
    )
    batches = ds_series.padded_batch(10, padded_shapes=([], [None]))
    ids, sequences = next(iter(batches))
    assert ids.numpy().tolist() == list(range(10))
    assert sequences.shape == (10, 9) and sequences.numpy().sum() == 45


def test_csv_data(tmp_path):
    """guide/data, section "Consuming CSV data"."""
    path = tmp_path / "missing.csv"
    path.write_text("1,2,3,4\n,2,3,4\n1,,3,4\n")
    dataset = tf.data.experimental.CsvDataset(str(path), [999, 999], select_cols=[1, 3])
    dataset = dataset.map(lambda *items: tf.stack(items))
    assert [line.numpy().tolist() for line in dataset] == [[2, 4], [2, 4], [999, 4]]


def test_sets_of_files(tmp_path):
    """guide/data, section "Consuming sets of files"."""
    for kind in ("daisy", "roses"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "a.txt").write_text(kind)

    def process_path(file_path):
        parts = tf.strings.split(file_path, "/")
        return tf.io.read_file(file_path), parts[-2]

    labeled_ds = tf.data.Dataset.list_files(str(tmp_path / "*/*")).map(process_path)
    pairs = sorted((raw.numpy(), label.numpy()) for raw, label in labeled_ds)
    assert pairs == [(b"daisy", b"daisy"), (b"roses", b"roses")]


def test_batching_with_padding():
    """guide/data, section "Batching tensors with padding"."""
    dataset = tf.data.Dataset.range(100)
    dataset = dataset.map(lambda x: tf.fill([tf.cast(x, tf.int32)], x))
    dataset = dataset.padded_batch(4, padded_shapes=(None,))
    _, second = dataset.take(2)
    assert second.numpy()[0].tolist() == [4, 4, 4, 4, 0, 0, 0]


def test_shuffling_with_a_counter(tmp_path):
    """guide/data, section "Randomly shuffling input data"."""
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{i}\n" for i in range(50)))
    lines = tf.data.TextLineDataset(str(path))
    counter = tf.data.experimental.Counter()
    dataset = tf.data.Dataset.zip((counter, lines)).shuffle(buffer_size=20).batch(10).repeat(2)
    seen = np.concatenate([n.numpy() for n, _ in dataset])
    assert sorted(seen[:50]) == sorted(seen[50:]) == list(range(50))


def test_arbitrary_python():
    """guide/data, section "Applying arbitrary Python logic"."""

    def rotated(image, label):
        shape = image.shape
        [image] = tf.py_function(lambda x: np.rot90(x.numpy()), [image], [tf.float32])
        image.set_shape(shape)
        return image, label

    images = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    dataset = tf.data.Dataset.from_tensor_slices((images, [0, 1])).map(rotated)
    assert dataset.element_spec[0].shape == (2, 2)
    for (image, _), original in zip(dataset, images, strict=True):
        np.testing.assert_array_equal(image.numpy(), np.rot90(original))


@pytest.mark.parametrize("parallel", [False, True])
def test_input_pipeline(tmp_path, parallel):
    """guide/data_performance, sections "Structure of an input pipeline" and those after it."""
    for part in range(2):
        with tf.io.TFRecordWriter(str(tmp_path / f"train-{part}.tfrecord")) as writer:
            for i in range(4):
                value = tf.train.Int64List(value=[4 * part + i])
                feature = {"label": tf.train.Feature(int64_list=value)}
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())

    def parse_fn(example):
        example_fmt = {
            "image": tf.io.FixedLenFeature((), tf.string, ""),
            "label": tf.io.FixedLenFeature((), tf.int64, -1),
        }
        parsed = tf.io.parse_single_example(example, example_fmt)
        return parsed["image"], parsed["label"]

    files = tf.data.Dataset.list_files(str(tmp_path / "train-*.tfrecord"))
    autotune = tf.data.experimental.AUTOTUNE
    if parallel:
        dataset = files.interleave(
            tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=autotune
        )
        dataset = dataset.shuffle(buffer_size=8).map(map_func=parse_fn, num_parallel_calls=autotune)
        dataset = dataset.batch(batch_size=4).prefetch(buffer_size=autotune)
    else:
        dataset = tf.data.TFRecordDataset(files).shuffle(buffer_size=8)
        dataset = dataset.map(map_func=parse_fn).batch(batch_size=4)
    images, labels = zip(*dataset, strict=True)
    assert [image.numpy().tolist() for image in images] == [[b""] * 4] * 2
    assert sorted(np.concatenate(labels)) == list(range(8))
