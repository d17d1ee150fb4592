"""Small pictures: digits, letters and clothes in IDX files, CIFAR, SVHN, STL-10."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar, cast

import numpy as np

from drumline._extras import import_extra
from drumline.datasets.builder import DatasetBuilder
from drumline.datasets.builders.bases import ImageSet, OneFile
from drumline.datasets.builders.mnist_files import MnistFiles
from drumline.datasets.features import Image
from drumline.datasets.features.containers import VideoFeature
from drumline.datasets.features.tensors import ClassLabel, TextFeature
from drumline.datasets.info import DatasetInfo, Splits
from drumline.datasets.prepared.directories import DatasetName
from drumline.datasets.prepared.generator import BuilderConfig, Examples
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import ArchiveError, iter_archive
from drumline.datasets.sources.idx import parse_idx
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import listed

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
class MovingMnist(OneFile):
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


_CIFAR = (
    "A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, technical report, "
    "University of Toronto, 2009"
)


@register
class Cifar10(ImageSet):
    """Photographs of ten classes: 32 x 32 pixels in color."""

    name = "cifar10"
    VERSION = "3.0.2"
    SHAPE = (32, 32, 3)
    LABELS: ClassVar[Sequence[str] | int] = (
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    )
    MORE: ClassVar[Mapping[str, Any]] = {"id": TextFeature()}
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 50_000, "test": 10_000}
    HOMEPAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
    CITATION = _CIFAR
    RESOURCES = listed("cifar10")
    FOLDER = "cifar-10-batches-bin"
    FILES: ClassVar[Mapping[str, list[str]]] = {
        "train": [f"data_batch_{i}.bin" for i in range(1, 6)],
        "test": ["test_batch.bin"],
    }
    KEYS: ClassVar[Mapping[str, str]] = {"label": "batches.meta.txt"}

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        folder = dl_manager.download_and_extract(self.RESOURCES["all"]) / self.FOLDER
        for key, file in self.KEYS.items():
            names = [name for name in (folder / file).read_text().split("\n") if name]
            if self.info.features[key].names != names:
                self.info.features[key].set_names(names)
        return {
            split: self._generate_examples(split, [folder / name for name in names])
            for split, names in self.FILES.items()
        }

    def _generate_examples(self, split: str, paths: list[Path]) -> Examples:
        labels, index = len(self.KEYS), 0
        for path in paths:
            content = np.frombuffer(path.read_bytes(), np.uint8)
            if content.size % (labels + 3072):
                raise ArchiveError(
                    f"{path}: {content.size} bytes are no multiple of a record's {labels + 3072}"
                )
            for row in content.reshape(-1, labels + 3072):
                example = dict(zip(self.KEYS, row[:labels].tolist(), strict=True))
                image = row[labels:].reshape(3, 32, 32).transpose(1, 2, 0)
                yield index, {**example, "id": f"{split}_{index:05d}", "image": image}
                index += 1


@register
class Cifar100(Cifar10):
    """Photographs of 100 classes in 20 superclasses: 32 x 32 pixels in color."""

    name = "cifar100"
    LABELS = 100
    RESOURCES = listed("cifar100")
    FOLDER = "cifar-100-binary"
    FILES: ClassVar[Mapping[str, list[str]]] = {"train": ["train.bin"], "test": ["test.bin"]}
    KEYS: ClassVar[Mapping[str, str]] = {
        "coarse_label": "coarse_label_names.txt",
        "label": "fine_label_names.txt",
    }

    def _more(self) -> Mapping[str, Any]:
        # Their names are set when they were read: each description has features of its own.
        return {**super()._more(), "coarse_label": ClassLabel(20)}


@register
class SvhnCropped(ImageSet):
    """House numbers of Google Street View, a digit each: 32 x 32 pixels in color."""

    name = "svhn_cropped"
    VERSION = "3.1.0"
    SHAPE = (32, 32, 3)
    LABELS = 10
    MORE: ClassVar[Mapping[str, Any]] = {"id": TextFeature()}
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 73_257, "test": 26_032, "extra": 531_131}
    HOMEPAGE = "http://ufldl.stanford.edu/housenumbers/"
    CITATION = (
        "Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu, A. Y. Ng: Reading Digits in Natural "
        "Images with Unsupervised Feature Learning, NIPS Workshop 2011"
    )
    RESOURCES = listed("svhn_cropped")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        return {split: self._generate_examples(split, path) for split, path in paths.items()}

    def _generate_examples(self, split: str, path: Path) -> Examples:
        data = read_mat(path, "svhn_cropped")
        for i, label in enumerate(data["y"].reshape(-1).tolist()):
            image = np.ascontiguousarray(data["X"][..., i])
            yield i, {"image": image, "label": label % 10, "id": f"{split}_{i:06d}"}


def read_mat(path: Any, name: str) -> Any:
    """Return the variables in a file of MATLAB's, given by its path or open.

    Raises:
        MissingExtraError: scipy is not installed.
        ArchiveError: it is no such file.
    """
    scipy = import_extra("scipy.io", "demo", f"The dataset {name!r}, whose files are MATLAB's,")
    try:
        return scipy.loadmat(path)
    except (ValueError, TypeError, NotImplementedError, OSError) as error:
        raise ArchiveError(f"{path}: it is no file of MATLAB's: {error}") from error


@register
class Stl10(ImageSet):
    """Photographs of ten classes, and many without a label: 96 x 96 pixels in color."""

    name = "stl10"
    VERSION = "1.0.0"
    SHAPE = (96, 96, 3)
    LABELS = 10
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 5_000, "test": 8_000, "unlabelled": 100_000}
    HOMEPAGE = "http://ai.stanford.edu/~acoates/stl10/"
    CITATION = (
        "A. Coates, H. Lee, A. Y. Ng: An Analysis of Single Layer Networks in Unsupervised Feature "
        "Learning, AISTATS 2011"
    )
    RESOURCES = listed("stl10")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        folder = dl_manager.download_and_extract(self.RESOURCES["all"]) / "stl10_binary"
        names = (folder / "class_names.txt").read_text().split()
        self.info.features["label"].set_names(names)
        return {
            "train": self._generate_examples(folder, "train", True),
            "test": self._generate_examples(folder, "test", True),
            "unlabelled": self._generate_examples(folder, "unlabeled", False),
        }

    def _generate_examples(self, folder: Path, name: str, labelled: bool) -> Examples:
        images = np.memmap(folder / f"{name}_X.bin", np.uint8, "r").reshape(-1, 3, 96, 96)
        labels = np.fromfile(folder / f"{name}_y.bin", np.uint8) if labelled else None
        for i, image in enumerate(images):
            label = -1 if labels is None else int(labels[i]) - 1
            yield i, {"image": np.asarray(image.transpose(2, 1, 0)), "label": label}


@register
class PatchCamelyon(ImageSet):
    """Lymph nodes under the microscope, with a tumor in the middle or not: 96 x 96 pixels."""

    name = "patch_camelyon"
    VERSION = "2.0.0"
    SHAPE = (96, 96, 3)
    ENCODING = "png"
    LABELS = 2
    MORE: ClassVar[Mapping[str, Any]] = {"id": TextFeature()}
    SPLITS: ClassVar[Mapping[str, int]] = {
        "test": 32_768,
        "train": 262_144,
        "validation": 32_768,
    }
    HOMEPAGE = "https://patchcamelyon.grand-challenge.org/"
    CITATION = (
        "B. S. Veeling, J. Linmans, J. Winkens, T. Cohen, M. Welling: Rotation Equivariant CNNs "
        "for Digital Pathology, arXiv:1806.03962, 2018"
    )
    LICENSE = "CC0"
    RESOURCES = listed("patch_camelyon")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        folders = dl_manager.download_and_extract(dict(self.RESOURCES))
        paths = {name: next(folder.glob("*.h5")) for name, folder in folders.items()}
        return {
            split: self._generate_examples(part, paths[f"{part}_x"], paths[f"{part}_y"])
            for split, part in (("test", "test"), ("train", "train"), ("validation", "valid"))
        }

    def _generate_examples(self, part: str, images: Path, labels: Path) -> Examples:
        import h5py  # it takes a while

        try:
            with h5py.File(images, "r") as x, h5py.File(labels, "r") as y:
                for i, (image, label) in enumerate(zip(x["x"], y["y"], strict=True)):
                    key = f"{part}_{i}"
                    yield key, {"image": image, "label": label.item(), "id": key}
        except (OSError, KeyError) as error:
            raise ArchiveError(
                f"{images}: it is not the HDF5 file it should be: {error}"
            ) from error
