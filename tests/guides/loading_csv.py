"""TensorFlow's tutorial "Load CSV data", the part on ``tf.data``.

What differs: files made here instead of downloads, fewer rows, no model.
"""

# ruff: noqa: B007

import csv
import gzip
import itertools
import pathlib
import re

import numpy as np

import drumline as dl


def section(name):
    print(f"== {name}")


def make_files():
    """What the tutorial downloads."""
    heading = "survived,sex,age,n_siblings_spouses,parch,fare,class,deck,embark_town,alone\n"
    rows = [
        f"{i % 3 == 0:d},{'female' if i % 2 else 'male'},{20.0 + i},1,0,{7.25 + i},"
        f"{'First' if i % 4 == 0 else 'Third'},unknown,Southampton,{'y' if i % 2 else 'n'}\n"
        for i in range(40)
    ]
    pathlib.Path("train.csv").write_text(heading + "".join(rows))
    traffic = "".join(
        f"None,{280.5 + i},Clouds,2012-10-02 09:00:00,{5000 + i}\n" for i in range(50)
    )
    with gzip.open("traffic.csv.gz", "wt") as file:
        file.write("holiday,temp,weather_main,date_time,traffic_volume\n" + traffic)
    pathlib.Path("fonts").mkdir()
    pixels = ",".join(f"r{r}c{c}" for r in range(4) for c in range(4))
    for number, font in enumerate(["AGENCY", "ARIAL", "BAITI"]):
        lines = [f"font,fontVariant,m_label,{pixels}\n"]
        for i in range(20):
            values = ",".join(str(10 * number + p) for p in range(16))
            lines.append(f"{font},{font} FB,{65 + i},{values}\n")
        pathlib.Path(f"fonts/{font}.csv").write_text("".join(lines))


make_files()
# The tutorial reads these by pandas.
with open("train.csv") as file:
    columns = list(zip(*csv.reader(file), strict=True))
titanic_features_dict = {name: np.array(value) for name, *value in columns}
for name in ("survived", "age", "n_siblings_spouses", "parch", "fare"):
    titanic_features_dict[name] = titanic_features_dict[name].astype(float)
titanic_labels = titanic_features_dict.pop("survived").astype(int)

section("On in memory data")


def slices(features):
    for i in itertools.count():
        # For each feature take index `i`
        example = {name: values[i] for name, values in features.items()}
        yield example


for example in slices(titanic_features_dict):
    for name, value in example.items():
        print(f"{name:19s}: {value}")
    break
features_ds = dl.data.Dataset.from_tensor_slices(titanic_features_dict)
for example in features_ds:
    for name, value in example.items():
        print(f"{name:19s}: {value}")
    break
titanic_ds = dl.data.Dataset.from_tensor_slices((titanic_features_dict, titanic_labels))
titanic_batches = titanic_ds.shuffle(len(titanic_labels)).batch(32)
print([len(labels) for _, labels in titanic_batches])

section("From a single file")
titanic_file_path = "train.csv"
titanic_csv_ds = dl.data.experimental.make_csv_dataset(
    titanic_file_path,
    batch_size=5,  # Artificially small to make examples easier to show.
    label_name="survived",
    num_epochs=1,
    ignore_errors=True,
)
for batch, label in titanic_csv_ds.take(1):
    for key, value in batch.items():
        print(f"{key:20s}: {value.dtype} {value.shape}")
    print(f"{'label':20s}: {label.dtype} {label.shape}")
traffic_volume_csv_gz_ds = dl.data.experimental.make_csv_dataset(
    "traffic.csv.gz",
    batch_size=16,
    label_name="traffic_volume",
    num_epochs=1,
    compression_type="GZIP",
)
for batch, label in traffic_volume_csv_gz_ds.take(1):
    for key, value in batch.items():
        print(f"{key:20s}: {value[:5].dtype}")
    print(f"{'label':20s}: {label[:5].dtype}")

section("Caching")
caching = traffic_volume_csv_gz_ds.cache().shuffle(1000)
for i, (batch, label) in enumerate(caching.shuffle(1000).repeat(3)):
    if i % 4 == 0:
        print(".", end="")
print()
snapshotting = traffic_volume_csv_gz_ds.snapshot("titanic.tfsnap").shuffle(1000)
for i, (batch, label) in enumerate(snapshotting.shuffle(1000).repeat(3)):
    if i % 4 == 0:
        print(".", end="")
print()

section("Multiple files")
font_csvs = sorted(str(p) for p in pathlib.Path("fonts").glob("*.csv"))
fonts_ds = dl.data.experimental.make_csv_dataset(
    file_pattern="fonts/*.csv",
    batch_size=10,
    num_epochs=1,
    num_parallel_reads=20,
    shuffle_buffer_size=10000,
)
for features in fonts_ds.take(1):
    for i, (name, value) in enumerate(features.items()):
        if i > 4:
            break
        print(f"{name:20s}: {value.dtype}")
print("...")
print(f"[total: {len(features)} features]")


def make_images(features):
    image = [None] * 16
    new_feats = {}

    for name, value in features.items():
        match = re.match(r"r(\d+)c(\d+)", name)
        if match:
            image[int(match.group(1)) * 4 + int(match.group(2))] = value
        else:
            new_feats[name] = value

    image = np.stack(image, axis=0)
    image = np.reshape(image, [4, 4, -1])
    new_feats["image"] = image

    return new_feats


fonts_image_ds = fonts_ds.map(make_images)
for features in fonts_image_ds.take(1):
    break
for n in range(3):
    print(features["image"][..., n].shape, chr(features["m_label"][n]).isalpha())

section("decode_csv")
text = pathlib.Path(titanic_file_path).read_text()
lines = text.split("\n")[1:-1]
all_strings = [""] * 10
features = dl.io.decode_csv(lines, record_defaults=all_strings)
for f in features:
    print(f"type: {f.dtype.name}, shape: {f.shape}")
titanic_types = [0, "", 0.0, 0, 0, 0.0, "", "", "", ""]
features = dl.io.decode_csv(lines, record_defaults=titanic_types)
for f in features:
    print(f"type: {f.dtype.name}, shape: {f.shape}")

section("CsvDataset")
simple_titanic = dl.data.experimental.CsvDataset(
    titanic_file_path, record_defaults=titanic_types, header=True
)
for example in simple_titanic.take(1):
    print(list(example))


def decode_titanic_line(line):
    return dl.io.decode_csv(line, titanic_types)


manual_titanic = (
    # Load the lines of text
    dl.data.TextLineDataset(titanic_file_path)
    # Skip the header row.
    .skip(1)
    # Decode the line.
    .map(decode_titanic_line)
)
for example in manual_titanic.take(1):
    print(list(example))

section("CsvDataset of multiple files")
font_line = pathlib.Path(font_csvs[0]).read_text().splitlines()[1]
num_font_features = font_line.count(",") + 1
font_column_types = ["", ""] + [0.0] * (num_font_features - 2)
simple_font_ds = dl.data.experimental.CsvDataset(
    font_csvs, record_defaults=font_column_types, header=True
)
for row in simple_font_ds.take(3):
    print(row[0])
font_files = dl.data.Dataset.list_files("fonts/*.csv", seed=1)
print("Epoch 1:", sorted(list(font_files)[:5]))
print("Epoch 2:", sorted(list(font_files)[:5]))


def make_font_csv_ds(path):
    return dl.data.experimental.CsvDataset(path, record_defaults=font_column_types, header=True)


font_rows = font_files.interleave(make_font_csv_ds, cycle_length=3)
fonts_dict = {"font_name": [], "character": []}
for row in font_rows.take(9):
    fonts_dict["font_name"].append(row[0].decode())
    fonts_dict["character"].append(chr(int(row[2])))
print(sorted(zip(*fonts_dict.values(), strict=True)))

section("Performance")
BATCH_SIZE = 20
fonts_ds = dl.data.experimental.make_csv_dataset(
    file_pattern="fonts/*.csv", batch_size=BATCH_SIZE, num_epochs=1, num_parallel_reads=100
)
for _, _batch in enumerate(fonts_ds.take(20)):
    print(".", end="")
print()
fonts_files = dl.data.Dataset.list_files("fonts/*.csv")
fonts_lines = fonts_files.interleave(
    lambda fname: dl.data.TextLineDataset(fname).skip(1), cycle_length=100
).batch(BATCH_SIZE)
fonts_fast = fonts_lines.map(lambda x: dl.io.decode_csv(x, record_defaults=font_column_types))
for _, batch in enumerate(fonts_fast.take(20)):
    print(".", end="")
print(len(batch))
