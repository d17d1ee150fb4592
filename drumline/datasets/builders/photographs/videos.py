"""Videos of what people do: UCF101, and folders as Kinetics has them. ffmpeg takes frames out."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from drumline.datasets.builders.image_set import ImageSet, labels_file
from drumline.datasets.features.containers import VideoFeature
from drumline.datasets.features.tensors import ClassLabel, TextFeature
from drumline.datasets.folders.images import FORMATS
from drumline.datasets.prepared.generator import BuilderConfig, Examples
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import ArchiveError, iter_archive, read_members
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import listed


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
    SUPERVISED = None
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
    SUPERVISED = ("video", "label")
    HOMEPAGE = "https://github.com/cvdfoundation/kinetics-dataset"
    CITATION = "W. Kay et al.: The Kinetics Human Action Video Dataset, arXiv:1705.06950, 2017"
    LICENSE = "annotations: CC BY 4.0"
    NOTES = ("Layout not verified: that of torchvision; TFDS has no such dataset.",)
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
