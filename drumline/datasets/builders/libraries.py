"""The datasets that come with scikit-learn, and those of ``keras.datasets``, by these names."""

from __future__ import annotations

import abc
import functools
import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from drumline._backend import keras_home
from drumline._extras import import_extra
from drumline.data import RaggedArray
from drumline.datasets.builder import DatasetBuilder, Preparation
from drumline.datasets.features.containers import SequenceFeature
from drumline.datasets.features.media import ImageFeature
from drumline.datasets.features.tensors import ClassLabel, TensorFeature
from drumline.datasets.info import DatasetInfo, Splits
from drumline.datasets.prepared.directories import DatasetName
from drumline.datasets.prepared.generator import DeclaredConfig, find_config
from drumline.datasets.registry import register

Columns = dict[str, Any]
"""Arrays by the names of features."""


class _LibrarySets(DatasetBuilder):
    """Datasets that a package loads, held in arrays; each is a configuration.

    Args:
        data_dir: not used; the package knows where its files are.
        config: the name of one.

    Raises:
        ValueError: there is none of the name.
    """

    HOMEPAGE: ClassVar[str] = ""
    CITATION: ClassVar[str] = ""
    BUILDER_CONFIGS: ClassVar[Sequence[DeclaredConfig]] = ()

    def __init__(
        self, data_dir: str | os.PathLike[str] | None = None, config: str | None = None
    ) -> None:
        super().__init__(data_dir)
        found = find_config(self.name, self.BUILDER_CONFIGS, config)
        assert isinstance(found, DeclaredConfig)
        self.builder_config = found

    @classmethod
    def open_named(
        cls, wanted: DatasetName, data_dir: str | os.PathLike[str] | None
    ) -> DatasetBuilder:
        """Return the builder of a configuration.

        Raises:
            ValueError: there is no such configuration, or a version is named.
        """
        if wanted.version is not None:
            raise ValueError(f"{wanted.name} has no versions: leave {wanted.version} out")
        return cls(data_dir, wanted.config)

    def make_info(self) -> DatasetInfo:
        """Describe the dataset; sizes are those of the data if they are there."""
        config = self.builder_config
        sizes = dict(config.splits or {})
        if self._is_there:
            sizes = {name: len(each["label"]) for name, each in self._columns.items()}
        return DatasetInfo(
            name=self.name,
            splits=Splits(sizes),
            features=config.features,
            supervised_keys=config.supervised_keys,
            description=(type(self).__doc__ or "").strip(),
            source=config.homepage or self.HOMEPAGE,
            citation=config.citation or self.CITATION,
            config_name=config.name,
            config_description=config.description or "",
        )

    def read(self, split: str) -> Mapping[str, Any]:
        """The columns of a split, as the package gives them."""
        return self._columns[split]

    @property
    @abc.abstractmethod
    def _is_there(self) -> bool:
        """Whether the data can be loaded without a download."""

    @functools.cached_property
    @abc.abstractmethod
    def _columns(self) -> Mapping[str, Columns]:
        """The columns of each split."""


def _numbers(
    name: str, about: str, rows: int | Mapping[str, int], size: int, label: Any = None, **more: Any
) -> DeclaredConfig:
    """Return a configuration of rows of numbers, with a class or a number each."""
    features = {
        "features": TensorFeature((size,), np.float64),
        "label": TensorFeature((), np.float64) if label is None else label,
    }
    splits = {"train": rows} if isinstance(rows, int) else rows
    keys = ("features", "label")
    return DeclaredConfig(
        name, description=about, features=features, supervised_keys=keys, splits=splits, **more
    )


@register
class SklearnSets(_LibrarySets):
    """A dataset that ships with scikit-learn, with nothing to download."""

    name = "sklearn"
    HOMEPAGE = "https://scikit-learn.org/stable/datasets/toy_dataset.html"
    CITATION = (
        "F. Pedregosa et al.: Scikit-learn: Machine Learning in Python, JMLR 12, 2011, and the "
        "sources that its page names"
    )
    BUILDER_CONFIGS: ClassVar[Sequence[DeclaredConfig]] = (
        _numbers(
            "iris",
            "Lengths and widths of the sepals and petals of three kinds of iris.",
            150,
            4,
            ClassLabel(names=["setosa", "versicolor", "virginica"]),
        ),
        _numbers("wine", "Chemical properties of wines of three growers.", 178, 13, ClassLabel(3)),
        _numbers(
            "breast_cancer",
            "Measures of cells, and whether the tumor is benign.",
            569,
            30,
            ClassLabel(names=["malignant", "benign"]),
        ),
        _numbers(
            "diabetes", "Measures of patients, and how far the disease came in a year.", 442, 10
        ),
        _numbers("digits", "8 x 8 pixels of handwritten digits.", 1_797, 64, ClassLabel(10)),
        _numbers(
            "linnerud",
            "What 20 men can do, and their weight, waist and pulse.",
            20,
            3,
            TensorFeature((3,), np.float64),
        ),
    )

    @property
    def _is_there(self) -> bool:
        return True

    @functools.cached_property
    def _columns(self) -> Mapping[str, Columns]:
        purpose = f"The dataset 'sklearn/{self.builder_config.name}'"
        source = import_extra("sklearn.datasets", "demo", purpose)
        values, label = getattr(source, f"load_{self.builder_config.name}")(return_X_y=True)
        return {"train": {"features": values, "label": label}}


_TRAIN_TEST = ("train", "test")
_WORDS = {"tokens": SequenceFeature(TensorFeature((), np.int64))}


def _keras(
    name: str, about: str, sizes: Sequence[int], value: Mapping[str, Any], classes: int
) -> DeclaredConfig:
    (key,) = value
    return DeclaredConfig(
        name,
        description=about,
        features={**value, "label": ClassLabel(classes)},
        supervised_keys=(key, "label"),
        splits=dict(zip(_TRAIN_TEST, sizes, strict=True)),
        homepage=f"https://keras.io/api/datasets/{name}/",
    )


def _image(*shape: int) -> Mapping[str, Any]:
    return {"image": ImageFeature(shape)}


_FASHION = [
    f"{part}-{kind}-ubyte.gz"
    for part in ("train", "t10k")
    for kind in ("images-idx3", "labels-idx1")
]


@register
class KerasSets(_LibrarySets):
    """A dataset of keras.datasets, as it loads it: from its cache, or downloaded by Keras."""

    name = "keras"
    CITATION = (
        "F. Chollet et al.: Keras, https://keras.io, 2015, and the sources that its page names"
    )
    BUILDER_CONFIGS: ClassVar[Sequence[DeclaredConfig]] = (
        _keras("mnist", "Handwritten digits.", (60_000, 10_000), _image(28, 28, 1), 10),
        _keras("fashion_mnist", "Articles of Zalando's.", (60_000, 10_000), _image(28, 28, 1), 10),
        _keras("cifar10", "Small pictures of 10 classes.", (50_000, 10_000), _image(32, 32, 3), 10),
        _keras(
            "cifar100", "Small pictures of 100 classes.", (50_000, 10_000), _image(32, 32, 3), 100
        ),
        _keras("imdb", "Reviews of films as numbers of words.", (25_000, 25_000), _WORDS, 2),
        _keras("reuters", "News as numbers of words, of 46 topics.", (8_982, 2_246), _WORDS, 46),
        _numbers(
            "boston_housing",
            "Parts of Boston, and the median price of a house.",
            {"train": 404, "test": 102},
            13,
            homepage="https://keras.io/api/datasets/boston_housing/",
        ),
        _numbers(
            "california_housing",
            "Districts of California, and the median price of a house.",
            {"train": 16_512, "test": 4_128},
            8,
            homepage="https://keras.io/api/datasets/california_housing/",
        ),
    )
    FILES: ClassVar[Mapping[str, Sequence[str]]] = {
        "fashion_mnist": [f"fashion-mnist/{file}" for file in _FASHION],
        "cifar10": ["cifar-10-batches-py-target"],
        "cifar100": ["cifar-100-python-target"],
    }
    _may_download = False

    @property
    def _is_there(self) -> bool:
        return not self._missing()

    def _missing(self) -> list[Path]:
        name = self.builder_config.name
        home = keras_home()
        home = home if os.access(home, os.W_OK) else Path("/tmp/.keras")  # as Keras does
        files = self.FILES.get(name, [f"{name}.npz"])
        places = [home / "datasets" / file for file in files]
        return [path for path in places if not path.exists()]

    def _prepare(self, wanted: Preparation) -> None:
        """Let Keras download the files, unless they are in its cache."""
        self._may_download = True
        self._columns  # noqa: B018
        self.__dict__.pop("info", None)

    @functools.cached_property
    def _columns(self) -> Mapping[str, Columns]:
        missing = self._missing()
        if missing and not self._may_download:
            raise FileNotFoundError(
                f"keras/{self.builder_config.name}: {', '.join(map(str, missing))} is not there: "
                "load it with download=True, or set KERAS_HOME before keras is imported"
            )
        key, label = self.builder_config.supervised_keys or ("", "")
        module = importlib.import_module(f"keras.datasets.{self.builder_config.name}")
        return {
            split: {key: _column(values), label: _labels(labels)}
            for split, (values, labels) in zip(_TRAIN_TEST, module.load_data(), strict=True)
        }


def _column(values: np.ndarray) -> Any:
    if values.dtype == object:
        return RaggedArray.from_rows([np.asarray(row, np.int64) for row in values])
    return values[..., None] if values.ndim == 3 else values


def _labels(labels: np.ndarray) -> np.ndarray:
    flat = labels.reshape(len(labels))
    return flat if flat.dtype.kind == "f" else flat.astype(np.int64)
