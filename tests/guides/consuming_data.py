"""TensorFlow's guide "tf.data: Build TensorFlow input pipelines", line by line.

What differs: files made here instead of downloads; ``print`` for what the guide draws; and names of
operations on arrays.
"""

# ruff: noqa: B007, RUF059

import os
import pathlib
import sys

import drumline as dl  # isort: skip  (it selects Keras's JAX backend)
import jax.numpy as jnp
import numpy as np
import scipy.ndimage as ndimage

WORK = pathlib.Path(sys.argv[1])


def section(name):
    print(f"== {name}")


def make_files():
    """What the guide downloads."""
    poets = {"cowper": "Achilles sing", "derby": "Of Peleus' son", "butler": "Sing"}
    for poet, lines in poets.items():
        text = "".join(f"{lines}, {poet} {i}\n" for i in range(6))
        (WORK / f"{poet}.txt").write_text(text)
    heading = "survived,sex,age,n_siblings_spouses,parch,fare,class,deck,embark_town,alone\n"
    rows = [
        f"{i % 3 == 0:d},{'female' if i % 2 else 'male'},{20.0 + i},1,0,{7.25 + i},"
        f"{'First' if i % 4 == 0 else 'Third'},unknown,Southampton,{'y' if i % 2 else 'n'}\n"
        for i in range(40)
    ]
    (WORK / "titanic.csv").write_text(heading + "".join(rows))
    with dl.io.TFRecordWriter(str(WORK / "fsns.tfrec")) as writer:
        for i in range(3):
            feature = {
                "image/encoded": dl.train.Feature(
                    bytes_list=dl.train.BytesList(value=[b"\x89PNG"])
                ),
                "image/text": dl.train.Feature(
                    bytes_list=dl.train.BytesList(value=[f"Rue Perreyon {i}".encode()])
                ),
            }
            example = dl.train.Example(features=dl.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    for kind, level in {"daisy": 40, "roses": 200}.items():
        (WORK / "flowers" / kind).mkdir(parents=True)
        for i in range(3):
            image = np.full((30 + i, 40, 3), level, np.uint8)
            (WORK / "flowers" / kind / f"{i}.jpg").write_bytes(dl.image.encode_jpeg(image))


make_files()

section("Basic mechanics")
dataset = dl.data.Dataset.from_tensor_slices([8, 3, 0, 8, 2, 1])
for elem in dataset:
    print(elem)
it = iter(dataset)
print("next", next(it))
print("reduced", dataset.reduce(0, lambda state, value: state + value))

section("Dataset structure")
dataset1 = dl.data.Dataset.from_tensor_slices(dl.random.uniform([4, 10]))
print(dataset1.element_spec)
dataset2 = dl.data.Dataset.from_tensor_slices(
    (dl.random.uniform([4]), dl.random.uniform([4, 100], maxval=100, dtype=np.int32))
)
print(dataset2.element_spec)
dataset3 = dl.data.Dataset.zip((dataset1, dataset2))
print(dataset3.element_spec)
for a, (b, c) in dataset3:
    print(f"shapes: {a.shape}, {b.shape}, {c.shape}")

section("Consuming Python generators")


def count(stop):
    i = 0
    while i < stop:
        yield i
        i += 1


ds_counter = dl.data.Dataset.from_generator(
    count, args=[25], output_types=np.int32, output_shapes=()
)
for count_batch in ds_counter.repeat().batch(10).take(10):
    print(count_batch)


def gen_series():
    generator = np.random.default_rng(0)
    i = 0
    while True:
        size = generator.integers(0, 10)
        yield i, generator.normal(size=(size,))
        i += 1


ds_series = dl.data.Dataset.from_generator(
    gen_series, output_types=(np.int32, np.float32), output_shapes=((), (None,))
)
ids, sequence_batch = next(iter(ds_series.shuffle(20).padded_batch(10)))
print("padded", ids.shape, sequence_batch.shape[0], sequence_batch.dtype)

# Two batches of pictures of any generator, such as Keras's image generators.
ds = dl.data.Dataset.from_generator(
    lambda: ((np.zeros((4, 8, 8, 3)), np.eye(5)[:4]) for _ in range(2)),
    output_types=(np.float32, np.float32),
    output_shapes=([4, 8, 8, 3], [4, 5]),
)
print("pictures", ds.element_spec[0])

section("Consuming TFRecord data")
dataset = dl.data.TFRecordDataset(filenames=[str(WORK / "fsns.tfrec")])
raw_example = next(iter(dataset))
parsed = dl.train.Example.FromString(raw_example)
print(parsed.features.feature["image/text"].bytes_list.value)

section("Consuming text data")
file_paths = [str(WORK / f"{name}.txt") for name in ("cowper", "derby", "butler")]
dataset = dl.data.TextLineDataset(file_paths)
for line in dataset.take(5):
    print(line)
files_ds = dl.data.Dataset.from_tensor_slices(file_paths)
lines_ds = files_ds.interleave(dl.data.TextLineDataset, cycle_length=3)
for i, line in enumerate(lines_ds.take(9)):
    if i % 3 == 0:
        print()
    print(line)
titanic_file = str(WORK / "titanic.csv")
titanic_lines = dl.data.TextLineDataset(titanic_file)


def survived(line):
    return dl.strings.not_equal(dl.strings.substr(line, 0, 1), "0")


survivors = titanic_lines.skip(1).filter(survived)
for line in survivors.take(10):
    print("survivor", line)

section("Consuming CSV data")
titanic_batches = dl.data.experimental.make_csv_dataset(
    titanic_file, batch_size=4, label_name="survived"
)
for feature_batch, label_batch in titanic_batches.take(1):
    print("'survived':", label_batch.shape)
    for key, value in feature_batch.items():
        print(f"{key!r}: {value.dtype}")
titanic_batches = dl.data.experimental.make_csv_dataset(
    titanic_file,
    batch_size=4,
    label_name="survived",
    select_columns=["class", "fare", "survived"],
)
for feature_batch, _ in titanic_batches.take(1):
    print("chosen", sorted(feature_batch))
titanic_types = [
    *[np.int32, str, np.float32, np.int32, np.int32],
    *[np.float32, str, str, str, str],
]
dataset = dl.data.experimental.CsvDataset(titanic_file, titanic_types, header=True)
for line in dataset.take(2):
    print(list(line))

(WORK / "missing.csv").write_text("1,2,3,4\n,2,3,4\n1,,3,4\n1,2,,4\n1,2,3,\n,,,")
record_defaults = [999, 999, 999, 999]
dataset = dl.data.experimental.CsvDataset(str(WORK / "missing.csv"), record_defaults)
dataset = dataset.map(lambda *items: jnp.stack(items))
for line in dataset:
    print("missing", line)
record_defaults = [999, 999]  # Only provide defaults for the selected columns
dataset = dl.data.experimental.CsvDataset(
    str(WORK / "missing.csv"), record_defaults, select_cols=[1, 3]
)
dataset = dataset.map(lambda *items: jnp.stack(items))
for line in dataset:
    print("columns", line)

section("Consuming sets of files")
list_ds = dl.data.Dataset.list_files(str(WORK / "flowers" / "*" / "*"), shuffle=False)
for f in list_ds.take(2):
    print(f.decode().removeprefix(str(WORK)))


def process_path(file_path):
    label = dl.strings.split(file_path, os.sep)[-2]
    return dl.io.read_file(file_path), label


labeled_ds = list_ds.map(process_path)
for image_raw, label_text in labeled_ds.take(1):
    print(image_raw[:3], label_text)


def parse_image(filename):
    parts = dl.strings.split(filename, os.sep)
    label = parts[-2]
    image = dl.io.read_file(filename)
    image = dl.image.decode_jpeg(image)
    image = dl.image.convert_image_dtype(image, np.float32)
    image = dl.image.resize(image, [128, 128])
    return image, label


images_ds = list_ds.map(parse_image)
for image, label in images_ds.take(2):
    print("image", image.shape, image.dtype, label)

section("Batching dataset elements")
inc_dataset = dl.data.Dataset.range(100)
dec_dataset = dl.data.Dataset.range(0, -100, -1)
dataset = dl.data.Dataset.zip((inc_dataset, dec_dataset))
batched_dataset = dataset.batch(4)
for batch in batched_dataset.take(2):
    print(list(batch))
print(batched_dataset)
print(dataset.batch(7, drop_remainder=True))
dataset = dl.data.Dataset.range(100)
dataset = dataset.map(lambda x: np.full([x], x, np.int64))
dataset = dataset.padded_batch(4, padded_shapes=(None,))
for batch in dataset.take(2):
    print(batch.tolist())

section("Training workflows")
titanic_lines = dl.data.TextLineDataset(titanic_file)
print([batch.shape[0] for batch in titanic_lines.repeat(3).batch(32)])
print([batch.shape[0] for batch in titanic_lines.batch(32).repeat(3)])
for epoch in range(2):
    for batch in titanic_lines.batch(32):
        print(batch.shape)
    print("End of epoch: ", epoch)
counter = dl.data.Dataset.counter()
dataset = dl.data.Dataset.zip((counter, titanic_lines))
dataset = dataset.shuffle(buffer_size=10)
dataset = dataset.batch(20)
n, line_batch = next(iter(dataset))
print("shuffled", n.max() < 30)
dataset = dl.data.Dataset.zip((counter, titanic_lines))
shuffled = dataset.shuffle(buffer_size=10).batch(10).repeat(2)
shuffle_repeat = [n.mean() for n, line_batch in shuffled]
shuffled = dataset.repeat(2).shuffle(buffer_size=10).batch(10)
repeat_shuffle = [n.mean() for n, line_batch in shuffled]
print(len(shuffle_repeat), len(repeat_shuffle))

section("Applying arbitrary Python logic")


def random_rotate_image(image):
    return ndimage.rotate(image, np.random.uniform(-30, 30), reshape=False)


def tf_random_rotate_image(image, label):
    im_shape = image.shape
    image = random_rotate_image(image)  # no tf.py_function
    assert image.shape == im_shape
    return image, label


rot_ds = images_ds.map(tf_random_rotate_image)
for image, label in rot_ds.take(2):
    print(image.shape, image.dtype, label)

section("Parsing Example messages")


def tf_parse(eg):
    example = dl.io.parse_example(
        eg[np.newaxis],
        {
            "image/encoded": dl.io.FixedLenFeature(shape=(), dtype="string"),
            "image/text": dl.io.FixedLenFeature(shape=(), dtype="string"),
        },
    )
    return example["image/encoded"][0], example["image/text"][0]


decoded = dl.data.TFRecordDataset([str(WORK / "fsns.tfrec")]).map(tf_parse)
print(list(decoded))
image_batch, text_batch = next(iter(decoded.batch(10)))
print(image_batch.shape)

section("Time series windowing")
range_ds = dl.data.Dataset.range(100000)
batches = range_ds.batch(10, drop_remainder=True)
for batch in batches.take(2):
    print(batch)


def dense_1_step(batch):
    return batch[:-1], batch[1:]


predict_dense_1_step = batches.map(dense_1_step)
for features, label in predict_dense_1_step.take(2):
    print(features, " => ", label)
batches = range_ds.batch(15, drop_remainder=True)


def label_next_5_steps(batch):
    return (
        batch[:-5],  # Inputs: All except the last 5 steps
        batch[-5:],  # Labels: The last 5 steps
    )


for features, label in batches.map(label_next_5_steps).take(1):
    print(features, " => ", label)
feature_length = 10
label_length = 3
features = range_ds.batch(feature_length, drop_remainder=True)
labels = range_ds.batch(feature_length).skip(1).map(lambda labels: labels[:label_length])
predicted_steps = dl.data.Dataset.zip((features, labels))
for features, label in predicted_steps.take(1):
    print(features, " => ", label)
window_size = 5
windows = range_ds.window(window_size, shift=1)


def sub_to_batch(sub):
    return sub.batch(window_size, drop_remainder=True)


for sub_ds in windows.take(1):
    print("window", list(sub_ds))
print("flat", [int(x) for x in windows.flat_map(lambda x: x).take(8)])


def make_window_dataset(ds, window_size=5, shift=1, stride=1):
    windows = ds.window(window_size, shift=shift, stride=stride)

    def sub_to_batch(sub):
        return sub.batch(window_size, drop_remainder=True)

    return windows.flat_map(sub_to_batch)


ds = make_window_dataset(range_ds, window_size=10, shift=5, stride=3)
for inputs, labels in ds.map(dense_1_step).take(2):
    print(inputs, "=>", labels)
for example in windows.flat_map(sub_to_batch).take(3):
    print(example)

section("Resampling")
rows = "".join(f"{i / 10},{int(i % 50 == 0)}\n" for i in range(2000))
(WORK / "creditcard.csv").write_text("Amount,Class\n" + rows)
creditcard_ds = dl.data.experimental.make_csv_dataset(
    str(WORK / "creditcard.csv"),
    batch_size=1024,
    label_name="Class",
    # Set the column types: floats and an int.
    column_defaults=[0.0] + [0],
    shuffle_seed=1,
)


def count_classes(counts, batch):
    features, labels = batch
    class_1 = labels == 1
    class_1 = class_1.astype(np.int32)

    class_0 = labels == 0
    class_0 = class_0.astype(np.int32)

    counts["class_0"] += jnp.sum(class_0)
    counts["class_1"] += jnp.sum(class_1)

    return counts


counts = creditcard_ds.take(10).reduce(
    initial_state={"class_0": 0, "class_1": 0}, reduce_func=count_classes
)
counts = np.array([counts["class_0"], counts["class_1"]]).astype(np.float32)
fractions = counts / counts.sum()
print(counts.sum(), np.round(fractions, 2))
negative_ds = creditcard_ds.unbatch().filter(lambda features, label: label == 0).repeat()
positive_ds = creditcard_ds.unbatch().filter(lambda features, label: label == 1).repeat()
for features, label in positive_ds.batch(10).take(1):
    print(label)
balanced_ds = dl.data.Dataset.sample_from_datasets(
    [negative_ds, positive_ds], [0.5, 0.5], seed=1
).batch(10)
print("sampled", np.mean([labels for features, labels in balanced_ds.take(40)]))


def class_func(features, label):
    return label


resample_ds = (
    creditcard_ds.unbatch()
    .rejection_resample(class_func, target_dist=[0.5, 0.5], initial_dist=fractions, seed=1)
    .batch(10)
)
balanced_ds = resample_ds.map(lambda extra_label, features_and_label: features_and_label)
print("fraction", np.mean([labels for features, labels in balanced_ds.take(40)]))

section("Iterator Checkpointing")
range_ds = dl.data.Dataset.range(20)
iterator = iter(range_ds)
ckpt = dl.train.Checkpoint(step=dl.Variable(0), iterator=iterator)
manager = dl.train.CheckpointManager(ckpt, str(WORK / "my_ckpt"), max_to_keep=3)
print([int(next(iterator)) for _ in range(5)])
save_path = manager.save()
print([int(next(iterator)) for _ in range(5)])
ckpt.restore(manager.latest_checkpoint)
print([int(next(iterator)) for _ in range(5)])
