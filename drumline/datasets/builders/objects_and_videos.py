"""Photographs in which objects are marked, and videos of what people do: VOC, COCO, UCF101."""

from __future__ import annotations

import dataclasses
import json
import posixpath
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from drumline.datasets.builders.bases import ImageSet, labels_file
from drumline.datasets.features.containers import SequenceFeature, VideoFeature
from drumline.datasets.features.media import ImageFeature
from drumline.datasets.features.tensors import BBox, BBoxFeature, ClassLabel, TextFeature
from drumline.datasets.folders.images import FORMATS
from drumline.datasets.prepared.generator import BuilderConfig, Examples
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import ArchiveError, iter_archive, read_members
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import listed


@dataclasses.dataclass(eq=False)
class ObjectsConfig(BuilderConfig):
    """A year's data.

    Attributes:
        splits: how many examples each has.
        files: for each split, what its archives are called.
    """

    splits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    files: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


_VOC = tuple(
    ObjectsConfig(
        year,
        description=f"The challenge of {year}",
        splits=dict(zip(("test", "train", "validation"), sizes, strict=True)),
        files={"test": (test, "test"), "train": (most, "train"), "validation": (most, "val")},
    )
    for year, test, most, sizes in (
        ("2007", "VOCtest_06-Nov-2007", "VOCtrainval_06-Nov-2007", (4_952, 2_501, 2_510)),
        ("2012", "VOC2012test", "VOCtrainval_11-May-2012", (10_991, 5_717, 5_823)),
    )
)


@register
class Voc(ImageSet):
    """Objects of 20 kinds in photographs: the PASCAL Visual Object Classes Challenge."""

    name = "voc"
    VERSION = "5.0.0"
    LABELS = (
        ("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow")
        + ("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa")
        + ("train", "tvmonitor")
    )
    SUPERVISED_KEYS = None
    HOMEPAGE = "http://host.robots.ox.ac.uk/pascal/VOC/"
    CITATION = (
        "M. Everingham, L. Van Gool, C. K. I. Williams, J. Winn, A. Zisserman: The PASCAL Visual "
        "Object Classes Challenge 2007, and 2012"
    )
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = _VOC
    RESOURCES = listed("voc")

    def _features(self) -> Mapping[str, Any]:
        each = {
            "label": self._label(),
            "bbox": BBoxFeature(),
            "pose": ClassLabel(names=("frontal", "rear", "left", "right", "unspecified")),
            "is_truncated": np.bool_,
            "is_difficult": np.bool_,
        }
        return {
            "image": ImageFeature(),
            "image/filename": TextFeature(),
            "objects": SequenceFeature(each),
            "labels": SequenceFeature(self._label()),
            "labels_no_difficult": SequenceFeature(self._label()),
        }

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        config = cast(ObjectsConfig, self.builder_config)
        archives = {name: self.RESOURCES[name] for name, _ in config.files.values()}
        folders = dl_manager.download_and_extract(archives)
        return {
            split: self._generate_examples(folders[name] / "VOCdevkit" / f"VOC{config.name}", part)
            for split, (name, part) in config.files.items()
        }

    def _generate_examples(self, folder: Path, part: str) -> Examples:
        for line in (folder / "ImageSets" / "Main" / f"{part}.txt").read_text().splitlines():
            name = line.strip()
            notes = folder / "Annotations" / f"{name}.xml"
            # What is in the test data of 2012 is not published.
            secret = part == "test" and folder.name == "VOC2012"
            objects = [] if secret else list(_objects(notes))
            easy = [each for each in objects if not each["is_difficult"]]
            file = f"{name}.jpg"
            example = {"image": folder / "JPEGImages" / file, "image/filename": file}
            labels, easy_labels = (sorted({each["label"] for each in of}) for of in (objects, easy))
            more = {"labels": labels, "labels_no_difficult": easy_labels}
            yield name, {**example, "objects": objects, **more}


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what is marked in a photograph of VOC's."""
    try:
        root = ElementTree.parse(path).getroot()
        height, width = (float(_text(root, f"size/{side}")) for side in ("height", "width"))
        for each in root.findall("object"):
            edges = {
                side: float(_text(each, f"bndbox/{side}"))
                for side in ("ymin", "xmin", "ymax", "xmax")
            }
            yield {
                "label": _text(each, "name").lower(),
                "pose": _text(each, "pose").lower(),
                "bbox": BBox(
                    edges["ymin"] / height,
                    edges["xmin"] / width,
                    edges["ymax"] / height,
                    edges["xmax"] / width,
                ),
                "is_truncated": each.findtext("truncated") == "1",
                "is_difficult": each.findtext("difficult") == "1",
            }
    except (ElementTree.ParseError, ValueError, ZeroDivisionError) as error:
        raise ArchiveError(f"{path}: {error}") from error


def _text(element: ElementTree.Element, path: str) -> str:
    found = element.findtext(path)
    if not found:
        raise ValueError(f"<{element.tag}> has no {path}")
    return found


def _coco(name: str, notes: str, parts: Mapping[str, tuple[str, str, int]]) -> ObjectsConfig:
    return ObjectsConfig(
        name,
        description=notes,
        splits={split: size for split, (_, _, size) in parts.items()},
        files={split: (images, lists) for split, (images, lists, _) in parts.items()},
    )


def _features_of_coco(prefix: str) -> Mapping[str, Any]:
    each = {
        "id": np.int64,
        "area": np.int64,
        "bbox": BBoxFeature(),
        "label": ClassLabel(133 if prefix else 80),
        "is_crowd": np.bool_,
    }
    panoptic = {
        "panoptic_image": ImageFeature(encoding_format="png"),
        "panoptic_image/filename": TextFeature(),
    }
    return {
        "image": ImageFeature(encoding_format="jpeg"),
        "image/filename": TextFeature(),
        "image/id": np.int64,
        **(panoptic if prefix else {}),
        f"{prefix}objects": SequenceFeature(each),
    }


_COCO = (
    _coco(
        "2014",
        "Boxes and classes of 2014",
        {
            "train": ("train2014", "annotations_trainval2014", 82_783),
            "validation": ("val2014", "annotations_trainval2014", 40_504),
            "test": ("test2014", "image_info_test2014", 40_775),
            "test2015": ("test2015", "image_info_test2015", 81_434),
        },
    ),
    _coco(
        "2017",
        "Boxes and classes of 2017",
        {
            "train": ("train2017", "annotations_trainval2017", 118_287),
            "validation": ("val2017", "annotations_trainval2017", 5_000),
            "test": ("test2017", "image_info_test2017", 40_670),
        },
    ),
    _coco(
        "2017_panoptic",
        "Every pixel's object, of 133 kinds, of 2017",
        {
            "train": ("train2017", "panoptic_annotations_trainval2017", 118_287),
            "validation": ("val2017", "panoptic_annotations_trainval2017", 5_000),
        },
    ),
)


@register
class Coco(ImageSet):
    """Common objects in context: photographs in which objects of 80 kinds are marked."""

    name = "coco"
    VERSION = "1.1.0"
    SUPERVISED_KEYS = None
    HOMEPAGE = "http://cocodataset.org/#home"
    CITATION = "T.-Y. Lin et al.: Microsoft COCO: Common Objects in Context, arXiv:1405.0312, 2014"
    LICENSE = "annotations: CC BY 4.0"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = _COCO
    RESOURCES = listed("coco")

    @property
    def _prefix(self) -> str:
        return "panoptic_" if cast(BuilderConfig, self.builder_config).name[4:] else ""

    def _features(self) -> Mapping[str, Any]:
        return _features_of_coco(self._prefix)

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        files = cast(ObjectsConfig, self.builder_config).files
        wanted = {name for pair in files.values() for name in pair}
        paths = dl_manager.download({name: self.RESOURCES[name] for name in sorted(wanted)})
        found = {}
        for split, (images, lists) in files.items():
            masks = None
            if self._prefix:
                inner = f"annotations/panoptic_{images}.zip"
                folder = dl_manager.extract(paths[lists])
                masks = dl_manager.extract(folder / inner) / f"panoptic_{images}"
            kind = self._prefix or ("instances_" if "trainval" in lists else "image_info_")
            places = (paths[images], paths[lists], f"annotations/{kind}{images}.json")
            found[split] = self._generate_examples(*places, masks)
        return found

    def _generate_examples(
        self, path: Path, lists: Path, member: str, masks: Path | None
    ) -> Examples:
        notes = json.loads(*read_members(lists, member))
        names = {each["id"]: each["name"] for each in notes["categories"]}
        self.info.features[f"{self._prefix}objects"]["label"].set_names(list(names.values()))
        marked: dict[int, list[Any]] = {}
        for each in notes.get("annotations", ()):
            marked.setdefault(each["image_id"], []).append(each)
        known = {each["file_name"]: each for each in notes["images"]}
        for name, contents in iter_archive(path):
            if (picture := known.pop(name.rpartition("/")[2], None)) is None:
                continue
            file = picture["file_name"]
            example = {"image": contents.read(), "image/filename": file, "image/id": picture["id"]}
            found = sorted(marked.get(picture["id"], []), key=lambda each: each.get("id", 0))
            if masks is not None:
                (mask,) = found
                example["panoptic_image"] = masks / mask["file_name"]
                example["panoptic_image/filename"] = mask["file_name"]
                found = mask["segments_info"]
            objects = [_marked(each, picture, names) for each in found]
            yield file, {**example, f"{self._prefix}objects": objects}
        if known:
            raise ArchiveError(f"{path}: there is no {next(iter(known))} in it")


def _marked(
    each: Mapping[str, Any], picture: Mapping[str, Any], names: Mapping[int, str]
) -> dict[str, Any]:
    """Return an object of COCO's as an example has it."""
    x, y, width, height = each["bbox"]
    return {
        "id": each["id"],
        "area": int(each["area"]),
        "bbox": BBox(
            y / picture["height"],
            x / picture["width"],
            (y + height) / picture["height"],
            (x + width) / picture["width"],
        ),
        "label": names[each["category_id"]],
        "is_crowd": bool(each["iscrowd"]),
    }


@dataclasses.dataclass(eq=False)
class UcfConfig(BuilderConfig):
    """One of UCF101's three ways to split it.

    Attributes:
        fold: which, from 1 on.
        size: of the frames, height and width; their own unless given.
        splits: how many examples each has.
    """

    fold: int = 1
    size: int | None = None
    splits: Mapping[str, int] = dataclasses.field(default_factory=dict)


@register
class Ucf101(ImageSet):
    """Videos of 101 human actions."""

    name = "ucf101"
    VERSION = "2.0.0"
    LABELS = labels_file("ucf101")
    SUPERVISED_KEYS = None
    HOMEPAGE = "https://www.crcv.ucf.edu/data-sets/ucf101/"
    CITATION = (
        "K. Soomro, A. R. Zamir, M. Shah: UCF101: A Dataset of 101 Human Actions Classes From "
        "Videos in The Wild, arXiv:1212.0402, 2012"
    )
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = tuple(
        UcfConfig(
            f"ucf101_{fold}{'_256' if size else ''}",
            description=f"Split {fold}, frames {'of 256 x 256' if size else 'of their own size'}.",
            fold=fold,
            size=size,
            splits={"train": train, "test": 13_320 - train},
        )
        for fold, size, train in ((1, 256, 9_537), (1, None, 9_537), (2, None, 9_586))
        + ((3, None, 9_624),)
    )
    RESOURCES = listed("ucf101")

    def _features(self) -> Mapping[str, Any]:
        size = cast(UcfConfig, self.builder_config).size
        arguments = ("-vf", f"scale={size}x{size}") if size else ()
        video = VideoFeature((None, size, size, 3), "jpeg", arguments)
        return {"video": video, "label": self._label()}

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        fold = cast(UcfConfig, self.builder_config).fold
        parts = ("train", "test")
        names = [f"ucfTrainTestlist/{part}list{fold:02d}.txt" for part in parts]
        lists = read_members(paths["splits"], *names)
        return {
            split: self._generate_examples(paths["videos"], each.decode().splitlines())
            for split, each in zip(parts, lists, strict=True)
        }

    def _generate_examples(self, path: Path, lines: Sequence[str]) -> Examples:
        wanted = {}
        for line in filter(None, map(str.strip, lines)):
            label, _, file = line.split(" ")[0].partition("/")
            # The archive writes this one otherwise than the lists.
            wanted[file.replace("HandStandPushups", "HandstandPushups")] = label
        for name, contents in iter_archive(path):
            label = wanted.pop(posixpath.basename(name), "")
            if label:
                yield posixpath.basename(name), {"video": contents.read(), "label": label}
        if wanted:
            raise ArchiveError(f"{path}: there is no {next(iter(wanted))} in it")


@register
class Kinetics(ImageSet):
    """Videos of human actions, in the folders in which Kinetics is kept: a class each."""

    name = "kinetics"
    VERSION = "1.0.0"
    SUPERVISED_KEYS = ("video", "label")
    HOMEPAGE = "https://github.com/cvdfoundation/kinetics-dataset"
    CITATION = "W. Kay et al.: The Kinetics Human Action Video Dataset, arXiv:1705.06950, 2017"
    LICENSE = "annotations: CC BY 4.0"
    NOTES = (
        "Layout not verified: that of torchvision; TFDS has no such dataset. No checksum is known "
        "of the videos: the folders are taken as they are.",
    )
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = tuple(
        BuilderConfig(f"kinetics{classes}", description=f"{classes} classes.")
        for classes in (400, 600, 700)
    )
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Put the videos into kinetics400/train/CLASS/ and kinetics400/val/CLASS/ (and test, if you "
        "have it) there: files such as ID_000010_000020.mp4, or for each a folder with its frames."
    )

    def _features(self) -> Mapping[str, Any]:
        video = VideoFeature((None, None, None, 3), "jpeg")
        return {"video": video, "label": ClassLabel(), "id": TextFeature()}

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        folder = dl_manager.manual_file(cast(BuilderConfig, self.builder_config).name)
        found = {
            split: folder / part
            for split, part in (("train", "train"), ("validation", "val"), ("test", "test"))
            if (folder / part).is_dir()
        }
        if not found:
            raise FileNotFoundError(f"{folder}: {self.MANUAL_DOWNLOAD_INSTRUCTIONS}")
        names = {each.name for part in found.values() for each in part.iterdir() if each.is_dir()}
        self.info.features["label"].set_names(sorted(names))
        return {split: self._generate_examples(part) for split, part in found.items()}

    def _generate_examples(self, part: Path) -> Examples:
        for path in sorted(part.glob("*/*")):
            if path.name.startswith("."):
                continue
            video: Any = path
            if path.is_dir():
                video = sorted(each for each in path.iterdir() if each.suffix.lower() in FORMATS)
            label = path.parent.name
            yield f"{label}/{path.name}", {"video": video, "label": label, "id": path.stem}
