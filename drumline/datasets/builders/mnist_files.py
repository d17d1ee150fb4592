"""The MNIST handwritten digits in IDX files that a user put into a directory."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from drumline.datasets.builder import DatasetBuilder
from drumline.datasets.features import ClassLabel, Image
from drumline.datasets.info import DatasetInfo, Splits
from drumline.datasets.prepared.directories import VARIABLE
from drumline.datasets.sources.idx import IdxError, read_idx

_IMAGES, _LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
_PREFIXES = {"train": "train", "test": "t10k"}
_TEST_EVERY = 10


class MnistFiles(DatasetBuilder):
    """28 x 28 digits: 60,000 for training and 10,000 for testing, or the latter alone, divided."""

    name = "mnist"

    def make_info(self) -> DatasetInfo:
        """Describes the digits found in `data_dir` and their split."""
        sizes = {split: len(columns["label"]) for split, columns in self._columns.items()}
        return DatasetInfo(
            name=self.name,
            splits=Splits(sizes),
            features={
                "image": Image((28, 28, 1)),
                "label": ClassLabel(10),
            },
            supervised_keys=("image", "label"),
            description=(
                "Handwritten digits of 28 x 28 pixels with values 0 to 255. The files train-* and "
                "t10k-* are the splits 'train' and 'test', in the files' order. Where only the "
                "files t10k-* are present, every tenth of their digits is in 'test', the others "
                "in 'train': 9,000 and 1,000 of the usual 10,000."
            ),
            source="IDX files, http://yann.lecun.com/exdb/mnist/",
            citation=(
                "Y. LeCun, L. Bottou, Y. Bengio, P. Haffner: Gradient-based learning applied to "
                "document recognition, Proceedings of the IEEE 86(11), 1998"
            ),
        )

    def read(self, split: str) -> Mapping[str, np.ndarray]:
        """The columns ``image`` (rows, 28, 28, 1) uint8 and ``label`` (rows,) int64."""
        return self._columns[split]

    @functools.cached_property
    def _columns(self) -> dict[str, dict[str, np.ndarray]]:
        test = self._read_pair("test")
        if self._present("train"):
            return {"train": self._read_pair("train"), "test": test}
        in_test = np.arange(len(test["label"])) % _TEST_EVERY == _TEST_EVERY - 1
        return {
            "train": {key: values[~in_test] for key, values in test.items()},
            "test": {key: values[in_test] for key, values in test.items()},
        }

    def _read_pair(self, split: str) -> dict[str, np.ndarray]:
        image_path, label_path = self._path(split, _IMAGES), self._path(split, _LABELS)
        images, labels = read_idx(image_path), read_idx(label_path)
        if images.dtype != np.uint8 or images.shape[1:] != (28, 28):
            raise IdxError(
                f"{image_path}: holds {images.dtype} of shape {images.shape}, not uint8 images "
                f"of 28 x 28"
            )
        if labels.dtype != np.uint8 or labels.shape != images.shape[:1]:
            raise IdxError(
                f"{label_path}: holds {labels.dtype} of shape {labels.shape}, not one uint8 label "
                f"for each of the {len(images)} images in {image_path.name}"
            )
        return {"image": images[..., None], "label": labels.astype(np.int64)}

    def _find(self, split: str, kind: str) -> Path | None:
        plain = f"{_PREFIXES[split]}-{kind}"
        spellings = (plain, plain.replace("-idx", ".idx"))
        candidates = (self.data_dir / f"{name}{end}" for end in ("", ".gz") for name in spellings)
        return next((path for path in candidates if path.is_file()), None)

    def _path(self, split: str, kind: str) -> Path:
        path = self._find(split, kind)
        if path is None:
            raise FileNotFoundError(self._how_to_place_files())
        return path

    def _missing(self, split: str) -> list[str]:
        return [
            f"{_PREFIXES[split]}-{kind}"
            for kind in (_IMAGES, _LABELS)
            if self._find(split, kind) is None
        ]

    @property
    def is_there(self) -> bool:
        """Whether any of the files is in the directory."""
        return any(map(self._present, _PREFIXES))

    def _present(self, split: str) -> bool:
        return len(self._missing(split)) < 2

    def _how_to_place_files(self) -> str:
        missing = [name for split in _PREFIXES for name in self._missing(split)]
        here = "" if self.data_dir.is_dir() else " (there is no such directory)"
        return (
            f"MNIST's files {', '.join(missing)} are not in {self.data_dir}{here}. "
            f"Load it with download=True, or put train-{_IMAGES}, train-{_LABELS}, "
            f"t10k-{_IMAGES} and t10k-{_LABELS}, gzipped (.gz) or not, into that directory; the "
            f"two t10k files alone will do. For another directory, give data_dir or set {VARIABLE}."
        )
