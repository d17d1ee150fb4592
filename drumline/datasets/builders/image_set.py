"""`ImageSet`: what datasets of labelled pictures have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from drumline.datasets.features.media import ImageFeature
from drumline.datasets.features.tensors import ClassLabel
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.generator import GeneratorBasedBuilder


class ImageSet(GeneratorBasedBuilder):
    """Pictures with labels, declared by what a subclass sets.

    Attributes:
        SHAPE: of a picture.
        LABELS: the names of the classes, or how many there are.
        ENCODING: of a picture that is given as an array.
        MORE: other features.
        SPLITS: how many examples each split has.
        HOMEPAGE: where the data come from.
        CITATION: whom to cite.
        LICENSE: under which the data are given.
        NOTES: what else there is to know.
    """

    SHAPE: ClassVar[tuple[int | None, ...]] = (None, None, 3)
    LABELS: ClassVar[Sequence[str] | int] = 0
    ENCODING: ClassVar[str | None] = None
    MORE: ClassVar[Mapping[str, Any]] = {}
    SPLITS: ClassVar[Mapping[str, int]] = {}
    HOMEPAGE: ClassVar[str] = ""
    CITATION: ClassVar[str] = ""
    LICENSE: ClassVar[str] = ""
    NOTES: ClassVar[tuple[str, ...]] = ()

    def _label(self) -> ClassLabel:
        if isinstance(self.LABELS, int):
            return ClassLabel(self.LABELS)
        return ClassLabel(names=self.LABELS)

    def _more(self) -> Mapping[str, Any]:
        return self.MORE

    def _info(self) -> DatasetInfo:
        image = ImageFeature(self.SHAPE, encoding_format=self.ENCODING)
        return self.dataset_info(
            features={"image": image, "label": self._label(), **self._more()},
            supervised_keys=("image", "label"),
            homepage=self.HOMEPAGE,
            citation=self.CITATION,
            license=self.LICENSE,
            splits=self.SPLITS,
            notes=self.NOTES,
        )
