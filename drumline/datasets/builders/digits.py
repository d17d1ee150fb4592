"""scikit-learn's handwritten digits, which ship with that package."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from drumline._extras import import_extra
from drumline.datasets.builder import DatasetBuilder
from drumline.datasets.features import ClassLabel, Image
from drumline.datasets.info import DatasetInfo, Splits
from drumline.datasets.registry import register

_TEST_EVERY = 5


@register
class Digits(DatasetBuilder):
    """1,797 digits of 8 x 8 pixels, of which every fifth of each class is for testing."""

    name = "digits"

    def make_info(self) -> DatasetInfo:
        """Describes the digits and their split."""
        sizes = {split: len(self.read(split)["label"]) for split in ("train", "test")}
        return DatasetInfo(
            name=self.name,
            splits=Splits(sizes),
            features={"image": Image((8, 8, 1)), "label": ClassLabel(10)},
            supervised_keys=("image", "label"),
            description=(
                "1,797 handwritten digits of 8 x 8 pixels with values 0 to 16. Of each class's "
                "digits, in the file's order, every fifth is in the split 'test', the others in "
                "'train'; both keep the file's order."
            ),
            source="sklearn.datasets.load_digits (the test part of the UCI data)",
            citation=(
                "E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI Machine "
                "Learning Repository, 1998, https://doi.org/10.24432/C50P49"
            ),
        )

    def read(self, split: str) -> Mapping[str, np.ndarray]:
        """The columns ``image`` (rows, 8, 8, 1) uint8 and ``label`` (rows,) int64."""
        images, labels, in_test = _digits()
        chosen = in_test if split == "test" else ~in_test
        return {"image": images[chosen], "label": labels[chosen]}


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    purpose = "The dataset 'digits', which is part of scikit-learn,"
    source = import_extra("sklearn.datasets", "demo", purpose)
    values, labels = source.load_digits(return_X_y=True)
    images = values.reshape(-1, 8, 8, 1).astype(np.uint8)
    in_test = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        in_test[np.flatnonzero(labels == label)[_TEST_EVERY - 1 :: _TEST_EVERY]] = True
    return images, labels.astype(np.int64), in_test
