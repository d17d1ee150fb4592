"""What people liked and clicked at, and the datasets of scikit-learn and ``keras.datasets``."""

from __future__ import annotations

import abc
import csv
import dataclasses
import functools
import importlib
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from drumline._backend import keras_home
from drumline._extras import import_extra
from drumline.data import RaggedArray
from drumline.datasets.builder import DatasetBuilder, Preparation
from drumline.datasets.builders.bases import OneFile
from drumline.datasets.features.containers import SequenceFeature
from drumline.datasets.features.media import ImageFeature
from drumline.datasets.features.tensors import ClassLabel, TensorFeature
from drumline.datasets.info import DatasetInfo, Splits
from drumline.datasets.prepared.directories import DatasetName
from drumline.datasets.prepared.generator import (
    DeclaredConfig,
    Examples,
    GeneratorBasedBuilder,
    find_config,
)
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import member_of, opened
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import listed


def _named(names: str) -> list[str]:
    return names.split("|")


_GENRES = _named(
    "Action|Adventure|Animation|Children|Comedy|Crime|Documentary|Drama|Fantasy|Film-Noir|"
    "Horror|IMAX|Musical|Mystery|Romance|Sci-Fi|Thriller|Unknown|War|Western|"
    "(no genres listed)"
)
_GENRES_OF_100K = ["Unknown", *(each for each in _GENRES[:-1] if each not in ("IMAX", "Unknown"))]
_OCCUPATIONS = _named(
    "academic/educator|artist|clerical/admin|customer service|doctor/health care|"
    "entertainment|executive/managerial|farmer|homemaker|lawyer|librarian|"
    "other/not specified|programmer|retired|sales/marketing|scientist|self-employed|student|"
    "technician/engineer|tradesman/craftsman|unemployed|writer"
)
_OCCUPATIONS_OF_1M = _named(
    "other/not specified|academic/educator|artist|clerical/admin|college/grad student|"
    "customer service|doctor/health care|executive/managerial|farmer|homemaker|K-12 student|"
    "lawyer|programmer|retired|sales/marketing|scientist|self-employed|technician/engineer|"
    "tradesman/craftsman|unemployed|writer"
)
_OCCUPATION_OF = {
    "administrator": "clerical/admin",
    "doctor": "doctor/health care",
    "educator": "academic/educator",
    "engineer": "technician/engineer",
    "executive": "executive/managerial",
    "healthcare": "doctor/health care",
    "marketing": "sales/marketing",
    "none": "other/not specified",
    "other": "other/not specified",
    "salesman": "sales/marketing",
    "technician": "technician/engineer",
    "K-12 student": "student",
    "college/grad student": "student",
}
"""The occupations of 100k and 1m that have another name, or are one with others."""

_AGES = (18, 25, 35, 45, 50, 56)
_TEXT = TensorFeature((), str)
_MOVIE: dict[str, Any] = {
    "movie_id": _TEXT,
    "movie_title": _TEXT,
    "movie_genres": SequenceFeature(ClassLabel(names=_GENRES)),
}
_RATING: dict[str, Any] = {"user_id": _TEXT, "user_rating": np.float32, "timestamp": np.int64}
_PERSON: dict[str, Any] = {
    "user_gender": np.bool_,
    "bucketized_user_age": np.float32,
    "user_occupation_label": ClassLabel(names=_OCCUPATIONS),
    "user_occupation_text": _TEXT,
    "user_zip_code": _TEXT,
}

Rows = Iterator[dict[str, Any]]


def _table(path: Path, member: str) -> Iterator[dict[str, str]]:
    with member_of(path, member) as file:
        yield from csv.DictReader(io.TextIOWrapper(file, "utf-8"))


def _split(path: Path, member: str, separator: str) -> Iterator[list[str]]:
    with member_of(path, member) as file:
        for line in file:
            yield line.decode("iso-8859-1").strip().split(separator)


def _movies(path: Path, folder: str) -> Rows:
    """Yield the movies of 20m, 25m and latest-small."""
    for row in _table(path, f"{folder}/movies.csv"):
        genres = row["genres"].split("|")
        yield {"movie_id": row["movieId"], "movie_title": row["title"], "movie_genres": genres}


def _movies_of_1m(path: Path, folder: str) -> Rows:
    for key, title, genres in _split(path, f"{folder}/movies.dat", "::"):
        named = ["Children" if each == "Children's" else each for each in genres.split("|")]
        yield {"movie_id": key, "movie_title": title, "movie_genres": named}


def _movies_of_100k(path: Path, folder: str) -> Rows:
    for key, title, _, _, _, *flags in _split(path, f"{folder}/u.item", "|"):
        genres = [name for name, flag in zip(_GENRES_OF_100K, flags, strict=False) if flag == "1"]
        yield {"movie_id": key, "movie_title": title, "movie_genres": genres}


def _rated(user: str, rating: str, timestamp: str) -> dict[str, Any]:
    return {"user_id": user, "user_rating": float(rating), "timestamp": int(timestamp)}


def _ratings(path: Path, folder: str) -> Rows:
    movies = {movie["movie_id"]: movie for movie in _movies(path, folder)}
    for row in _table(path, f"{folder}/ratings.csv"):
        yield {**_rated(row["userId"], row["rating"], row["timestamp"]), **movies[row["movieId"]]}


def _person(gender: str, age: float, occupation: str, zip_code: str) -> dict[str, Any]:
    return {
        "user_gender": gender == "M",
        "bucketized_user_age": age,
        "user_occupation_label": _OCCUPATION_OF.get(occupation, occupation),
        "user_occupation_text": occupation,
        "user_zip_code": zip_code,
    }


def _ratings_of_1m(path: Path, folder: str) -> Rows:
    movies = {movie["movie_id"]: movie for movie in _movies_of_1m(path, folder)}
    people = {
        key: _person(gender, float(age), _OCCUPATIONS_OF_1M[int(occupation)], zip_code)
        for key, gender, age, occupation, zip_code in _split(path, f"{folder}/users.dat", "::")
    }
    for user, movie, rating, timestamp in _split(path, f"{folder}/ratings.dat", "::"):
        yield {**_rated(user, rating, timestamp), **movies[movie], **people[user]}


def _ratings_of_100k(path: Path, folder: str) -> Rows:
    movies = {movie["movie_id"]: movie for movie in _movies_of_100k(path, folder)}
    people = {}
    for key, age, gender, occupation, zip_code in _split(path, f"{folder}/u.user", "|"):
        bucket = max((each for each in _AGES if each <= int(age)), default=1)
        person = _person(gender, float(bucket), occupation, zip_code)
        people[key] = {**person, "raw_user_age": float(age)}
    for user, movie, rating, timestamp in _split(path, f"{folder}/u.data", "\t"):
        yield {**_rated(user, rating, timestamp), **movies[movie], **people[user]}


@dataclasses.dataclass(eq=False)
class MovielensConfig(DeclaredConfig):
    """A size of MovieLens, its movies or its ratings.

    Attributes:
        rows: what yields examples of an archive's folder.
    """

    rows: Callable[[Path, str], Rows] = _ratings


_SIZES: Sequence[tuple[str, int, int, Any, Any, Mapping[str, Any]]] = (
    ("25m", 25_000_095, 62_423, _ratings, _movies, {}),
    ("latest-small", 100_836, 9_742, _ratings, _movies, {}),
    ("100k", 100_000, 1_682, _ratings_of_100k, _movies_of_100k, {"raw_user_age": np.float32}),
    ("1m", 1_000_209, 3_883, _ratings_of_1m, _movies_of_1m, {}),
    ("20m", 20_000_263, 27_278, _ratings, _movies, {}),
)


def _configs() -> Iterator[MovielensConfig]:
    for size, ratings, movies, rating_rows, movie_rows, more in _SIZES:
        of_people = _PERSON if size in ("100k", "1m") else {}
        for kind, count, rows, features in (
            ("ratings", ratings, rating_rows, {**_MOVIE, **_RATING, **of_people, **more}),
            ("movies", movies, movie_rows, _MOVIE),
        ):
            yield MovielensConfig(
                f"{size}-{kind}",
                "0.1.1",
                f"{count:,} {kind} of the size {size}.",
                features=features,
                splits={"train": count},
                resources={"all": listed("movielens")[size]},
                rows=rows,
            )


@register
class Movielens(OneFile):
    """How people of the website MovieLens rated movies."""

    name = "movielens"
    VERSION = "0.1.1"
    HOMEPAGE = "https://grouplens.org/datasets/movielens/"
    CITATION = (
        "F. M. Harper, J. A. Konstan: The MovieLens Datasets: History and Context, ACM "
        "Transactions on Interactive Intelligent Systems 5(4), 2015"
    )
    BUILDER_CONFIGS: ClassVar[Sequence[MovielensConfig]] = tuple(_configs())

    def _generate_examples(self, path: Path) -> Examples:
        config = cast(MovielensConfig, self.builder_config)
        yield from enumerate(config.rows(path, f"ml-{config.name.rpartition('-')[0]}"))


_DAYS = 24
_NO_NUMBER = np.iinfo(np.int32).min


@register
class CriteoTerabyte(GeneratorBasedBuilder):
    """Criteo's log of clicks at advertisements on 24 days.

    Of each of 4.4 billion advertisements: 13 numbers, the least of int32 where one is missing, and
    26 hashes of categories, 32 bits each, -1 where one is missing. The last day is for testing;
    examples are in the order of time.
    """

    name = "criteo_terabyte"
    VERSION = "1.0.0"
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Download day_0.gz to day_23.gz from https://ailab.criteo.com/download-criteo-1tb-click-"
        "logs-dataset/ (https://huggingface.co/datasets/criteo/CriteoClickLogs) and put them there"
    )

    def _info(self) -> DatasetInfo:
        return self.dataset_info(
            features={
                "numbers": TensorFeature((13,), np.int32),
                "categories": TensorFeature((26,), np.int64),
                "click": ClassLabel(2),
            },
            supervised_keys=({"numbers": "numbers", "categories": "categories"}, "click"),
            homepage="https://ailab.criteo.com/download-criteo-1tb-click-logs-dataset/",
            citation="Criteo AI Lab: Criteo 1TB Click Logs dataset, 2015",
            license="CC BY-NC-SA 4.0",
            disable_shuffling=True,
            splits={"train": 4_195_197_692, "test": 178_274_637},
            notes=(
                "Layout not verified: TensorFlow Datasets has no builder of it. No checksum is "
                "known of its files: taken as they come.",
            ),
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        days = [dl_manager.manual_file(f"day_{n}.gz", f"day_{n}") for n in range(_DAYS)]
        return {
            "train": self._generate_examples(days[:-1]),
            "test": self._generate_examples(days[-1:]),
        }

    def _generate_examples(self, days: Sequence[Path]) -> Examples:
        key = 0
        for day in days:
            with opened(day) as file:
                for line in file:
                    click, *cells = line.decode().rstrip("\r\n").split("\t")
                    if len(cells) != 39:
                        raise ValueError(
                            f"{day}: a line has {len(cells) + 1} columns, and 40 are expected: "
                            f"{line!r:.200}"
                        )
                    numbers = [int(each) if each else _NO_NUMBER for each in cells[:13]]
                    categories = [int(each, 16) if each else -1 for each in cells[13:]]
                    yield key, {"numbers": numbers, "categories": categories, "click": int(click)}
                    key += 1


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


_KERAS = (
    _keras("mnist", "Handwritten digits.", (60_000, 10_000), _image(28, 28, 1), 10),
    _keras("fashion_mnist", "Articles of Zalando's.", (60_000, 10_000), _image(28, 28, 1), 10),
    _keras("cifar10", "Small pictures of 10 classes.", (50_000, 10_000), _image(32, 32, 3), 10),
    _keras("cifar100", "Small pictures of 100 classes.", (50_000, 10_000), _image(32, 32, 3), 100),
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


@register
class KerasSets(_LibrarySets):
    """A dataset of keras.datasets, as it loads it: from its cache, or downloaded by Keras."""

    name = "keras"
    CITATION = (
        "F. Chollet et al.: Keras, https://keras.io, 2015, and the sources that its page names"
    )
    BUILDER_CONFIGS: ClassVar[Sequence[DeclaredConfig]] = _KERAS
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
