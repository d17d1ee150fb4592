"""``import drumline.compat.tfds as tfds`` in place of ``import tensorflow_datasets as tfds``.

It gives the datasets of `drumline.datasets` and folders of images, as datasets of
`drumline.compat.tf`. Nothing is downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drumline import datasets
from drumline._extras import import_extra
from drumline.compat.data.dataset import TensorDataset
from drumline.compat.io import files, images
from drumline.compat.values.boundary import map_structure, unwrap, wrap
from drumline.compat.values.dtypes import as_dtype
from drumline.compat.values.tensor import Tensor
from drumline.data import Dataset
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
    "decode": "map the dataset instead",
    "ReadConfig": "use tf.data.Options and Dataset.shuffle",
    "TranslateFolder": "use tf.data.TextLineDataset",
    "data_source": "use tfds.load, whose dataset has Dataset.skip and Dataset.take",
    "builder_from_directory": "read its files by tf.data.TFRecordDataset",
    "even_splits": "write the parts as split expressions, such as 'train[:50%]'",
    "split_for_jax_process": "use tf.data.Dataset.shard",
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


class FeatureConnector:
    """What an example has under a name, as ``tfds.features.FeatureConnector``.

    Args:
        shape: of one example's; None for dimensions that differ.
        dtype: of the look-alike.
    """

    def __init__(self, shape: Sequence[int | None], dtype: Any):
        self.shape, self.dtype = tuple(shape), as_dtype(dtype)

    @property
    def np_dtype(self) -> np.dtype:
        """The type as numpy's."""
        kind: np.dtype = self.dtype.as_numpy_dtype
        return np.dtype(kind)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype.name})"


class TensorFeature(FeatureConnector):
    """An array, as ``tfds.features.Tensor``."""


class ImageFeature(FeatureConnector):
    """A picture (height, width, channels) uint8, as ``tfds.features.Image``."""


class TextFeature(FeatureConnector):
    """A string, as ``tfds.features.Text``."""


class ClassLabel(FeatureConnector):
    """A class by its number, as ``tfds.features.ClassLabel``.

    Args:
        num_classes: how many there are, if they have no names.
        names: of the classes, by their numbers.

    Raises:
        ValueError: neither or both are given.
    """

    def __init__(self, num_classes: int | None = None, names: Sequence[str] | None = None):
        super().__init__((), np.int64)
        if (num_classes is None) == (names is None):
            raise ValueError("ClassLabel takes num_classes or names")
        self.names = list(map(str, range(num_classes or 0) if names is None else names))

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.names)

    def int2str(self, int_value: Any) -> str:
        """The name of a class.

        Raises:
            ValueError: there is no such class.
        """
        number = int(int_value)
        if not 0 <= number < len(self.names):
            raise ValueError(f"There are the classes 0 to {len(self.names) - 1}, and not {number}")
        return self.names[number]

    def str2int(self, str_value: str) -> int:
        """The number of a class.

        Raises:
            ValueError: there is no such class.
        """
        if str_value not in self.names:
            raise ValueError(f"No class {str_value!r}; there are {', '.join(self.names)}")
        return self.names.index(str_value)

    def __repr__(self) -> str:
        return f"ClassLabel(shape=(), dtype=int64, num_classes={self.num_classes})"


class FeaturesDict(Mapping[str, FeatureConnector]):
    """Features by their names, as ``tfds.features.FeaturesDict``."""

    def __init__(self, feature_dict: Mapping[str, FeatureConnector]):
        self._features = dict(feature_dict)

    @property
    def shape(self) -> dict[str, tuple[int | None, ...]]:
        """The shapes, by name."""
        return {name: each.shape for name, each in self._features.items()}

    @property
    def dtype(self) -> dict[str, Any]:
        """The types, by name."""
        return {name: each.dtype for name, each in self._features.items()}

    def __getitem__(self, name: str) -> FeatureConnector:
        return self._features[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __repr__(self) -> str:
        lines = (f"    {name!r}: {each!r}," for name, each in self._features.items())
        return "\n".join(["FeaturesDict({", *lines, "})"])


class features:
    """The classes of features, as ``tfds.features``."""

    FeatureConnector = FeatureConnector
    Tensor = TensorFeature
    Image = ImageFeature
    Text = TextFeature
    ClassLabel = ClassLabel
    FeaturesDict = FeaturesDict


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
        made = {name: self._feature(name, spec) for name, spec in known.features.items()}
        return Info(
            known.name,
            FeaturesDict(made),
            known.splits,
            known.supervised_keys,
            known.description,
            known.source,
            known.citation,
        )

    def _feature(self, name: str, spec: Any) -> FeatureConnector:
        keys = self._source.info.supervised_keys
        if np.dtype(spec.dtype).kind in "OS":
            return TextFeature(spec.shape, "string")
        if keys is not None and name == keys[1] and np.dtype(spec.dtype).kind in "iu":
            splits = self._source.info.splits
            largest = (int(self._source.read(split)[name].max(initial=-1)) for split in splits)
            return ClassLabel(max(largest) + 1)
        is_image = len(spec.shape) == 3 and np.dtype(spec.dtype) == np.uint8
        return (ImageFeature if is_image else TensorFeature)(spec.shape, spec.dtype)

    def download_and_prepare(
        self, *, download_dir: Any = None, download_config: Any = None
    ) -> None:
        """See that the files are there: nothing is downloaded, and they are read as they are.

        Raises:
            FileNotFoundError: they are not; the message says where to put them.
        """
        self._source.info  # noqa: B018

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
        _refuse(decoders=decoders, read_config=read_config)
        found = self._of_split(split, as_supervised)
        return (
            found if batch_size is None else _of_datasets(found, lambda x: _batched(x, batch_size))
        )

    def _of_split(self, split: Any, as_supervised: bool) -> Any:
        return wrap(self._source.as_dataset(split, as_supervised))


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
                    "image/filename": TextFeature((), "string"),
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

    def _of_split(self, split: Any, as_supervised: bool) -> Any:
        if split is None:
            return {name: self._of_split(name, as_supervised) for name in self._paths}
        if not isinstance(split, str):
            return map_structure(lambda each: self._of_split(each, as_supervised), split)
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
        name: one of `list_builders`; a version, as in ``"mnist:3.0.1"``, is left out.
        data_dir: where its files are; see `drumline.datasets.load`.
        options: none: datasets here have no configurations.

    Raises:
        ValueError: there is no such dataset; the message lists those there are.
        NotImplementedError: an option, or a configuration, is given.
    """
    base, _, _ = name.partition(":")
    base, _, configuration = base.partition("/")
    _refuse(**options)
    if base not in datasets.list_builders():
        try:
            datasets.builder(base)
        except ValueError as error:
            raise ValueError(f"{error} {_ELSE}") from None
    # As "mnist/3.0.1", which names a version.
    if configuration and not configuration[0].isdigit():
        raise NotImplementedError(f"{base} has no configuration {configuration!r}: leave it out")
    return Builder(datasets.builder(base, data_dir))


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
        shuffle_files: accepted: a split here is one file; use `Dataset.shuffle`.
        download: accepted: nothing is downloaded.
        as_supervised: give pairs of input and target in place of dictionaries.
        decoders: None: map the dataset instead.
        read_config: None: use `Dataset.shuffle` and `tf.data.Options`.
        with_info: give the dataset and an `Info`.
        builder_kwargs: of `builder`.
        download_and_prepare_kwargs: accepted: there is nothing to prepare.
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
    given = {
        "split": split,
        "batch_size": batch_size,
        "decoders": decoders,
        "read_config": read_config,
        "as_supervised": as_supervised,
        **(as_dataset_kwargs or {}),
    }
    result = found.as_dataset(**given)
    return (result, found.info) if with_info else result


class NumpyDataset:
    """A dataset whose elements have numpy's arrays, as `as_numpy` gives; it is iterated again."""

    def __init__(self, dataset: TensorDataset):
        self._dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        return iter(self._dataset.as_numpy_iterator())

    def __len__(self) -> int:
        return len(self._dataset)


def as_numpy(dataset: Any) -> Any:
    """Datasets and tensors as numpy's arrays, as ``tfds.as_numpy``.

    Args:
        dataset: a dataset, a tensor, or nested ones.

    Returns:
        What is iterated, or an array, in the same structure.
    """

    def of_leaf(leaf: Any) -> Any:
        if isinstance(leaf, TensorDataset):
            return NumpyDataset(leaf)
        if isinstance(leaf, Dataset):
            return leaf
        return leaf.numpy() if type(leaf) is Tensor else unwrap(leaf)

    return map_structure(of_leaf, dataset)


def _named(element: Any, info: Info | None) -> dict[str, Any]:
    """An example's values by their names, nested ones with a slash between."""
    if isinstance(element, tuple):
        keys = None if info is None else info.supervised_keys
        names = keys if keys is not None and len(keys) == len(element) else range(len(element))
        element = dict(zip(map(str, names), element, strict=True))
    if not isinstance(element, Mapping):
        return {"": element}
    found: dict[str, Any] = {}
    for name, value in element.items():
        for inner, each in (
            _named(value, None).items() if isinstance(value, Mapping) else [("", value)]
        ):
            found[f"{name}/{inner}" if inner else str(name)] = each
    return found


def as_dataframe(ds: Any, ds_info: Info | None = None) -> Any:
    """A dataset as a table of pandas, as ``tfds.as_dataframe``.

    Args:
        ds: a dataset that is not batched; all of it is read.
        ds_info: from which columns of pairs get their names.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    pandas = import_extra("pandas", "tutorials", "tfds.as_dataframe")
    rows = [_named(element, ds_info) for element in ds.as_numpy_iterator()]
    return pandas.DataFrame(rows)


def show_examples(
    ds: Any, ds_info: Info, *, rows: int = 3, cols: int = 3, plot_scale: float = 3.0
) -> Any:
    """Draw the first pictures of a dataset with their classes, as ``tfds.show_examples``.

    Args:
        ds: a dataset that is not batched, of dictionaries or pairs.
        ds_info: of it.
        rows: of pictures.
        cols: of pictures.
        plot_scale: inches of a picture.

    Returns:
        The figure of matplotlib's.

    Raises:
        ValueError: it has no pictures.
        MissingExtraError: matplotlib is not installed.
    """
    image_key = next(
        (name for name, each in ds_info.features.items() if isinstance(each, ImageFeature)), None
    )
    if image_key is None:
        raise ValueError(f"{ds_info.name} has no pictures, but {', '.join(ds_info.features)}")
    labels = {name: each for name, each in ds_info.features.items() if isinstance(each, ClassLabel)}
    pyplot = import_extra("matplotlib.pyplot", "profile", "tfds.show_examples")
    figure = pyplot.figure(figsize=(plot_scale * cols, plot_scale * rows))
    for number, element in enumerate(ds.take(rows * cols).as_numpy_iterator()):
        example = _named(element, ds_info)
        axes = figure.add_subplot(rows, cols, number + 1)
        axes.set_axis_off()
        picture = np.asarray(example[image_key])
        axes.imshow(picture[..., 0] if picture.shape[-1] == 1 else picture, cmap="gray")
        named = [(name, each) for name, each in labels.items() if name in example]
        axes.set_title(
            ", ".join(f"{each.int2str(example[name])} ({example[name]})" for name, each in named)
        )
    return figure


def disable_progress_bar() -> None:
    """Do nothing: none is shown."""


def enable_progress_bar() -> None:
    """Do nothing: there is nothing to download or prepare that would take long."""


for _class, _name in (
    (TensorFeature, "Tensor"),
    (ImageFeature, "Image"),
    (TextFeature, "Text"),
    (Info, "DatasetInfo"),
    (Builder, "DatasetBuilder"),
):
    _class.__name__ = _class.__qualname__ = _name

__all__ = [
    "ImageFolder",
    "Split",
    "as_dataframe",
    "as_numpy",
    "builder",
    "disable_progress_bar",
    "enable_progress_bar",
    "features",
    "folder_dataset",
    "list_builders",
    "load",
    "show_examples",
]
