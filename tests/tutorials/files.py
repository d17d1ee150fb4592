"""The files that the tutorials download, made up: of the original names, shapes and row counts."""

from __future__ import annotations

import io
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

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
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("creditcard.csv", buffer.getvalue())


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
}


def make(folder: Path) -> None:
    """Make the files that are not there yet."""
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    for name, made in MADE.items():
        if not (folder / name).exists():
            made(parts / name)
            (parts / name).rename(folder / name)
