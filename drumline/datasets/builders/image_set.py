"""`ImageSet`: what datasets of labelled pictures have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from drumline.datasets.features.media import ImageFeature
from drumline.datasets.features.tensors import ClassLabel
from drumline.datasets.info import SupervisedKeys
from drumline.datasets.prepared.generator import GeneratorBasedBuilder


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
