"""What several datasets have in common: `ImageSet`, `OneFile`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from drumline.datasets.features.media import ImageFeature
from drumline.datasets.features.tensors import ClassLabel
from drumline.datasets.info import SupervisedKeys
from drumline.datasets.prepared.generator import Examples, GeneratorBasedBuilder
from drumline.datasets.sources.manager import DownloadManager


def labels_file(name: str) -> Path:
    """Return the path of a list of names of classes that comes with drumline, a line each."""
    return Path(__file__).parent / "labels" / f"{name}.txt"


class ImageSet(GeneratorBasedBuilder):
    """Pictures with labels, declared by what a subclass sets.

    Attributes:
        SHAPE: of a picture.
        LABELS: the names of the classes, a file with them, or how many there are.
        ENCODING: of a picture that is given as an array.
        MORE: other features.
    """

    SHAPE: ClassVar[tuple[int | None, ...]] = (None, None, 3)
    LABELS: ClassVar[Sequence[str] | Path | int] = 0
    SUPERVISED_KEYS: ClassVar[SupervisedKeys | None] = ("image", "label")
    ENCODING: ClassVar[str | None] = None
    MORE: ClassVar[Mapping[str, Any]] = {}

    def _label(self) -> ClassLabel:
        if isinstance(self.LABELS, int):
            return ClassLabel(self.LABELS)
        if isinstance(self.LABELS, Path):
            return ClassLabel(names_file=self.LABELS)
        return ClassLabel(names=self.LABELS)

    def _more(self) -> Mapping[str, Any]:
        return self.MORE

    def _features(self) -> Mapping[str, Any]:
        image = ImageFeature(self.SHAPE, encoding_format=self.ENCODING)
        return {"image": image, "label": self._label(), **self._more()}


class OneFile(GeneratorBasedBuilder):
    """What is made of one file that is downloaded, and is one split, whose name `SPLITS` says."""

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        (resource,), (split,) = self.resources.values(), self.info.splits
        return {split: self._generate_examples(dl_manager.download(resource))}

    def _generate_examples(self, path: Path) -> Examples:
        """Yield the examples in the file."""
        raise NotImplementedError(f"{type(self).__name__} has no _generate_examples")
