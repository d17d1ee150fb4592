"""Archives of named datasets, and what lets a library's builder take them for downloaded ones."""

from __future__ import annotations

import functools
import gzip
import io
import os
import struct
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads.jpeg_files import FILES, contents

KINDS = ("dandelion", "daisy", "tulips", "sunflowers", "roses")
SYNSETS = ("n01440764", "n01443537", "n01484850", "n15075141")
_GZIP_HEAD = 10
"""Bytes before what is compressed."""


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="drumline-named-")


def place(name: str) -> Path:
    """A directory that is removed when the process ends."""
    path = Path(_folder().name) / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def _idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(head + array.tobytes(), 1)


def digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    """As many pictures (n, 28, 28), a fifth of them ink as in MNIST's, and their labels."""
    draw = np.random.default_rng(count)
    coarse = draw.integers(0, 256, (count, 7, 7)) * (draw.random((count, 7, 7)) < 0.2)
    images = coarse.repeat(4, 1).repeat(4, 2).astype(np.uint8)
    return images, draw.integers(0, 10, count).astype(np.uint8)


def idx_files(count: int) -> dict[str, Path]:
    """MNIST's four files, by name: so many pictures for training, and a sixth as many for tests."""
    found = {}
    for split, size in (("train", count), ("t10k", count // 6)):
        images, labels = digits(size)
        for what, array in (("images-idx3", images), ("labels-idx1", labels)):
            path = place("archives") / f"{split}-{what}-ubyte.gz"
            path.write_bytes(_idx(array))
            found[path.name] = path
    return found


def _tar(files: Iterable[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def _tgz(files: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """The parts of a compressed tar archive, in which contents may come again and again.

    Each of them is compressed once, from an empty dictionary, which the format allows anywhere.
    Otherwise most of a run would be the compression of photographs, which gain nothing by it.
    """
    deflated = functools.cache(_deflated)
    checksum = size = 0
    yield gzip.compress(b"")[:_GZIP_HEAD]
    for name, content in files:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        padding = -len(content) % tarfile.BLOCKSIZE
        for part in (member.tobuf(tarfile.USTAR_FORMAT), content + b"\0" * padding):
            yield deflated(part)
            checksum, size = zlib.crc32(part, checksum), size + len(part)
    end = b"\0" * 2 * tarfile.BLOCKSIZE
    yield deflated(end) + zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS).flush()
    yield struct.pack("<II", zlib.crc32(end, checksum), (size + len(end)) % (1 << 32))


def _deflated(part: bytes) -> bytes:
    made = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    return made.compress(part) + made.flush(zlib.Z_FULL_FLUSH)


def flower_files(count: int) -> dict[str, Path]:
    """The archive of ``tf_flowers``, with so many photographs."""
    path = place("archives") / "flower_photos.tgz"
    named = ((f"flower_photos/{KINDS[i % 5]}/{i}.jpg", each) for i, each in _numbered(count))
    with path.open("wb") as file:
        file.writelines(_tgz(named))
    return {path.name: path}


def imagenet_files(count: int) -> Path:
    """A directory with ImageNet's archive for training: so many photographs of four classes."""
    photographs: dict[str, list[tuple[str, bytes]]] = {name: [] for name in SYNSETS}
    for i, each in _numbered(count):
        name = SYNSETS[i % len(SYNSETS)]
        photographs[name].append((f"{name}_{i}.JPEG", each))
    inner = [(f"{name}.tar", _tar(each)) for name, each in photographs.items()]
    (place("manual") / "ILSVRC2012_img_train.tar").write_bytes(_tar(inner))
    # TFDS asks for the archive for validation, too, and for a photograph for each of its files.
    few = [(f"ILSVRC2012_val_{i + 1:08d}.JPEG", each) for i, each in enumerate(contents(FILES))]
    (place("manual") / "ILSVRC2012_img_val.tar").write_bytes(_tar(few))
    return place("manual")


def _numbered(count: int) -> Iterable[tuple[int, bytes]]:
    return enumerate(contents(count))


def give_to_drumline(files: dict[str, Path]) -> None:
    """Let drumline take these files for what it downloaded, whatever their checksums."""
    from drumline.datasets.sources import manager

    def download(self: Any, nested: Any) -> Any:
        return manager._mapped(
            lambda each: files[getattr(each, "url", each).rpartition("/")[2]], nested
        )

    manager.DownloadManager.download = download  # type: ignore[method-assign]


def give_to_tfds(files: dict[str, Path]) -> None:
    """The same for TensorFlow Datasets, which extracts compressed files."""
    import tensorflow_datasets as tfds
    from etils import epath

    def download(self: Any, nested: Any) -> Any:
        return tfds.core.utils.map_nested(
            lambda each: epath.Path(files[getattr(each, "url", each).rpartition("/")[2]]), nested
        )

    def extract(path: Any) -> Any:
        target = Path(f"{path}.{os.getpid()}.out")
        with gzip.open(path) as packed:
            target.write_bytes(packed.read())
        return epath.Path(target)

    manager = tfds.download.DownloadManager
    manager.download = download
    manager.download_and_extract = lambda self, nested: tfds.core.utils.map_nested(
        extract, download(self, nested)
    )


def set_sizes_of_tfds(count: int) -> None:
    """Let its MNIST have so many examples: it reads no more than it knows of."""
    import importlib

    module: Any = importlib.import_module("tensorflow_datasets.image_classification.mnist")
    module._TRAIN_EXAMPLES, module._TEST_EXAMPLES = count, count // 6
