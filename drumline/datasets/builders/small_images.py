"""Small pictures in binary files: CIFAR, SVHN and STL-10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from drumline._extras import import_extra
from drumline.datasets.builders.image_set import ImageSet
from drumline.datasets.features.tensors import ClassLabel, TextFeature
from drumline.datasets.prepared.generator import Examples
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import ArchiveError
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import listed

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
