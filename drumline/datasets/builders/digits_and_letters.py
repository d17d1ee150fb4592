"""Handwritten characters in IDX files: MNIST and its relatives."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

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
from drumline.datasets.sources.resource import Resource


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


def _four(base: str, files: Sequence[tuple[int, str]]) -> dict[str, Resource]:
    """Return the files of MNIST's names: sizes and checksums of test and training data."""
    names = [
        (f"{split}_{what}s", f"{prefix}-{what}s-idx{rank}-ubyte.gz")
        for split, prefix in (("test", "t10k"), ("train", "train"))
        for what, rank in (("image", 3), ("label", 1))
    ]
    return {
        key: Resource(base + name, size, digest)
        for (key, name), (size, digest) in zip(names, files, strict=True)
    }


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
    RESOURCES: ClassVar[Mapping[str, Resource]] = _four(
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        [
            (1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            (4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
            (9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            (28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        ],
    )

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
    RESOURCES: ClassVar[Mapping[str, Resource]] = _four(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        [
            (4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            (5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
            (26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            (29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        ],
    )


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
    RESOURCES: ClassVar[Mapping[str, Resource]] = _four(
        "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
        [
            (3041136, "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5"),
            (5120, "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c"),
            (18165135, "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4"),
            (29497, "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17"),
        ],
    )


@register
class MovingMnist(GeneratorBasedBuilder):
    """Videos of two digits that move: 20 frames of 64 x 64 pixels of gray."""

    name = "moving_mnist"
    VERSION = "1.0.0"
    RESOURCES: ClassVar[Mapping[str, Resource]] = {
        "all": Resource(
            "http://www.cs.toronto.edu/~nitish/unsupervised_video/mnist_test_seq.npy",
            819200096,
            "c2a3e8d3939c001ab77bf543f130157424efa486bb4d0974d2cebb773b13f8b3",
        )
    }

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
    RESOURCES: ClassVar[Mapping[str, Resource]] = {
        "all": Resource(
            "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
            561753746,
            "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
        )
    }
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
