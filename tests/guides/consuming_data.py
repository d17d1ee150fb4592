"""TensorFlow's guide "tf.data: Build TensorFlow input pipelines", line by line.

What differs: files made here instead of downloads; ``print`` for what the guide draws; and names of
operations on arrays.
"""

import itertools
import os
import pathlib
import sys

import numpy as np

import drumline as dl

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

section("Parsing Example messages")
feature_description = {"image/text": dl.io.FixedLenFeature([], "string")}


def tf_parse(eg):
    return dl.io.parse_single_example(eg, feature_description)["image/text"]


decoded = dl.data.TFRecordDataset([str(WORK / "fsns.tfrec")]).map(tf_parse)
print(list(decoded))

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
window_size = 5
windows = range_ds.window(window_size, shift=1)


def sub_to_batch(sub):
    return sub.batch(window_size, drop_remainder=True)


for example in windows.flat_map(sub_to_batch).take(3):
    print(example)

section("Resampling")
zeros = dl.data.Dataset.from_tensors(0).repeat()
creditcard_ds = dl.data.Dataset.range(20_000).map(lambda i: (i, (i % 50 == 0).astype("int32")))


def class_func(features, label):
    return label


resample_ds = creditcard_ds.rejection_resample(
    class_func, target_dist=[0.5, 0.5], initial_dist=[0.98, 0.02], seed=1
)
balanced_ds = resample_ds.map(lambda extra_label, features_and_label: features_and_label)
labels = [int(label) for _, label in balanced_ds.take(400)]
print("fraction", np.mean(labels))
balanced = dl.data.Dataset.sample_from_datasets(
    [zeros, zeros.map(lambda v: v + 1)], [0.5, 0.5], seed=1
)
print("sampled", float(np.mean(list(itertools.islice(balanced, 1000)))))
