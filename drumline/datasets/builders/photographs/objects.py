"""Photographs in which objects are marked: PASCAL VOC, COCO."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from drumline.datasets.builders.image_set import ImageSet
from drumline.datasets.features.containers import SequenceFeature
from drumline.datasets.features.media import ImageFeature
from drumline.datasets.features.tensors import BBox, BBoxFeature, ClassLabel, TextFeature
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
    SUPERVISED = None
    HOMEPAGE = "http://host.robots.ox.ac.uk/pascal/VOC/"
    CITATION = (
        "M. Everingham, L. Van Gool, C. K. I. Williams, J. Winn, A. Zisserman: The PASCAL Visual "
        "Object Classes Challenge 2007, and 2012"
    )
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = tuple(
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
            yield (
                name,
                {
                    "image": folder / "JPEGImages" / f"{name}.jpg",
                    "image/filename": f"{name}.jpg",
                    "objects": objects,
                    "labels": sorted({each["label"] for each in objects}),
                    "labels_no_difficult": sorted({each["label"] for each in easy}),
                },
            )


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


@register
class Coco(ImageSet):
    """Common objects in context: photographs in which objects of 80 kinds are marked."""

    name = "coco"
    VERSION = "1.1.0"
    SUPERVISED = None
    HOMEPAGE = "http://cocodataset.org/#home"
    CITATION = "T.-Y. Lin et al.: Microsoft COCO: Common Objects in Context, arXiv:1405.0312, 2014"
    LICENSE = "annotations: CC BY 4.0"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = (
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
    RESOURCES = listed("coco")

    @property
    def _prefix(self) -> str:
        return "panoptic_" if cast(BuilderConfig, self.builder_config).name[4:] else ""

    def _features(self) -> Mapping[str, Any]:
        each = {
            "id": np.int64,
            "area": np.int64,
            "bbox": BBoxFeature(),
            "label": ClassLabel(133 if self._prefix else 80),
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
            **(panoptic if self._prefix else {}),
            f"{self._prefix}objects": SequenceFeature(each),
        }

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
            notes = f"annotations/{kind}{images}.json"
            found[split] = self._generate_examples(paths[images], paths[lists], notes, masks)
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
            picture = known.pop(name.rpartition("/")[2], None)
            if picture is None:
                continue
            found = marked.get(picture["id"], [])
            example = {
                "image": contents.read(),
                "image/filename": picture["file_name"],
                "image/id": picture["id"],
            }
            if masks is not None:
                (mask,) = found
                example["panoptic_image"] = masks / mask["file_name"]
                example["panoptic_image/filename"] = mask["file_name"]
                found = mask["segments_info"]
            else:
                found = sorted(found, key=lambda each: each["id"])
            objects = [_marked(each, picture, names) for each in found]
            yield picture["file_name"], {**example, f"{self._prefix}objects": objects}
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
