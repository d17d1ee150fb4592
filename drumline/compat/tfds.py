"""``import drumline.compat.tfds as tfds`` in place of ``import tensorflow_datasets as tfds``.

It gives the datasets of `drumline.datasets` and folders of images, as datasets of
`drumline.compat.tf`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drumline import datasets
from drumline.compat.data.dataset import TensorDataset
from drumline.compat.io import files, images
from drumline.compat.values.boundary import map_structure, unwrap, wrap
from drumline.compat.values.dtypes import as_dtype
from drumline.compat.values.tensor import Tensor
from drumline.data import Dataset
from drumline.datasets import (
    ReadConfig,
    as_dataframe,
    even_splits,
    features,
    show_examples,
    split_for_jax_process,
)
from drumline.datasets.display import NumpyExamples
from drumline.datasets.features import (
    ClassLabel,
    FeaturesDict,
)
from drumline.datasets.features import Image as ImageFeature
from drumline.datasets.features import Text as TextFeature
from drumline.datasets.split_expression import resolve_split

__version__ = "4.9.10"
"""The version of TensorFlow Datasets whose interface is followed."""

_ELSE = (
    "Other data: folders of images by tfds.ImageFolder, a builder of your own by "
    "drumline.datasets.register, or tf.data.Dataset.from_generator."
)
_ABSENT = {
    "core": "subclass drumline.datasets.DatasetBuilder and register it by "
    "drumline.datasets.register",
    "decode": "use drumline.datasets.SkipDecoding, PartialDecoding and make_decoder",
    "TranslateFolder": "use tf.data.TextLineDataset",
    "data_source": "use tfds.load, whose dataset has Dataset.skip and Dataset.take",
    "testing": "use tf.data.Dataset.from_tensor_slices",
    "benchmark": "use drumline.data.Dataset.profile",
}
_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp")


def __getattr__(name: str) -> Any:
    use = _ABSENT.get(name)
    if use is not None:
        raise AttributeError(f"tfds.{name} is not in the look-alike; {use}")
    raise AttributeError(f"tfds.{name} is not in the look-alike, which has {', '.join(__all__)}")


class Split:
    """The names of the usual splits, as ``tfds.Split``."""

    TRAIN, TEST, VALIDATION, ALL = "train", "test", "validation", "all"


class Info:
    """What is known of a dataset, as ``tfds.core.DatasetInfo``.

    Args:
        name: of the dataset.
        features: of an example.
        splits: its splits and their sizes.
        supervised_keys: the names of input and target.
        description: of the data.
        homepage: where they come from.
        citation: whom to cite.
    """

    def __init__(
        self,
        name: str,
        features: FeaturesDict,
        splits: datasets.Splits,
        supervised_keys: tuple[str, str] | None = None,
        description: str = "",
        homepage: str = "",
        citation: str = "",
    ):
        self.name = self.full_name = name
        self.features, self.splits, self.supervised_keys = features, splits, supervised_keys
        self.description, self.homepage, self.citation = description, homepage, citation

    def __repr__(self) -> str:
        splits = ", ".join(f"{name!r}: {each.num_examples}" for name, each in self.splits.items())
        return (
            f"tfds.core.DatasetInfo(\n    name={self.name!r},\n"
            f"    description={self.description!r},\n    homepage={self.homepage!r},\n"
            f"    features={self.features!r},\n    supervised_keys={self.supervised_keys},\n"
            f"    splits={{{splits}}},\n    citation={self.citation!r},\n)"
        )


class Builder:
    """Gives a dataset and what is known of it, as ``tfds.core.DatasetBuilder``.

    Args:
        source: drumline's builder.
    """

    def __init__(self, source: datasets.DatasetBuilder):
        self._source = source
        self.name, self.data_dir = source.name, str(source.data_dir)

    @property
    def info(self) -> Info:
        """What is known of the dataset.

        Raises:
            FileNotFoundError: its files are not there.
        """
        known = self._source.info
        return Info(
            known.name,
            known.features,
            known.splits,
            known.supervised_keys,
            known.description,
            known.source,
            known.citation,
        )

    def download_and_prepare(
        self, *, download_dir: Any = None, download_config: Any = None
    ) -> None:
        """Download and prepare what is not there.

        Args:
            download_dir: for what is downloaded.
            download_config: as of ``drumline.datasets``.

        Raises:
            FileNotFoundError: files have to be put there first; the message says where.
        """
        self._source.download_and_prepare(
            download_dir=download_dir, download_config=download_config
        )

    def as_dataset(
        self,
        split: Any = None,
        *,
        batch_size: int | None = None,
        shuffle_files: bool = False,
        decoders: Any = None,
        read_config: Any = None,
        as_supervised: bool = False,
    ) -> Any:
        """The dataset of a split, or a structure of them; the arguments are those of `load`."""
        given = {
            "shuffle_files": shuffle_files,
            "decoders": decoders,
            "read_config": read_config,
        }
        found = self._of_split(split, as_supervised, given)
        return (
            found if batch_size is None else _of_datasets(found, lambda x: _batched(x, batch_size))
        )

    def _of_split(self, split: Any, as_supervised: bool, given: Mapping[str, Any]) -> Any:
        return wrap(self._source.as_dataset(split, as_supervised=as_supervised, **given))


class ImageFolder(Builder):
    """Pictures in folders, as ``tfds.ImageFolder``: ``root/split/class/picture.jpg``.

    Examples have ``image`` uint8 (height, width, channels), ``label`` int64, and
    ``image/filename``, in the order of their paths.

    Args:
        root_dir: the directory whose directories are the splits.
        shape: of a picture; by default that of each file, with 3 channels.
        dtype: of the pictures: uint8.

    Raises:
        FileNotFoundError: there are no pictures.
    """

    def __init__(self, root_dir: str | os.PathLike[str], *, shape: Any = None, dtype: Any = None):
        if dtype is not None and as_dtype(dtype).name != "uint8":
            raise ValueError(f"tfds.ImageFolder gives uint8, not {as_dtype(dtype).name}: cast it")
        root = Path(root_dir).expanduser()
        self.name, self.data_dir = "image_folder", str(root)
        self._shape = (None, None, 3) if shape is None else tuple(shape)
        self._paths = {
            split.name: sorted(
                path
                for path in split.glob("*/*")
                if path.suffix.lower() in _IMAGE_SUFFIXES and path.is_file()
            )
            for split in sorted(root.iterdir() if root.is_dir() else ())
            if split.is_dir()
        }
        if not any(self._paths.values()):
            raise FileNotFoundError(
                f"no pictures in {root}: they are to be {root}/split/class/x.jpg"
            )
        found = {path.parent.name for paths in self._paths.values() for path in paths}
        self._labels = ClassLabel(names=sorted(found))

    @property
    def info(self) -> Info:
        """What is known of the pictures."""
        return Info(
            self.name,
            FeaturesDict(
                {
                    "image": ImageFeature(self._shape, np.uint8),
                    "image/filename": TextFeature(),
                    "label": self._labels,
                }
            ),
            datasets.Splits({name: len(paths) for name, paths in self._paths.items()}),
            ("image", "label"),
            "Pictures in a directory for each class.",
        )

    def download_and_prepare(
        self, *, download_dir: Any = None, download_config: Any = None
    ) -> None:
        """Do nothing: the pictures are there."""

    def _of_split(self, split: Any, as_supervised: bool, given: Mapping[str, Any]) -> Any:
        _refuse(decoders=given["decoders"], read_config=given["read_config"])
        if split is None:
            return {name: self._of_split(name, as_supervised, given) for name in self._paths}
        if not isinstance(split, str):
            return map_structure(lambda each: self._of_split(each, as_supervised, given), split)
        sizes = self.info.splits.sizes
        chosen = [
            path
            for part in resolve_split(split, sizes)
            for path in self._paths[part.name][part.start : part.stop]
        ]
        labels = np.array([self._labels.str2int(path.parent.name) for path in chosen], np.int64)
        names = np.array([str(path).encode() for path in chosen] or [b""], object)[: len(chosen)]
        shape = self._shape

        def read(path: Any, label: Any) -> Any:
            image = images.decode_image(
                files.read_file(path), channels=shape[-1] or 0, expand_animations=False
            )
            image.set_shape(shape)
            if as_supervised:
                return image, label
            return {"image": image, "image/filename": path, "label": label}

        return TensorDataset.from_tensor_slices((names, labels)).map(read)


class folder_dataset:
    """As ``tfds.folder_dataset``."""

    ImageFolder = ImageFolder


def _refuse(**given: Any) -> None:
    for name, value in given.items():
        if value:
            raise NotImplementedError(
                f"tfds: {name}={value!r:.60} has no effect here; leave it out, and map, shuffle or "
                "shard the dataset instead"
            )


def _batched(dataset: Any, size: int) -> Any:
    """Batches; with the size -1 all of a dataset as tensors."""
    return dataset.batch(len(dataset)).get_single_element() if size == -1 else dataset.batch(size)


def _of_datasets(value: Any, function: Callable[[Any], Any]) -> Any:
    return map_structure(lambda x: function(x) if isinstance(x, TensorDataset) else x, value)


def list_builders() -> list[str]:
    """The names that `load` knows, sorted."""
    return datasets.list_builders()


def builder(
    name: str, *, data_dir: str | os.PathLike[str] | None = None, **options: Any
) -> Builder:
    """The builder of a dataset, as ``tfds.builder``.

    Args:
        name: as of `drumline.datasets.load`, with configuration and version.
        data_dir: where its files are; see `drumline.datasets.load`.
        options: ``config`` and ``version``.

    Raises:
        ValueError: there is no such dataset; the message lists those there are.
        NotImplementedError: another option is given.
    """
    known = {key: options.pop(key, None) for key in ("config", "version")}
    _refuse(**options)
    try:
        return Builder(datasets.builder(name, data_dir=data_dir, **known))
    except ValueError as error:
        if "Unknown dataset" not in str(error):
            raise
        raise ValueError(f"{error} {_ELSE}") from None


def builder_from_directory(builder_dir: str | os.PathLike[str]) -> Builder:
    """The builder of a prepared dataset, as ``tfds.builder_from_directory``.

    Args:
        builder_dir: the directory of a version.

    Raises:
        FileNotFoundError: no prepared dataset is there.
    """
    return Builder(datasets.builder_from_directory(builder_dir))


def load(
    name: str,
    *,
    split: Any = None,
    data_dir: str | os.PathLike[str] | None = None,
    batch_size: int | None = None,
    shuffle_files: bool = False,
    download: bool = True,
    as_supervised: bool = False,
    decoders: Any = None,
    read_config: Any = None,
    with_info: bool = False,
    builder_kwargs: Mapping[str, Any] | None = None,
    download_and_prepare_kwargs: Mapping[str, Any] | None = None,
    as_dataset_kwargs: Mapping[str, Any] | None = None,
    try_gcs: bool = False,
) -> Any:
    """A dataset by its name, as ``tfds.load``.

    Args:
        name: see `builder`.
        split: a split expression, or a structure of them; None for a dictionary of all splits.
        data_dir: where its files are; see `drumline.datasets.load`.
        batch_size: of batches; -1 gives all of a split as tensors.
        shuffle_files: whether files are read in a random order.
        download: whether what is missing is downloaded and prepared.
        as_supervised: give pairs of input and target in place of dictionaries.
        decoders: as of `drumline.datasets.load`.
        read_config: a `ReadConfig`.
        with_info: give the dataset and an `Info`.
        builder_kwargs: of `builder`.
        download_and_prepare_kwargs: arguments of `Builder.download_and_prepare`.
        as_dataset_kwargs: more arguments of `Builder.as_dataset`.
        try_gcs: False: there are no files of Google's to be tried.

    Returns:
        A ``tf.data.Dataset``, or a structure of them.

    Raises:
        ValueError: there is no such dataset or split.
        FileNotFoundError: its files are not there; the message says where to put them.
        NotImplementedError: an argument asks for what is not done.

    Example:
        >>> import drumline.compat.tfds as tfds
        >>> train, info = tfds.load("digits", split="train", as_supervised=True, with_info=True)
        >>> info.features["label"].num_classes, len(train)
        (10, 1442)
    """
    _refuse(try_gcs=try_gcs)
    found = builder(name, data_dir=data_dir, **(builder_kwargs or {}))
    if download:
        found.download_and_prepare(**(download_and_prepare_kwargs or {}))
    given = {
        "split": split,
        "batch_size": batch_size,
        "shuffle_files": shuffle_files,
        "decoders": decoders,
        "read_config": read_config,
        "as_supervised": as_supervised,
        **(as_dataset_kwargs or {}),
    }
    result = found.as_dataset(**given)
    return (result, found.info) if with_info else result


def as_numpy(dataset: Any) -> Any:
    """Datasets and tensors as numpy's arrays, as ``tfds.as_numpy``.

    Args:
        dataset: a dataset, a tensor, or nested ones.

    Returns:
        What is iterated, or an array, in the same structure.
    """

    def of_leaf(leaf: Any) -> Any:
        if isinstance(leaf, TensorDataset):
            return NumpyExamples(leaf)
        if isinstance(leaf, Dataset):
            return leaf
        return leaf.numpy() if type(leaf) is Tensor else unwrap(leaf)

    return map_structure(of_leaf, dataset)


def disable_progress_bar() -> None:
    """Do nothing: none is shown."""


def enable_progress_bar() -> None:
    """Do nothing: there is nothing to download or prepare that would take long."""


for _class, _name in ((Info, "DatasetInfo"), (Builder, "DatasetBuilder")):
    _class.__name__ = _class.__qualname__ = _name

__all__ = [
    "ImageFolder",
    "ReadConfig",
    "Split",
    "as_dataframe",
    "as_numpy",
    "builder",
    "builder_from_directory",
    "disable_progress_bar",
    "enable_progress_bar",
    "even_splits",
    "features",
    "folder_dataset",
    "list_builders",
    "load",
    "show_examples",
    "split_for_jax_process",
]
