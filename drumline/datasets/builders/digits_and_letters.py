"""Handwritten characters in IDX files: MNIST and its relatives."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar, cast

import numpy as np

from drumline.datasets.builder import DatasetBuilder
from drumline.datasets.builders.image_set import ImageSet
from drumline.datasets.builders.mnist_files import MnistFiles
from drumline.datasets.features.containers import VideoFeature
from drumline.datasets.features.tensors import ClassLabel
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.directories import DatasetName
from drumline.datasets.prepared.generator import BuilderConfig, Examples, GeneratorBasedBuilder
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import iter_archive
from drumline.datasets.sources.idx import parse_idx
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import listed


def _pairs(images: Any, labels: Any, name: str) -> Examples:
    """Yield the pictures and labels of two files."""
    pixels, numbers = parse_idx(images, f"{name}'s images"), parse_idx(labels, f"{name}'s labels")
    for index, (image, label) in enumerate(zip(pixels, numbers, strict=True)):
        yield index, {"image": image[..., None], "label": int(label)}


class _IdxSet(ImageSet):
    """Pairs of an IDX file of pictures and one of labels."""

    SHAPE = (28, 28, 1)
    VERSION = "3.0.1"
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 60_000, "test": 10_000}

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download({key: each.url for key, each in self.RESOURCES.items()})

        def examples(split: str) -> Examples:
            images, labels = (paths[f"{split}_{what}"] for what in ("images", "labels"))
            yield from _pairs(images.read_bytes(), labels.read_bytes(), self.name)

        return {"train": examples("train"), "test": examples("test")}


@register
class Mnist(_IdxSet):
    """Handwritten digits: 28 x 28 pixels of gray."""

    name = "mnist"
    LABELS = 10
    HOMEPAGE = "http://yann.lecun.com/exdb/mnist/"
    CITATION = (
        "Y. LeCun, L. Bottou, Y. Bengio, P. Haffner: Gradient-based learning applied to document "
        "recognition, Proceedings of the IEEE 86(11), 1998"
    )
    RESOURCES = listed("mnist")

    @classmethod
    def open_named(
        cls, wanted: DatasetName, data_dir: str | os.PathLike[str] | None
    ) -> DatasetBuilder:
        """Return the builder; IDX files in the directory, and nothing prepared, are read there."""
        made = cls(data_dir, wanted.config, wanted.version)
        files = MnistFiles(data_dir)
        return files if files.is_there and not made.is_prepared else made


@register
class FashionMnist(_IdxSet):
    """Articles of Zalando's: 28 x 28 pixels of gray."""

    name = "fashion_mnist"
    LABELS = (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    )
    HOMEPAGE = "https://github.com/zalandoresearch/fashion-mnist"
    CITATION = (
        "H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST: a Novel Image Dataset for Benchmarking "
        "Machine Learning Algorithms, arXiv:1708.07747, 2017"
    )
    LICENSE = "MIT"
    RESOURCES = listed("fashion_mnist")


@register
class Kmnist(_IdxSet):
    """Kuzushiji-MNIST: ten handwritten Hiragana, 28 x 28 pixels of gray."""

    name = "kmnist"
    LABELS = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
    HOMEPAGE = "http://codh.rois.ac.jp/kmnist/index.html.en"
    CITATION = (
        "T. Clanuwat, M. Bober-Irizar, A. Kitamoto, A. Lamb, K. Yamamoto, D. Ha: Deep Learning for "
        "Classical Japanese Literature, arXiv:1812.01718, 2018"
    )
    LICENSE = "CC BY-SA 4.0"
    RESOURCES = listed("kmnist")


@register
class MovingMnist(GeneratorBasedBuilder):
    """Videos of two digits that move: 20 frames of 64 x 64 pixels of gray."""

    name = "moving_mnist"
    VERSION = "1.0.0"
    RESOURCES = listed("moving_mnist")

    def _info(self) -> DatasetInfo:
        return self.dataset_info(
            features={"image_sequence": VideoFeature((20, 64, 64, 1))},
            homepage="http://www.cs.toronto.edu/~nitish/unsupervised_video/",
            citation=(
                "N. Srivastava, E. Mansimov, R. Salakhutdinov: Unsupervised Learning of Video "
                "Representations using LSTMs, ICML 2015"
            ),
            splits={"test": 10_000},
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        return {"test": self._generate_examples(dl_manager.download(self.RESOURCES["all"]))}

    def _generate_examples(self, path: Path) -> Examples:
        frames = np.load(path, "r", allow_pickle=False)
        for i in range(frames.shape[1]):
            yield i, {"image_sequence": np.asarray(frames[:, i, :, :, None])}


@dataclasses.dataclass(eq=False)
class EmnistConfig(BuilderConfig):
    """One of EMNIST's six sets.

    Attributes:
        classes: how many there are.
        sizes: of the training and test data.
    """

    classes: int = 0
    sizes: tuple[int, int] = (0, 0)


@register
class Emnist(ImageSet):
    """Handwritten letters and digits, 28 x 28 pixels of gray, mirrored and turned by 90 degrees."""

    name = "emnist"
    VERSION = "3.1.0"
    SHAPE = (28, 28, 1)
    HOMEPAGE = "https://www.nist.gov/itl/products-and-services/emnist-dataset"
    CITATION = (
        "G. Cohen, S. Afshar, J. Tapson, A. van Schaik: EMNIST: Extending MNIST to handwritten "
        "letters, IJCNN 2017"
    )
    RESOURCES = listed("emnist")
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = tuple(
        EmnistConfig(name.lower(), description=f"EMNIST {name}", classes=classes, sizes=sizes)
        for name, classes, sizes in (
            ("ByClass", 62, (697_932, 116_323)),
            ("ByMerge", 47, (697_932, 116_323)),
            ("Balanced", 47, (112_800, 18_800)),
            ("Letters", 37, (88_800, 14_800)),
            ("Digits", 10, (240_000, 40_000)),
            ("MNIST", 10, (60_000, 10_000)),
        )
    )

    def _label(self) -> ClassLabel:
        return ClassLabel(cast(EmnistConfig, self.builder_config).classes)

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        path = dl_manager.download(self.RESOURCES["all"])
        config = cast(EmnistConfig, self.builder_config).name

        def examples(split: str) -> Examples:
            names = [f"emnist-{config}-{split}-{what}-ubyte.gz" for what in _KINDS]
            found: dict[str, bytes] = {}
            for name, contents in iter_archive(path):
                if os.path.basename(name) in names:
                    found[os.path.basename(name)] = cast(BinaryIO, contents).read()
            missing = [name for name in names if name not in found]
            if missing:
                raise FileNotFoundError(f"{path}: there is no {missing[0]} in it")
            yield from _pairs(found[names[0]], found[names[1]], self.name)

        return {"train": examples("train"), "test": examples("test")}


_KINDS = ("images-idx3", "labels-idx1")


@register
class Omniglot(ImageSet):
    """Characters of 50 alphabets, each written by 20 people: 105 x 105 pixels."""

    name = "omniglot"
    VERSION = "3.0.0"
    SHAPE = (105, 105, 3)
    ENCODING = "png"
    LABELS = 1623
    SPLITS: ClassVar[Mapping[str, int]] = {
        "train": 19_280,
        "test": 13_180,
        "small1": 2_720,
        "small2": 3_120,
    }
    HOMEPAGE = "https://github.com/brendenlake/omniglot/"
    CITATION = (
        "B. M. Lake, R. Salakhutdinov, J. B. Tenenbaum: Human-level concept learning through "
        "probabilistic program induction, Science 350(6266), 2015"
    )
    LICENSE = "MIT"
    RESOURCES = listed("omniglot")

    def _more(self) -> Mapping[str, Any]:
        # Their names are set when they were read: each description has features of its own.
        return {"alphabet": ClassLabel(50), "alphabet_char_id": np.int64}

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        rows = [row for path in paths.values() for row, _, _ in _characters(path)]
        names = {label: f"{alphabet}_{number}" for alphabet, number, label in rows}
        self.info.features["alphabet"].set_names(sorted({alphabet for alphabet, _, _ in rows}))
        self.info.features["label"].set_names([names[label] for label in sorted(names)])
        return {split: self._generate_examples(paths[split]) for split in self.SPLITS}

    def _generate_examples(self, path: Path) -> Examples:
        for (alphabet, number, label), file, contents in _characters(path):
            example = {"image": contents.read(), "alphabet": alphabet, "label": label}
            yield f"{alphabet}_{number}_{file}", {**example, "alphabet_char_id": number}


def _characters(path: Path) -> Iterator[tuple[tuple[str, int, int], str, IO[bytes]]]:
    """Yield alphabet, number in it and class of each picture, its name and contents."""
    for name, contents in iter_archive(path):
        found = re.fullmatch(r"[^/]+/([^/]+)/character(\d+)/((\d+)_\d+\.png)", name)
        if found:
            alphabet, number, file, label = found.groups()
            yield (alphabet, int(number) - 1, int(label) - 1), file, contents
