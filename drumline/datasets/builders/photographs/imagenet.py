"""ImageNet 2012, parts of it, and Places: large archives that are read as they stream."""

from __future__ import annotations

import dataclasses
import functools
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from drumline import image
from drumline.datasets.builders.image_set import ImageSet, labels_file
from drumline.datasets.features.tensors import TextFeature
from drumline.datasets.prepared.generator import BuilderConfig, Examples
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import (
    ArchiveError,
    iter_archive,
    iter_inner_tar,
    read_members,
)
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import listed


@register
class Imagenet2012(ImageSet):
    """ImageNet, ILSVRC 2012: photographs of the nouns of WordNet, 1000 of them."""

    name = "imagenet2012"
    VERSION = "5.1.0"
    ENCODING = "jpeg"
    LABELS = labels_file("imagenet2012")
    MORE: ClassVar[Mapping[str, Any]] = {"file_name": TextFeature()}
    SPLITS: ClassVar[Mapping[str, int]] = {
        "train": 1_281_167,
        "validation": 50_000,
        "test": 100_000,
    }
    HOMEPAGE = "https://image-net.org/"
    CITATION = (
        "O. Russakovsky et al.: ImageNet Large Scale Visual Recognition Challenge, International "
        "Journal of Computer Vision 115(3), 2015"
    )
    LICENSE = "for research that is not commercial; see https://image-net.org/download"
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Register on https://image-net.org/download-images, and put ILSVRC2012_img_train.tar (or a "
        "folder ILSVRC2012_img_train with its tar files, one of each class), "
        "ILSVRC2012_img_val.tar and ILSVRC2012_img_test.tar there: those that you have make the "
        "splits."
    )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        files = {"train": "train", "validation": "val", "test": "test"}
        folder, found = dl_manager.manual_dir, {}
        for split, file in files.items():
            names = [f"ILSVRC2012_img_{file}.tar", f"ILSVRC2012_img_{file}"]
            path = next((folder / name for name in names if (folder / name).exists()), None)
            if path is not None:
                found[split] = self._generate_examples(split, path)
        if not found:
            dl_manager.manual_file(*(f"ILSVRC2012_img_{file}.tar" for file in files.values()))
        return found

    def _generate_examples(self, split: str, path: Path) -> Examples:
        if split == "train" and path.is_dir():
            for each in sorted(path.glob("n*.tar")):
                yield from _photographs(iter_archive(each), each.stem)
        elif split == "train":
            for name, contents in iter_archive(path):
                inner = iter_inner_tar(contents, path / name)
                yield from _photographs(inner, name.removesuffix(".tar"))
        else:
            labels = _validation_labels() if split == "validation" else {}
            for name, contents in iter_archive(path):
                if labels and name not in labels:
                    raise ArchiveError(f"{path}: {name} is none of the photographs for validation")
                label = labels.get(name, -1)
                yield name, {"image": contents.read(), "label": label, "file_name": name}


def _photographs(members: Any, label: str) -> Examples:
    for name, contents in members:
        picture = contents.read()
        if name == _PNG or name in _of_ink():
            decode = image.decode_png if name == _PNG else image.decode_jpeg
            pixels = decode(picture, channels=3)
            picture = bytes(image.encode_jpeg(pixels, format="rgb", quality=100))
        yield name, {"image": picture, "label": label, "file_name": name}


@functools.cache
def _of_ink() -> frozenset[str]:
    """The photographs in CMYK, by https://github.com/cytsai/ilsvrc-cmyk-image-list."""
    return frozenset(labels_file("imagenet2012_cmyk").read_text().split())


@functools.cache
def _validation_labels() -> dict[str, str]:
    """The classes of the photographs for validation, whose archive does not say them."""
    packed = labels_file("imagenet2012_validation").with_suffix(".txt.gz").read_bytes()
    labels = gzip.decompress(packed).decode().split()
    return {f"ILSVRC2012_val_{i:08d}.JPEG": label for i, label in enumerate(labels, 1)}


# The one photograph that is no JPEG; it and those whose colors are ink are stored as the others
# are, as TFDS does.
_PNG = "n02105855_2933.JPEG"


@dataclasses.dataclass(eq=False)
class ImagenetteConfig(BuilderConfig):
    """A size and generation of Imagenette or Imagewoof.

    Attributes:
        folder: the name of the archive and of the folder in it.
    """

    folder: str = ""


def _sizes_of(name: str) -> tuple[BuilderConfig, ...]:
    return tuple(
        ImagenetteConfig(
            size + end, description=f"{size} variant.", folder=f"{name}{generation}{part}"
        )
        for generation, end in (("2", "-v2"), ("", ""))
        for size, part in (("full-size", ""), ("320px", "-320"), ("160px", "-160"))
    )


@register
class Imagenette(ImageSet):
    """Ten classes of ImageNet that are easy to distinguish."""

    name = "imagenette"
    VERSION = "1.0.0"
    ENCODING = "jpeg"
    LABELS = (
        "n01440764",
        "n02102040",
        "n02979186",
        "n03000684",
        "n03028079",
        "n03394916",
        "n03417042",
        "n03425413",
        "n03445777",
        "n03888257",
    )
    HOMEPAGE = "https://github.com/fastai/imagenette"
    CITATION = "J. Howard: imagenette, https://github.com/fastai/imagenette/"
    LICENSE = "Apache-2.0"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = _sizes_of("imagenette")
    RESOURCES = listed("imagenette")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        folder = cast(ImagenetteConfig, self.builder_config).folder
        path = dl_manager.download(self.RESOURCES[folder])
        return {
            "train": self._generate_examples(path, "train"),
            "validation": self._generate_examples(path, "val"),
        }

    def _generate_examples(self, path: Path, split: str) -> Examples:
        for name, contents in iter_archive(path):
            parts = name.split("/")
            if len(parts) == 4 and parts[1] == split and parts[3].endswith(".JPEG"):
                yield parts[3], {"image": contents.read(), "label": parts[2]}


@register
class Imagewoof(Imagenette):
    """Ten breeds of dogs of ImageNet, which are not easy to distinguish."""

    name = "imagewoof"
    LABELS = (
        "n02086240",
        "n02087394",
        "n02088364",
        "n02089973",
        "n02093754",
        "n02096294",
        "n02099601",
        "n02105641",
        "n02111889",
        "n02115641",
    )
    CITATION = "J. Howard: Imagewoof, https://github.com/fastai/imagenette/"
    NOTES = ("Layout not verified: it is that of imagenette, and TFDS has no such dataset.",)
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = _sizes_of("imagewoof")
    RESOURCES = listed("imagewoof")


@register
class TinyImagenet(ImageSet):
    """Photographs of 200 classes of ImageNet, 64 x 64 pixels, of Stanford's course CS231n."""

    name = "tiny_imagenet"
    VERSION = "1.0.0"
    SHAPE = (64, 64, 3)
    ENCODING = "jpeg"
    LABELS = 200
    MORE: ClassVar[Mapping[str, Any]] = {"file_name": TextFeature()}
    SPLITS: ClassVar[Mapping[str, int]] = {
        "train": 100_000,
        "validation": 10_000,
        "test": 10_000,
    }
    HOMEPAGE = "http://cs231n.stanford.edu/"
    CITATION = "Y. Le, X. Yang: Tiny ImageNet Visual Recognition Challenge, Stanford, 2015"
    NOTES = ("Layout not verified: TFDS has no such dataset.",)
    RESOURCES = listed("tiny_imagenet")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        path = dl_manager.download(self.RESOURCES["all"])
        lists = ("wnids.txt", "val/val_annotations.txt")
        names, rows = read_members(path, *(f"tiny-imagenet-200/{each}" for each in lists))
        self.info.features["label"].set_names(sorted(names.decode().split()))
        labels = dict(row.split("\t")[:2] for row in rows.decode().splitlines())
        return {
            split: self._generate_examples(path, folder, labels)
            for split, folder in (("train", "train"), ("validation", "val"), ("test", "test"))
        }

    def _generate_examples(self, path: Path, split: str, labels: Mapping[str, str]) -> Examples:
        for name, contents in iter_archive(path):
            parts = name.split("/")
            if parts[1] == split and parts[-2] == "images" and name.endswith(".JPEG"):
                file = parts[-1]
                label: Any = {"train": parts[2], "val": labels.get(file)}.get(split, -1)
                if label is None:
                    raise ArchiveError(f"{path}: val_annotations.txt does not say what {file} is")
                yield file, {"image": contents.read(), "label": label, "file_name": file}


@register
class Places365Small(ImageSet):
    """Photographs of 365 kinds of places: 256 x 256 pixels."""

    name = "places365_small"
    VERSION = "2.1.0"
    SHAPE = (256, 256, 3)
    LABELS = labels_file("places365")
    SUPERVISED = ("image", "label", "filename")
    MORE: ClassVar[Mapping[str, Any]] = {"filename": TextFeature()}
    SPLITS: ClassVar[Mapping[str, int]] = {
        "train": 1_803_460,
        "test": 328_500,
        "validation": 36_500,
    }
    HOMEPAGE = "http://places2.csail.mit.edu/"
    CITATION = (
        "B. Zhou, A. Lapedriza, A. Khosla, A. Oliva, A. Torralba: Places: A 10 million Image "
        "Database for Scene Recognition, IEEE Transactions on Pattern Analysis and Machine "
        "Intelligence, 2017"
    )
    RESOURCES = listed("places365_small")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        files = {"train": "train_standard", "test": "test", "validation": "val"}
        lists = read_members(paths["lists"], *(f"places365_{each}.txt" for each in files.values()))
        return {
            split: self._generate_examples(paths[split], lines.decode().splitlines())
            for split, lines in zip(files, lists, strict=True)
        }

    def _generate_examples(self, path: Path, lines: Sequence[str]) -> Examples:
        rows = [line.split(" ") for line in lines if line]
        labels = {row[0].lstrip("/"): int(row[1]) if row[1:] else -1 for row in rows}
        for name, contents in iter_archive(path):
            label = labels.get(name.partition("/")[2])
            if label is None:
                raise ArchiveError(f"{path}: {name} is not in the list of its split")
            yield name, {"image": contents.read(), "label": label, "filename": name}
