"""Archives and files of tests, in memory, and the preparing of a dataset from them."""

from __future__ import annotations

import dataclasses
import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from drumline import datasets, image

Examples = dict[str, list[dict[str, Any]]]


@dataclasses.dataclass
class Fabricated:
    """Files by their URLs, the examples that are in them, by split, and files put there by hand."""

    files: dict[str, bytes]
    examples: Examples
    manual: dict[str, bytes] = dataclasses.field(default_factory=dict)


def tar(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def pixels(seed: int, *shape: int) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, 256, shape).astype(np.uint8)


def jpeg(seed: int, *shape: int) -> tuple[bytes, np.ndarray]:
    """Return a file, and the pixels that are in it."""
    content = bytes(image.encode_jpeg(pixels(seed, *(shape or (9, 7, 3)))))
    return content, np.asarray(image.decode_jpeg(content))


def png(seed: int, *shape: int) -> tuple[bytes, np.ndarray]:
    array = pixels(seed, *shape)
    return bytes(image.encode_png(array)), array


def resources(name: str) -> dict[str, Any]:
    from drumline.datasets.registry import builder_class

    found: Any = builder_class(name)
    return dict(found.RESOURCES)


def url_of(name: str, key: str = "all") -> str:
    """Return the URL of a file of a dataset, or of one of its configurations."""
    found: Any = datasets.builder(name, data_dir="/nowhere")
    url: str = found.resources[key].url
    return url


def prepared(name: str, made: Fabricated, root: Path, patch: Any) -> datasets.DatasetBuilder:
    """Return a builder that has prepared these files in place of those of the network."""
    from drumline.datasets.sources.manager import DownloadManager, _mapped

    folder = root / "files"
    folder.mkdir(exist_ok=True)

    def path_of(resource: Any) -> Path:
        url = getattr(resource, "url", resource)
        path = folder / (getattr(resource, "filename", None) or url.rpartition("/")[2])
        path.write_bytes(made.files[url])
        return path

    patch.setattr(DownloadManager, "download", lambda self, nested: _mapped(path_of, nested))
    put_ffmpeg(root, patch)
    builder = without_checksums(datasets.builder(name, data_dir=root / "data"))
    builder.download_and_prepare(manual_dir=put_by_hand(made, root))
    return builder


def without_checksums(builder: datasets.DatasetBuilder) -> datasets.DatasetBuilder:
    """Let a builder take any file that was put there by hand."""
    vars(builder)["MANUAL_RESOURCES"] = {}
    return builder


def put_by_hand(made: Fabricated, root: Path) -> Path:
    """Write the files that cannot be downloaded, and return their directory."""
    folder = root / "manual"
    without_url = {name: content for name, content in made.files.items() if "://" not in name}
    for name, content in {**made.manual, **without_url}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


FFMPEG = """#!{python}
import re, sys
source, target = sys.argv[sys.argv.index("-i") + 1], sys.argv[-1]
content = open(source, "rb").read()
frames = re.split(rb"(?=FRAME)", content)[1:]
for number, frame in enumerate(frames, 1):
    open(target % number, "wb").write(frame[5:])
sys.exit(not frames)
"""
"""A program in place of ffmpeg: its videos are pictures, with a word before each."""


def put_ffmpeg(root: Path, patch: Any) -> None:
    """Put the program where it is found before another of its name."""
    folder = root / "programs"
    folder.mkdir(exist_ok=True)
    (folder / "ffmpeg").write_text(FFMPEG.replace("{python}", sys.executable))
    (folder / "ffmpeg").chmod(0o755)
    patch.setenv("PATH", str(folder), prepend=os.pathsep)
