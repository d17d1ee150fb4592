"""The files that the tutorials download, made up: of the original names, shapes and row counts."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from tests.tutorials.tables import TABLES

_SEGMENTS = {
    "top": (slice(4, 7), slice(8, 20)),
    "middle": (slice(13, 16), slice(8, 20)),
    "bottom": (slice(22, 25), slice(8, 20)),
    "upper left": (slice(4, 16), slice(7, 10)),
    "upper right": (slice(4, 16), slice(18, 21)),
    "lower left": (slice(13, 25), slice(7, 10)),
    "lower right": (slice(13, 25), slice(18, 21)),
}
_LEFT_OUT = (
    ("middle",),
    ("top", "middle", "bottom", "upper left", "lower left"),
    ("upper left", "lower right"),
    ("upper left", "lower left"),
    ("top", "bottom", "lower left"),
    ("upper right", "lower left"),
    ("upper right",),
    ("middle", "bottom", "upper left", "lower left"),
    (),
    ("lower left",),
)
FLOWERS = {"daisy": 633, "dandelion": 898, "roses": 641, "sunflowers": 699, "tulips": 799}


def digits(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Seven-segment digits, moved and with noise, uint8[count,28,28], and their labels."""
    draws = np.random.default_rng(seed)
    patterns = np.zeros((10, 28, 28), np.uint8)
    for digit, left_out in enumerate(_LEFT_OUT):
        for name, place in _SEGMENTS.items():
            if name not in left_out:
                patterns[digit][place] = 220
    labels = draws.integers(0, 10, count).astype(np.uint8)
    pictures = patterns[labels]
    moves = draws.integers(-1, 2, (count, 2))
    for move in np.unique(moves, axis=0):
        rows = (moves == move).all(axis=1)
        pictures[rows] = np.roll(pictures[rows], tuple(move), axis=(1, 2))
    return pictures + draws.integers(0, 35, pictures.shape, np.uint8), labels


def _mnist(path: Path) -> None:
    (x_train, y_train), (x_test, y_test) = digits(60_000, 0), digits(10_000, 1)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


def _idx(path: Path) -> None:
    import gzip

    count, seed = (60_000, 0) if path.name.startswith("train") else (10_000, 1)
    pictures, labels = digits(count, seed)
    held = labels if "labels" in path.name else pictures
    header = bytes([0, 0, 8, held.ndim]) + b"".join(n.to_bytes(4, "big") for n in held.shape)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header + held.tobytes())


def _titanic(path: Path) -> None:
    draws = random.Random(path.name)
    count = 627 if path.name.startswith("train") else 264
    heads = "survived,sex,age,n_siblings_spouses,parch,fare,class,deck,embark_town,alone"
    lines = [heads]
    for _ in range(count):
        sex = draws.choice(["male", "female"])
        survived = int(draws.random() < (0.75 if sex == "female" else 0.2))
        town = draws.choice(["Southampton", "Cherbourg", "Queenstown"])
        place = draws.choice(["First", "Second", "Third"])
        deck = draws.choice(["A", "B", "C", "D", "E", "unknown"])
        lines.append(
            f"{survived},{sex},{draws.uniform(1, 80):.1f},{draws.randrange(4)},{draws.randrange(3)}"
            f",{draws.uniform(5, 500):.4f},{place},{deck},{town},{draws.choice('ny')}"
        )
    path.write_text("\n".join(lines) + "\n")


def _iliad(path: Path) -> None:
    counts = {"cowper.txt": 19_142, "derby.txt": 18_333, "butler.txt": 12_131}
    draws = random.Random(path.name)
    words = [
        "sing",
        "goddess",
        "the",
        "wrath",
        "of",
        "peleus",
        "son",
        "achilles",
        "destructive",
        "sorrows",
    ]
    own = {"cowper.txt": "thee", "derby.txt": "amid", "butler.txt": "therefore"}[path.name]
    lines = [" ".join([*draws.choices(words, k=7), own]) for _ in range(counts[path.name])]
    path.write_text("\n".join(lines) + "\n")


def _flowers(path: Path) -> None:
    from PIL import Image

    draws = np.random.default_rng(2)
    with tarfile.open(path, "w:gz", compresslevel=1) as file:

        def add(name: str, content: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))

        for number, (kind, count) in enumerate(FLOWERS.items()):
            pictures = []
            for _ in range(16):
                small = draws.integers(0, 90, (12, 16, 3), np.uint8)
                small[..., number % 3] += np.uint8(30 * (1 + number // 3))
                buffer = io.BytesIO()
                Image.fromarray(small).resize((320, 240)).save(buffer, "JPEG")
                pictures.append(buffer.getvalue())
            for at in range(count):
                add(f"flower_photos/{kind}/{at:05d}.jpg", pictures[at % len(pictures)])
        add("flower_photos/LICENSE.txt", b"made up\n")


def _street_signs(path: Path) -> None:
    from PIL import Image

    import drumline as dl

    buffer = io.BytesIO()
    Image.new("RGB", (600, 150), (200, 190, 180)).save(buffer, "PNG")
    with dl.io.TFRecordWriter(str(path)) as writer:
        for number in range(500):
            text = f"Rue {number}".encode()
            writer.write(_example({"image/encoded": buffer.getvalue(), "image/text": text}))


def _example(features: dict[str, bytes]) -> bytes:
    """A ``tf.train.Example`` with features of one string each, as protocol buffers have it."""

    def field(number: int, content: bytes) -> bytes:
        size, length = len(content), b""
        while size >= 128:
            length += bytes([size % 128 + 128])
            size //= 128
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    entries = b"".join(
        field(1, field(1, name.encode()) + field(2, field(1, field(1, value))))
        for name, value in features.items()
    )
    return field(1, entries)


def _credit_cards(path: Path) -> None:
    """A table, or one in a ZIP file."""
    rows = 284_807
    draws = np.random.default_rng(3)
    frauds = np.zeros(rows, np.int64)
    frauds[draws.choice(rows, 492, replace=False)] = 1
    columns = {"Time": np.sort(draws.integers(0, 172_792, rows)).astype(np.float64)}
    for number in range(1, 29):
        columns[f"V{number}"] = (draws.normal(size=rows) + 2 * frauds).round(5)
    columns |= {"Amount": draws.uniform(0, 300, rows).round(2), "Class": frauds}
    buffer = io.BytesIO()
    csv.write_csv(pa.table(columns), buffer, csv.WriteOptions(quoting_style="needed"))
    if path.suffix == ".csv":
        path.write_bytes(buffer.getvalue())
        return
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("creditcard.csv", buffer.getvalue())


def _abalone(path: Path) -> None:
    draws = np.random.default_rng(4)
    count = 3_320 if "train" in path.name else 837
    ages = draws.integers(1, 30, count)
    sizes = draws.uniform(0.01, 1, (count, 7)) * (ages[:, None] / 30)
    lines = [
        ",".join([*(f"{size:.4g}" for size in row), str(age)])
        for row, age in zip(sizes, ages, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


def _traffic(path: Path) -> None:
    import gzip

    rows = 48_204
    draws = np.random.default_rng(5)
    skies = np.array(["Clear", "Clouds", "Rain", "Snow", "Mist"])[draws.integers(0, 5, rows)]
    hours = np.datetime64("2012-10-02T09", "s") + np.arange(rows) * np.timedelta64(1, "h")
    columns = {
        "holiday": np.where(draws.random(rows) < 0.001, "Labor Day", "None"),
        "temp": draws.uniform(245, 310, rows).round(2),
        "rain_1h": np.where(skies == "Rain", draws.uniform(0, 9, rows).round(2), 0.0),
        "snow_1h": np.where(skies == "Snow", draws.uniform(0, 0.5, rows).round(2), 0.0),
        "clouds_all": draws.integers(0, 101, rows),
        "weather_main": skies,
        "weather_description": np.char.add("some ", np.char.lower(skies)),
        "date_time": np.char.replace(hours.astype(str), "T", " "),
        "traffic_volume": draws.integers(0, 7_281, rows),
    }
    buffer = io.BytesIO()
    csv.write_csv(pa.table(columns), buffer, csv.WriteOptions(quoting_style="needed"))
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(buffer.getvalue().replace(b'"', b""))


def _fonts(path: Path) -> None:
    """All 153 fonts with all 412 columns; of 272 characters each, where the original has more."""
    draws = np.random.default_rng(6)
    rows = 272
    pixels = [f"r{row}c{column}" for row in range(20) for column in range(20)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for number in range(153):
            name = "AGENCY" if number == 0 else f"FONT{number:03d}"
            columns = {
                "font": np.full(rows, name),
                "fontVariant": np.full(rows, f"{name} FB"),
                "m_label": np.arange(33, 33 + rows),
                "strength": np.full(rows, "0.4"),
                "italic": draws.integers(0, 2, rows),
                "orientation": np.full(rows, "0.0"),
                "m_top": draws.integers(20, 50, rows),
                "m_left": draws.integers(20, 30, rows),
                "originalH": draws.integers(20, 60, rows),
                "originalW": draws.integers(10, 60, rows),
                "h": np.full(rows, 20),
                "w": np.full(rows, 20),
            }
            columns |= dict(zip(pixels, draws.integers(0, 256, (400, rows)), strict=True))
            buffer = io.BytesIO()
            csv.write_csv(pa.table(columns), buffer, csv.WriteOptions(quoting_style="none"))
            file.writestr(f"{name}.csv", buffer.getvalue().replace(b'"', b""))


def _photograph(path: Path) -> None:
    from PIL import Image

    sizes = {"320px": ((320, 213), "RGB"), "194px": ((194, 259), "L"), "592px": ((592, 443), "RGB")}
    size, mode = sizes.get(path.name[:5], ((577, 700), "RGB"))
    Image.radial_gradient("L").resize(size).convert(mode).save(path, "JPEG")


def _sorted_texts(path: Path) -> None:
    """Reviews and questions in a folder for each class, as ``text_dataset_from_directory`` reads.

    A tenth of the originals' files (a twentieth of the reviews').
    """
    if path.name.startswith("aclImdb"):
        folder, parts, classes, count = "aclImdb/", ("train", "test"), ["neg", "pos"], 600
    else:
        folder, parts, classes, count = "", ("train", "test"), _LANGUAGES, 200
    draws = random.Random(path.name)
    words = ["the", "film", "code", "was", "of", "with", "how", "in", "value", "list", "good"]
    with tarfile.open(path, "w:gz", compresslevel=1) as file:

        def add(name: str, text: str) -> None:
            entry = tarfile.TarInfo(folder + name)
            entry.size = len(text.encode())
            file.addfile(entry, io.BytesIO(text.encode()))

        for part in parts:
            for label in classes:
                for number in range(count):
                    rare = [f"word{draws.randrange(3_000)}" for _ in range(4)]
                    text = " ".join(
                        draws.choices([*words, *rare, label, label], k=draws.randrange(9, 80))
                    )
                    add(f"{part}/{label}/{number}_{number % 10}.txt", f"{text}<br />the end.\n")
            if folder:
                add(f"{part}/unsup/0_0.txt", "not labelled\n")
        if folder:
            add("train/pos/1181_9.txt", "Rachel Griffiths is a good film.\n")
            add("README", "made up\n")
        else:
            add("train/python/1755.txt", "how to make python faster\n")


_LANGUAGES = ["csharp", "java", "javascript", "python"]


def _small_pictures(path: Path) -> None:
    """CIFAR-10's batches: all 60,000 pictures, of coarse patterns that compress well."""
    draws = np.random.default_rng(15)
    with tarfile.open(path, "w:gz", compresslevel=1) as file:
        for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
            labels = draws.integers(0, 10, 10_000)
            coarse = draws.integers(0, 60, (10_000, 3, 2, 2), np.uint8)
            coarse[np.arange(10_000), labels % 3] += (15 * labels[:, None, None]).astype(np.uint8)
            rows = coarse.repeat(16, 2).repeat(16, 3).reshape(10_000, 3_072)
            content = pickle.dumps({b"data": rows, b"labels": labels.tolist()}, protocol=4)
            entry = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))


def _weights(path: Path) -> None:
    """Weights of one of Keras's models as they are initialized, in the former format."""
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import h5py
    import keras
    from keras.src.legacy.saving import legacy_h5_format

    top = "top" not in path.name
    side = next((side for side in (160, 224) if f"_{side}" in path.name), 299)
    made = keras.applications.InceptionV3 if side == 299 else keras.applications.MobileNetV2
    if path.name == "mobilenet_1_0_224_tf.h5":
        made = keras.applications.MobileNet
    keras.utils.set_random_seed(0)
    model = made(weights=None, include_top=top, input_shape=(side, side, 3))
    with h5py.File(path, "w") as file:
        legacy_h5_format.save_weights_to_hdf5_group(file, model)


def _labels(path: Path) -> None:
    path.write_text("background\n" + "".join(f"class {number}\n" for number in range(1_000)))


def _class_names(path: Path) -> None:
    classes = {str(number): [f"n{number:08d}", f"class_{number}"] for number in range(1_000)}
    classes["208"][1] = "Labrador_retriever"
    path.write_text(json.dumps(classes))


def _pictures(path: Path) -> None:
    """Cats and dogs in a ZIP file; or facades, each beside its plan, in a TAR file."""
    from PIL import Image

    draws = np.random.default_rng(13)

    def picture(size: tuple[int, int], shade: int) -> bytes:
        small = draws.integers(0, 90, (12, 16, 3), np.uint8)
        small[..., shade % 3] += np.uint8(90)
        buffer = io.BytesIO()
        Image.fromarray(small).resize(size).save(buffer, "JPEG")
        return buffer.getvalue()

    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for part, count in (("train", 1_000), ("validation", 500)):
                for shade, kind in enumerate(("cats", "dogs")):
                    made = [picture((320, 240), shade) for _ in range(16)]
                    for number in range(count):
                        name = f"cats_and_dogs_filtered/{part}/{kind}/{kind[:-1]}.{number}.jpg"
                        zipped.writestr(name, made[number % 16])
        return
    with tarfile.open(path, "w:gz", compresslevel=1) as tarred:
        for part, count in (("train", 400), ("test", 106), ("val", 100)):
            made = [picture((512, 256), 1) for _ in range(16)]
            for number in range(1, count + 1):
                entry = tarfile.TarInfo(f"facades/{part}/{number}.jpg")
                entry.size = len(made[number % 16])
                tarred.addfile(entry, io.BytesIO(made[number % 16]))


def _commands(path: Path) -> None:
    """Eight spoken commands, each of 100 sounds of a second (originally 1,000)."""
    import wave

    draws = np.random.default_rng(14)
    times = np.arange(16_000) / 16_000
    commands = ["down", "go", "left", "no", "right", "stop", "up", "yes"]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("mini_speech_commands/README.md", "made up\n")
        for pitch, command in enumerate(commands):
            for number in range(100):
                tone = np.sin(2 * np.pi * (200 + 150 * pitch) * times) + draws.normal(
                    0, 0.1, 16_000
                )
                buffer = io.BytesIO()
                with wave.open(buffer, "wb") as sound:
                    sound.setnchannels(1)
                    sound.setsampwidth(2)
                    sound.setframerate(16_000)
                    sound.writeframes((tone * 9_000).astype("<i2").tobytes())
                name = f"{number:08x}_nohash_0.wav"
                if command == "no" and number == 0:
                    name = "01bb6a2a_nohash_0.wav"
                file.writestr(f"mini_speech_commands/{command}/{name}", buffer.getvalue())


MADE: dict[str, Callable[[Path], None]] = {
    "mnist.npz": _mnist,
    "train-images-idx3-ubyte.gz": _idx,
    "train-labels-idx1-ubyte.gz": _idx,
    "t10k-images-idx3-ubyte.gz": _idx,
    "t10k-labels-idx1-ubyte.gz": _idx,
    "train.csv": _titanic,
    "eval.csv": _titanic,
    "cowper.txt": _iliad,
    "derby.txt": _iliad,
    "butler.txt": _iliad,
    "flower_photos.tgz": _flowers,
    "fsns-00000-of-00001": _street_signs,
    "creditcard.zip": _credit_cards,
    "creditcard.csv": _credit_cards,
    "abalone_train.csv": _abalone,
    "abalone_test.csv": _abalone,
    "Metro_Interstate_Traffic_Volume.csv.gz": _traffic,
    "fonts.zip": _fonts,
    "320px-Felis_catus-cat_on_snow.jpg": _photograph,
    "194px-New_East_River_Bridge_from_Brooklyn_det.4a09796u.jpg": _photograph,
    "592px-Red_sunflower.jpg": _photograph,
    "YellowLabradorLooking_new.jpg": _photograph,
    "grace_hopper.jpg": _photograph,
    "ImageNetLabels.txt": _labels,
    "mobilenet_1_0_224_tf.h5": _weights,
    "aclImdb_v1.tar.gz": _sorted_texts,
    "stack_overflow_16k.tar.gz": _sorted_texts,
    "cats_and_dogs_filtered.zip": _pictures,
    "facades.tar.gz": _pictures,
    "mini_speech_commands.zip": _commands,
    "cifar-10-python.tar.gz": _small_pictures,
    "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_160_no_top.h5": _weights,
    "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224.h5": _weights,
    "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5": _weights,
    "inception_v3_weights_tf_dim_ordering_tf_kernels_notop.h5": _weights,
    "imagenet_class_index.json": _class_names,
    **TABLES,
}


def make(folder: Path) -> None:
    """Make the files that are not there yet."""
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    for name, made in MADE.items():
        if not (folder / name).exists():
            made(parts / name)
            (parts / name).rename(folder / name)
