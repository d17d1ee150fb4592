"""Today's guide "tf.data: Build TensorFlow input pipelines" in TensorFlow's spelling, by sections.

A test has the fragments of a section, on files made here. Where TensorFlow 2.0's guide spells one
otherwise, that spelling is a parameter, or in `test_data_2_0.py`. `tests/guides/consuming_data.py`
has the guide by drumline's own names, and `test_data_performance.py` that on performance.
"""

import os
import pathlib

import numpy as np
import pytest

import drumline.compat.tf as tf

GUIDE = "guide/data.ipynb"

COLUMNS = "survived,sex,age,n_siblings_spouses,parch,fare,class,deck,embark_town,alone"


@pytest.fixture
def titanic_file(tmp_path):
    """Forty passengers; every third one survived."""
    rows = [
        f"{i % 3 == 0:d},{'female' if i % 2 else 'male'},{20.0 + i},1,0,{7.25 + i},"
        f"{'First' if i % 4 == 0 else 'Third'},unknown,Southampton,{'y' if i % 2 else 'n'}"
        for i in range(40)
    ]
    path = tmp_path / "train.csv"
    path.write_text("\n".join([COLUMNS, *rows]) + "\n")
    return str(path)


@pytest.fixture
def flowers_root(tmp_path):
    """Two kinds of flowers, a picture of each."""
    for kind in ("daisy", "roses"):
        (tmp_path / "flowers" / kind).mkdir(parents=True)
        image = tf.constant(np.full((40, 60, 3), 200, np.uint8))
        content = tf.io.encode_jpeg(image)
        (tmp_path / "flowers" / kind / "a.jpg").write_bytes(content.numpy())
    return pathlib.Path(tmp_path / "flowers")


def test_basic_mechanics():
    """guide/data, section "Basic mechanics"."""
    dataset = tf.data.Dataset.from_tensor_slices([8, 3, 0, 8, 2, 1])
    assert [elem.numpy() for elem in dataset] == [8, 3, 0, 8, 2, 1]
    it = iter(dataset)
    assert next(it).numpy() == 8
    assert dataset.reduce(0, lambda state, value: state + value).numpy() == 22


def test_dataset_structure():
    """guide/data, section "Dataset structure"."""
    dataset1 = tf.data.Dataset.from_tensor_slices(
        tf.random.uniform([4, 10], minval=1, maxval=10, dtype=tf.int32)
    )
    assert dataset1.element_spec == tf.TensorSpec((10,), tf.int32)
    for z in dataset1:
        assert z.numpy().min() >= 1 and z.numpy().max() < 10
    dataset2 = tf.data.Dataset.from_tensor_slices(
        (tf.random.uniform([4]), tf.random.uniform([4, 100], maxval=100, dtype=tf.int32))
    )
    assert dataset2.element_spec[1] == tf.TensorSpec((100,), tf.int32)
    dataset3 = tf.data.Dataset.zip((dataset1, dataset2))
    assert dataset3.element_spec == (dataset1.element_spec, dataset2.element_spec)
    for a, (b, c) in dataset3:
        assert f"shapes: {a.shape}, {b.shape}, {c.shape}" == ("shapes: (10,), (), (100,)")


def test_numpy_arrays():
    """guide/data, section "Consuming NumPy arrays"."""
    images, labels = np.full((6, 28, 28), 51, np.uint8), np.arange(6)
    images = images / 255
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    image, label = next(iter(dataset))
    assert image.dtype == tf.float64 and image.shape == (28, 28) and label.numpy() == 0


def test_python_generators():
    """guide/data, section "Consuming Python generators"."""

    def count(stop):
        i = 0
        while i < stop:
            yield i
            i += 1

    ds_counter = tf.data.Dataset.from_generator(
        count, args=[25], output_types=tf.int32, output_shapes=()
    )
    batches = [batch.numpy().tolist() for batch in ds_counter.repeat().batch(10).take(10)]
    assert batches[2] == [20, 21, 22, 23, 24, 0, 1, 2, 3, 4] and len(batches) == 10

    def gen_series():
        i = 0
        while True:
            yield i, np.ones((i % 10,))
            i += 1

    ds_series = tf.data.Dataset.from_generator(
        gen_series, output_types=(tf.int32, tf.float32), output_shapes=((), (None,))
    )
    ids, sequence_batch = next(iter(ds_series.shuffle(20).padded_batch(10)))
    lengths = sequence_batch.numpy().sum(1)
    np.testing.assert_array_equal(lengths, ids.numpy() % 10)

    ds = tf.data.Dataset.from_generator(
        lambda: iter([(np.zeros((32, 256, 256, 3)), np.zeros((32, 5)))]),
        output_types=(tf.float32, tf.float32),
        output_shapes=([32, 256, 256, 3], [32, 5]),
    )
    for images, labels in ds.take(1):
        assert (images.shape, labels.shape) == ((32, 256, 256, 3), (32, 5))


def test_tfrecord_data(tmp_path):
    """guide/data, sections "Consuming TFRecord data" and "Parsing `tf.Example` ..."."""
    fsns_test_file = str(tmp_path / "fsns.tfrec")
    picture = tf.io.encode_png(tf.constant(np.zeros((4, 6, 3), np.uint8))).numpy()
    with tf.io.TFRecordWriter(fsns_test_file) as writer:
        for text in (b"Rue", b"Avenue"):
            feature = {
                name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
                for name, value in (("image/encoded", picture), ("image/text", text))
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    dataset = tf.data.TFRecordDataset(filenames=[fsns_test_file])
    raw_example = next(iter(dataset))
    parsed = tf.train.Example.FromString(raw_example.numpy())
    feature = parsed.features.feature
    assert feature["image/text"].bytes_list.value[0] == b"Rue"
    raw_img = feature["image/encoded"].bytes_list.value[0]
    assert tf.image.decode_png(raw_img).shape == (4, 6, 3)

    def tf_parse(eg):
        example = tf.io.parse_example(
            eg[tf.newaxis],
            {
                "image/encoded": tf.io.FixedLenFeature(shape=(), dtype=tf.string),
                "image/text": tf.io.FixedLenFeature(shape=(), dtype=tf.string),
            },
        )
        return example["image/encoded"][0], example["image/text"][0]

    img, txt = tf_parse(raw_example)
    assert txt.numpy() == b"Rue" and img.numpy() == picture
    decoded = dataset.map(tf_parse)
    image_batch, text_batch = next(iter(decoded.batch(10)))
    assert image_batch.shape == (2,) and text_batch.numpy().tolist() == [b"Rue", b"Avenue"]


def test_text_data(tmp_path, titanic_file):
    """guide/data, section "Consuming text data"."""
    file_paths = []
    for poet in ("cowper", "derby", "butler"):
        path = tmp_path / f"{poet}.txt"
        path.write_text("".join(f"{poet} {i}\n" for i in range(4)))
        file_paths.append(str(path))
    dataset = tf.data.TextLineDataset(file_paths)
    lines = [line.numpy() for line in dataset.take(5)]
    assert lines == [b"cowper 0", b"cowper 1", b"cowper 2", b"cowper 3", b"derby 0"]
    files_ds = tf.data.Dataset.from_tensor_slices(file_paths)
    lines_ds = files_ds.interleave(tf.data.TextLineDataset, cycle_length=3)
    lines = [line.numpy() for line in lines_ds.take(4)]
    assert lines == [b"cowper 0", b"derby 0", b"butler 0", b"cowper 1"]

    titanic_lines = tf.data.TextLineDataset(titanic_file)

    def survived(line):
        return tf.not_equal(tf.strings.substr(line, 0, 1), "0")

    survivors = titanic_lines.skip(1).filter(survived)
    assert [line.numpy()[:1] for line in survivors] == [b"1"] * 14


def test_csv_data(tmp_path, titanic_file):
    """guide/data, section "Consuming CSV data"."""
    columns = {"age": np.arange(3.0), "sex": np.array(["male", "female", "male"])}
    titanic_slices = tf.data.Dataset.from_tensor_slices(columns)
    for feature_batch in titanic_slices.take(1):
        assert {key: value.numpy() for key, value in feature_batch.items()} == {
            "age": 0.0,
            "sex": b"male",
        }
    titanic_batches = tf.data.experimental.make_csv_dataset(
        titanic_file, batch_size=4, label_name="survived"
    )
    for feature_batch, label_batch in titanic_batches.take(1):
        assert label_batch.shape == (4,) and list(feature_batch) == COLUMNS.split(",")[1:]
    titanic_batches = tf.data.experimental.make_csv_dataset(
        titanic_file,
        batch_size=4,
        label_name="survived",
        select_columns=["class", "fare", "survived"],
    )
    for feature_batch, _ in titanic_batches.take(1):
        assert sorted(feature_batch) == ["class", "fare"]
    titanic_types = [tf.int32, tf.string, tf.float32, tf.int32, tf.int32, tf.float32]
    titanic_types += [tf.string, tf.string, tf.string, tf.string]
    dataset = tf.data.experimental.CsvDataset(titanic_file, titanic_types, header=True)
    for line in dataset.take(1):
        assert [item.numpy() for item in line][:6] == [1, b"male", 20.0, 1, 0, 7.25]

    path = tmp_path / "missing.csv"
    path.write_text("1,2,3,4\n,2,3,4\n1,,3,4\n1,2,,4\n1,2,3,\n,,,\n")
    dataset = tf.data.experimental.CsvDataset(str(path), [999, 999, 999, 999])
    dataset = dataset.map(lambda *items: tf.stack(items))
    assert [line.numpy().tolist() for line in dataset][1::2] == [
        [999, 2, 3, 4],
        [1, 2, 999, 4],
        [999, 999, 999, 999],
    ]
    dataset = tf.data.experimental.CsvDataset(str(path), [999, 999], select_cols=[1, 3])
    dataset = dataset.map(lambda *items: tf.stack(items))
    assert [line.numpy().tolist() for line in dataset][:3] == [[2, 4], [2, 4], [999, 4]]


def test_sets_of_files_and_images(flowers_root):
    """guide/data, sections "Consuming sets of files" and "Decoding image data and resizing it"."""
    list_ds = tf.data.Dataset.list_files(str(flowers_root / "*/*"))
    assert sorted(f.numpy().decode() for f in list_ds) == sorted(
        str(path) for path in flowers_root.glob("*/*")
    )

    def process_path(file_path):
        label = tf.strings.split(file_path, os.sep)[-2]
        return tf.io.read_file(file_path), label

    labeled_ds = list_ds.map(process_path)
    assert {label_text.numpy() for _, label_text in labeled_ds} == {b"daisy", b"roses"}

    def parse_image(filename):
        parts = tf.strings.split(filename, os.sep)
        label = parts[-2]
        image = tf.io.read_file(filename)
        image = tf.io.decode_jpeg(image)
        image = tf.image.convert_image_dtype(image, tf.float32)
        image = tf.image.resize(image, [128, 128])
        return image, label

    image, label = parse_image(next(iter(list_ds)))
    assert image.shape == (128, 128, 3) and label.numpy() in (b"daisy", b"roses")
    images_ds = list_ds.map(parse_image)
    for image, _ in images_ds.take(2):
        np.testing.assert_allclose(image.numpy(), 200 / 255, atol=0.01)

    # Section "Applying arbitrary Python logic".
    @tf.py_function(Tout=tf.float32)
    def rotate_image(image):
        return np.rot90(image)

    def tf_rotate_image(image, label):
        im_shape = image.shape
        image = rotate_image(image)
        image.set_shape(im_shape)
        return image, label

    for image, _ in images_ds.map(tf_rotate_image).take(2):
        np.testing.assert_allclose(image.numpy(), 200 / 255, atol=0.01)


def test_batching():
    """guide/data, sections "Simple batching" and "Batching tensors with padding"."""
    inc_dataset = tf.data.Dataset.range(100)
    dec_dataset = tf.data.Dataset.range(0, -100, -1)
    dataset = tf.data.Dataset.zip((inc_dataset, dec_dataset))
    for batch in dataset.batch(4).take(1):
        assert [arr.numpy().tolist() for arr in batch] == [[0, 1, 2, 3], [0, -1, -2, -3]]
    assert dataset.batch(4).element_spec[0].shape == (None,)
    assert dataset.batch(7, drop_remainder=True).element_spec[0].shape == (7,)
    dataset = tf.data.Dataset.range(100)
    dataset = dataset.map(lambda x: tf.fill([tf.cast(x, tf.int32)], x))
    dataset = dataset.padded_batch(4, padded_shapes=(None,))
    assert [batch.shape for batch in dataset.take(2)] == [(4, 3), (4, 7)]


def test_epochs_and_shuffling(titanic_file):
    """guide/data, sections "Processing multiple epochs" and "Randomly shuffling input data"."""
    titanic_lines = tf.data.TextLineDataset(titanic_file)
    sizes = [batch.shape[0] for batch in titanic_lines.repeat(3).batch(32)]
    assert sizes == [32, 32, 32, 27]
    assert [batch.shape[0] for batch in titanic_lines.batch(32).repeat(3)] == [32, 9] * 3
    counter = tf.data.experimental.Counter()
    dataset = tf.data.Dataset.zip((counter, titanic_lines))
    n, _ = next(iter(dataset.shuffle(buffer_size=10).batch(20)))
    assert n.numpy().max() < 30
    shuffled = dataset.shuffle(buffer_size=10).batch(10).repeat(2)
    epochs = np.concatenate([n.numpy() for n, _ in shuffled])
    assert sorted(epochs[:41]) == sorted(epochs[41:]) == list(range(41))
    shuffled = dataset.repeat(2).shuffle(buffer_size=50).batch(10)
    mixed = np.concatenate([n.numpy() for n, _ in shuffled])
    assert sorted(mixed[:41]) != list(range(41)) and len(mixed) == 82


def test_time_series_windowing():
    """guide/data, section "Time series windowing"."""
    range_ds = tf.data.Dataset.range(100000)
    batches = range_ds.batch(10, drop_remainder=True)

    def dense_1_step(batch):
        return batch[:-1], batch[1:]

    features, label = next(iter(batches.map(dense_1_step)))
    assert (features.numpy() + 1 == label.numpy()).all()

    def label_next_5_steps(batch):
        return batch[:-5], batch[-5:]

    batches = range_ds.batch(15, drop_remainder=True)
    features, label = next(iter(batches.map(label_next_5_steps)))
    assert features.numpy().tolist() == list(range(10))
    assert label.numpy().tolist() == list(range(10, 15))

    feature_length, label_length = 10, 3
    features = range_ds.batch(feature_length, drop_remainder=True)
    for first in (lambda labels: labels[:label_length], lambda labels: labels[:-5]):  # 2.0: -5
        labels = range_ds.batch(feature_length).skip(1).map(first)
        predicted_steps = tf.data.Dataset.zip((features, labels))
        for feature, label in predicted_steps.take(3):
            assert feature.numpy()[-1] + 1 == label.numpy()[0]

    window_size = 5
    windows = range_ds.window(window_size, shift=1)
    assert all(isinstance(sub_ds, tf.data.Dataset) for sub_ds in windows.take(2))
    flat = [x.numpy() for x in windows.flat_map(lambda x: x).take(7)]
    assert flat == [0, 1, 2, 3, 4, 1, 2]

    def make_window_dataset(ds, window_size=5, shift=1, stride=1):
        windows = ds.window(window_size, shift=shift, stride=stride)

        def sub_to_batch(sub):
            return sub.batch(window_size, drop_remainder=True)

        return windows.flat_map(sub_to_batch)

    ds = make_window_dataset(range_ds, window_size=10, shift=5, stride=3)
    examples = [example.numpy().tolist() for example in ds.take(2)]
    assert examples == [list(range(0, 30, 3)), list(range(5, 35, 3))]
    inputs, labels = next(iter(ds.map(dense_1_step)))
    assert (inputs.numpy() + 3 == labels.numpy()).all()


@pytest.mark.parametrize("release", ["2.0", "today"])
def test_resampling(tmp_path, release):
    """guide/data, section "Resampling": datasets, and rejection."""
    path = tmp_path / "creditcard.csv"
    rows = "".join(f"{i}.0,{i % 10 == 0:d}\n" for i in range(400))
    path.write_text("Amount,Class\n" + rows)
    creditcard_ds = tf.data.experimental.make_csv_dataset(
        str(path), batch_size=100, label_name="Class", column_defaults=[0.0, 0]
    )

    def count(counts, batch):
        _, labels = batch
        class_1 = labels == 1
        class_1 = tf.cast(class_1, tf.int32)
        class_0 = labels == 0
        class_0 = tf.cast(class_0, tf.int32)
        counts["class_0"] += tf.reduce_sum(class_0)
        counts["class_1"] += tf.reduce_sum(class_1)
        return counts

    counts = creditcard_ds.take(4).reduce(
        initial_state={"class_0": 0, "class_1": 0}, reduce_func=count
    )
    counts = np.array([counts["class_0"].numpy(), counts["class_1"].numpy()]).astype(np.float32)
    fractions = counts / counts.sum()
    np.testing.assert_allclose(fractions, [0.9, 0.1])

    negative_ds = creditcard_ds.unbatch().filter(lambda features, label: label == 0).repeat()
    positive_ds = creditcard_ds.unbatch().filter(lambda features, label: label == 1).repeat()
    for _, label in positive_ds.batch(10).take(1):
        assert label.numpy().tolist() == [1] * 10
    where = tf.data.experimental if release == "2.0" else tf.data.Dataset
    balanced_ds = where.sample_from_datasets([negative_ds, positive_ds], [0.5, 0.5]).batch(10)
    drawn = np.concatenate([labels.numpy() for _, labels in balanced_ds.take(20)])
    assert 60 < drawn.sum() < 140

    def class_func(features, label):
        return label

    if release == "2.0":
        resampler = tf.data.experimental.rejection_resample(
            class_func, target_dist=[0.5, 0.5], initial_dist=fractions
        )
        resample_ds = creditcard_ds.unbatch().apply(resampler).batch(10)
    else:
        resample_ds = (
            creditcard_ds.unbatch()
            .rejection_resample(class_func, target_dist=[0.5, 0.5], initial_dist=fractions)
            .batch(10)
        )
    balanced_ds = resample_ds.map(lambda extra_label, features_and_label: features_and_label)
    drawn = np.concatenate([labels.numpy() for _, labels in balanced_ds.take(20)])
    assert 60 < drawn.sum() < 140


def test_iterator_checkpointing(tmp_path):
    """guide/data, section "Iterator Checkpointing"."""
    range_ds = tf.data.Dataset.range(20)
    iterator = iter(range_ds)
    ckpt = tf.train.Checkpoint(step=tf.Variable(0), iterator=iterator)
    manager = tf.train.CheckpointManager(ckpt, str(tmp_path / "my_ckpt"), max_to_keep=3)
    assert [next(iterator).numpy() for _ in range(5)] == [0, 1, 2, 3, 4]
    manager.save()
    assert [next(iterator).numpy() for _ in range(5)] == [5, 6, 7, 8, 9]
    ckpt.restore(manager.latest_checkpoint)
    assert [next(iterator).numpy() for _ in range(5)] == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("release", ["2.0", "today"])
def test_datasets_with_keras(release):
    """guide/data, section "Using `tf.data` with `tf.keras`"; in 2.0 with a softmax."""
    images, labels = np.zeros((96, 28, 28), np.uint8), np.arange(96) % 10
    images[np.arange(96), 2 * labels] = 255
    images = images / 255.0
    labels = labels.astype(np.int32)
    fmnist_train_ds = tf.data.Dataset.from_tensor_slices((images, labels))
    fmnist_train_ds = fmnist_train_ds.shuffle(5000).batch(32)
    softmax = {"activation": "softmax"} if release == "2.0" else {}
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10, **softmax)])
    model.compile(
        optimizer="adam",
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=not softmax),
        metrics=["accuracy"],
    )
    model.fit(fmnist_train_ds, epochs=2, verbose=0)
    fit = model.fit(fmnist_train_ds.repeat(), epochs=2, steps_per_epoch=20, verbose=0)
    loss, accuracy = model.evaluate(fmnist_train_ds, verbose=0)
    assert loss < fit.history["loss"][0] and accuracy > 0.9
    loss, accuracy = model.evaluate(fmnist_train_ds.repeat(), steps=10, verbose=0)
    assert accuracy > 0.9
    predict_ds = tf.data.Dataset.from_tensor_slices(images).batch(32)
    assert model.predict(predict_ds, steps=3, verbose=0).shape == (96, 10)
    assert model.predict(fmnist_train_ds, steps=3, verbose=0).shape == (96, 10)


@pytest.mark.skipif(
    not hasattr(tf.estimator, "LinearClassifier"), reason=f"{GUIDE}, 2.0: needs premade Estimators"
)
def test_datasets_with_estimators(titanic_file, tmp_path):
    """guide/data of 2.0, section "tf.estimator"."""

    def train_input_fn():
        titanic = tf.data.experimental.make_csv_dataset(
            titanic_file, batch_size=32, label_name="survived"
        )
        return titanic.cache().repeat().shuffle(500).prefetch(tf.data.experimental.AUTOTUNE)

    embark = tf.feature_column.categorical_column_with_hash_bucket("embark_town", 32)
    cls = tf.feature_column.categorical_column_with_vocabulary_list(
        "class", ["First", "Second", "Third"]
    )
    age = tf.feature_column.numeric_column("age")
    model = tf.estimator.LinearClassifier(
        model_dir=str(tmp_path / "model"), feature_columns=[embark, cls, age], n_classes=2
    )
    model = model.train(input_fn=train_input_fn, steps=100)
    result = model.evaluate(train_input_fn, steps=10)
    assert result["global_step"] == 100
    for pred in model.predict(train_input_fn):
        assert 0 <= pred["probabilities"][0] <= 1
        break
