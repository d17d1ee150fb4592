"""Photographs in large archives, or with attributes and boxes: ImageNet, Places, CelebA."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import io
import posixpath
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import IO, Any, ClassVar, cast

import numpy as np

from drumline import image
from drumline.datasets.builders.bases import ImageSet, labels_file
from drumline.datasets.builders.small_images import read_mat
from drumline.datasets.features.containers import FeaturesDict, SequenceFeature
from drumline.datasets.features.media import ImageFeature
from drumline.datasets.features.tensors import BBox, BBoxFeature, TextFeature
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
        "ILSVRC2012_img_val.tar and ILSVRC2012_img_test.tar (or folders of these names with their "
        "photographs) there: those that you have make the splits."
    )
    NOTES = (
        "Preparing compares ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar with their SHA-256,"
        " which takes minutes the first time. Of ILSVRC2012_img_test.tar no checksum is known: it "
        "is taken as it comes, and so are folders, whose files are not counted either.",
    )
    MANUAL_RESOURCES = listed("imagenet2012")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        files = {"train": "train", "validation": "val", "test": "test"}
        folder, found = dl_manager.manual_dir, {}
        for split, file in files.items():
            names = [f"ILSVRC2012_img_{file}.tar", f"ILSVRC2012_img_{file}"]
            path = next((folder / name for name in names if (folder / name).exists()), None)
            if path is not None:
                dl_manager.manual_file(path.name)
                found[split] = self._generate_examples(split, path)
        if not found:
            dl_manager.manual_file(*(f"ILSVRC2012_img_{file}.tar" for file in files.values()))
        return found

    def _generate_examples(self, split: str, path: Path) -> Examples:
        if split == "train":
            for synset, members in _classes_in(path):
                yield from _photographs(members, synset)
        else:
            labels = _validation_labels() if split == "validation" else {}
            for name, contents in _files_of(path):
                if labels and name not in labels:
                    raise ArchiveError(f"{path}: {name} is none of the photographs for validation")
                label = labels.get(name, -1)
                yield name, {"image": contents.read(), "label": label, "file_name": name}


def _classes_in(path: Path) -> Iterator[tuple[str, Iterator[tuple[str, IO[bytes]]]]]:
    """Yield each class, and its photographs, of an archive of archives or a folder of these."""
    if not path.is_dir():
        for name, contents in iter_archive(path):
            yield name.removesuffix(".tar"), iter_inner_tar(contents, path / name)
        return
    archives = sorted(path.glob("n*.tar"))
    if not archives:
        raise FileNotFoundError(f"{path}: there is no tar file of a class in it, as n01440764.tar")
    for each in archives:
        yield each.stem, iter_archive(each)


def _files_of(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield name and contents of the files in an archive, or in the folder it was unpacked to."""
    if not path.is_dir():
        yield from iter_archive(path)
        return
    for each in sorted(path.glob("[!.]*")):
        with each.open("rb") as contents:
            yield each.name, contents


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
    SUPERVISED_KEYS = ("image", "label", "filename")
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


@register
class CelebA(ImageSet):
    """Faces of celebrities, 218 x 178 pixels, with attributes, landmarks and who it is."""

    name = "celeb_a"
    VERSION = "2.1.0"
    SUPERVISED_KEYS = None
    SPLITS: ClassVar[Mapping[str, int]] = {
        "train": 162_770,
        "validation": 19_867,
        "test": 19_962,
    }
    HOMEPAGE = "http://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
    CITATION = (
        "Z. Liu, P. Luo, X. Wang, X. Tang: Deep Learning Face Attributes in the Wild, ICCV 2015"
    )
    LICENSE = "for research that is not commercial"
    RESOURCES = listed("celeb_a")

    def _features(self) -> Mapping[str, Any]:
        names = labels_file("celeb_a").read_text().split()
        return {
            "image": ImageFeature((218, 178, 3), encoding_format="jpeg"),
            "landmarks": FeaturesDict(dict.fromkeys(_LANDMARKS, np.int64)),
            "attributes": FeaturesDict(dict.fromkeys(names, np.bool_)),
            "identity": FeaturesDict({"Identity_No": np.int64}),
        }

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        table = {
            "landmarks": _table(paths["list_landmarks_celeba"]),
            "attributes": _table(paths["list_attr_celeba"]),
            "identity": _table(paths["identity_celeba"], ["Identity_No"]),
        }
        parts = _table(paths["list_eval_partition"], ["part"])
        return {
            split: self._generate_examples(
                paths["img_align_celeba"],
                {name for name, row in parts.items() if row["part"] == number},
                table,
            )
            for number, split in enumerate(self.SPLITS)
        }

    def _generate_examples(self, path: Path, wanted: Set[str], table: Any) -> Examples:
        for name, contents in iter_archive(path):
            file = posixpath.basename(name)
            if file in wanted:
                rows = {key: rows[file] for key, rows in table.items()}
                signs = {key: value > 0 for key, value in rows["attributes"].items()}
                yield file, {**rows, "attributes": signs, "image": contents.read()}


def _table(path: Path, head: list[str] | None = None) -> dict[str, dict[str, int]]:
    """Return the numbers of each file in a list of CelebA's; its second line names them."""
    lines = path.read_text().splitlines()
    if head is None:
        lines, head = lines[2:], lines[1].split()
    rows = [line.split() for line in lines if line.strip()]
    try:
        return {row[0]: dict(zip(head, map(int, row[1:]), strict=True)) for row in rows}
    except ValueError as error:
        raise ArchiveError(f"{path}: it is not the list it should be: {error}") from error


_LANDMARKS = [
    f"{point}_{axis}"
    for point in ("lefteye", "righteye", "nose", "leftmouth", "rightmouth")
    for axis in "xy"
]


@register
class StanfordDogs(ImageSet):
    """Photographs of dogs of 120 breeds of ImageNet, with their boxes."""

    name = "stanford_dogs"
    VERSION = "0.2.0"
    LABELS = 120
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 12_000, "test": 8_580}
    HOMEPAGE = "http://vision.stanford.edu/aditya86/ImageNetDogs/main.html"
    CITATION = (
        "A. Khosla, N. Jayadevaprakash, B. Yao, L. Fei-Fei: Novel Dataset for Fine-Grained Image "
        "Categorization, Workshop on Fine-Grained Visual Categorization, CVPR 2011"
    )
    RESOURCES = listed("stanford_dogs")

    def _more(self) -> Mapping[str, Any]:
        boxes = SequenceFeature({"bbox": BBoxFeature()})
        return {"image/filename": TextFeature(), "objects": boxes}

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        lists = [
            [str(row[0]) for row in read_mat(io.BytesIO(each), self.name)["file_list"].ravel()]
            for each in read_members(paths["lists"], "train_list.mat", "test_list.mat")
        ]
        names = sorted({name.split("/")[0].lower() for name in lists[0]})
        self.info.features["label"].set_names(names)
        boxes = {
            posixpath.basename(name): _boxes(contents.read(), name)
            for name, contents in iter_archive(paths["annotation"])
        }
        return {
            split: self._generate_examples(paths["images"], set(each), boxes)
            for split, each in zip(("train", "test"), lists, strict=True)
        }

    def _generate_examples(self, path: Path, wanted: Set[str], boxes: Any) -> Examples:
        for name, contents in iter_archive(path):
            if name.partition("/")[2] in wanted:
                _, label, file = name.split("/")
                objects = [{"bbox": box} for box in boxes[file.removesuffix(".jpg")]]
                example = {"image": contents.read(), "label": label.lower(), "objects": objects}
                yield name, {**example, "image/filename": name}


def _boxes(notes: bytes, name: str) -> list[BBox]:
    """Return the boxes in the annotations of a photograph of dogs."""
    try:
        root = ElementTree.fromstring(notes)
        height, width = (float(root.findtext(f"size/{each}") or 0) for each in ("height", "width"))
        sides = {"ymin": height, "xmin": width, "ymax": height, "xmax": width}
        return [
            BBox(
                *(
                    min(float(box.findtext(side) or "nan") / whole, 1.0)
                    for side, whole in sides.items()
                )
            )
            for box in root.iter("bndbox")
        ]
    except (ElementTree.ParseError, ValueError, ZeroDivisionError) as error:
        raise ArchiveError(f"{name}: {error}") from error


@register
class Cars196(ImageSet):
    """Photographs of cars of 196 models, with their boxes."""

    name = "cars196"
    VERSION = "2.1.0"
    LABELS = labels_file("cars196")
    MORE: ClassVar[Mapping[str, Any]] = {"bbox": BBoxFeature(), "id": TextFeature()}
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 8_144, "test": 8_041}
    HOMEPAGE = "https://ai.stanford.edu/~jkrause/cars/car_dataset.html"
    CITATION = (
        "J. Krause, M. Stark, J. Deng, L. Fei-Fei: 3D Object Representations for Fine-Grained "
        "Categorization, 3dRR-13, 2013"
    )
    RESOURCES = listed("cars196")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        (train,) = read_members(paths["devkit"], "devkit/cars_train_annos.mat")
        boxes = {"train": io.BytesIO(train), "test": paths["test_boxes"]}
        return {
            split: self._generate_examples(paths[split], read_mat(each, self.name))
            for split, each in boxes.items()
        }

    def _generate_examples(self, path: Path, notes: Any) -> Examples:
        # x1, y1, x2, y2, the class from 1 on, the file
        rows = {
            row[-1].item(): [int(each.item()) for each in list(row)[:5]]
            for row in notes["annotations"][0]
        }
        for name, contents in iter_archive(path):
            file = posixpath.basename(name)
            if file in rows:
                picture = contents.read()
                height, width, _ = np.asarray(image.extract_jpeg_shape(picture)).tolist()
                xmin, ymin, xmax, ymax, label = rows[file]
                box = BBox(ymin / height, xmin / width, ymax / height, xmax / width)
                key = file.partition(".")[0]
                yield key, {"image": picture, "label": label - 1, "bbox": box, "id": key}


@register
class CaltechBirds2011(ImageSet):
    """Photographs of birds of 200 species, with their boxes and outlines."""

    name = "caltech_birds2011"
    VERSION = "0.2.0"
    LABELS = 200
    MORE: ClassVar[Mapping[str, Any]] = {
        "image/filename": TextFeature(),
        "label_name": TextFeature(),
        "bbox": BBoxFeature(),
        "segmentation_mask": ImageFeature((None, None, 1)),
    }
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 5_994, "test": 5_794}
    HOMEPAGE = "https://www.vision.caltech.edu/datasets/cub_200_2011/"
    CITATION = (
        "C. Wah, S. Branson, P. Welinder, P. Perona, S. Belongie: The Caltech-UCSD Birds-200-2011 "
        "Dataset, California Institute of Technology, CNS-TR-2011-001, 2011"
    )
    RESOURCES = listed("caltech_birds2011")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        files = ("images", "train_test_split", "bounding_boxes")
        lists = read_members(paths["images"], *(f"CUB_200_2011/{each}.txt" for each in files))
        names, parts, boxes = (
            dict(line.split(" ", 1) for line in each.decode().splitlines()) for each in lists
        )
        places = {name: [float(side) for side in boxes[i].split()] for i, name in names.items()}
        masks = dl_manager.extract(paths["masks"]) / "segmentations"
        return {
            split: self._generate_examples(
                paths["images"],
                {name: places[name] for i, name in names.items() if int(parts[i]) == number},
                masks,
            )
            for split, number in (("train", 1), ("test", 0))
        }

    def _generate_examples(
        self, path: Path, boxes: Mapping[str, list[float]], masks: Path
    ) -> Examples:
        for name, contents in iter_archive(path):
            found = re.fullmatch(r"CUB_200_2011/images/((\d+)\.(\w+)/(\w+)\.jpg)", name)
            if found and found[1] in boxes:
                x, y, width, height = boxes[found[1]]
                outline = masks / found[1].replace(".jpg", ".png")
                mask = np.asarray(image.decode_png(outline.read_bytes(), channels=1))
                whole = (*mask.shape[:2], *mask.shape[:2])
                sides = np.array([y, x, y + height, x + width]) / whole
                yield (
                    name,
                    {
                        "image": contents.read(),
                        "image/filename": name,
                        "label": int(found[2]) - 1,
                        "label_name": found[3].lower(),
                        "bbox": BBox(*np.minimum(sides, 1.0).tolist()),
                        "segmentation_mask": mask,
                    },
                )
