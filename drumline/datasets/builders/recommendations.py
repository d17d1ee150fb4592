"""What people liked and clicked at: MovieLens and Criteo's logs."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from drumline.datasets.features.containers import SequenceFeature
from drumline.datasets.features.tensors import ClassLabel, TensorFeature
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.generator import DeclaredConfig, Examples, GeneratorBasedBuilder
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
class Movielens(GeneratorBasedBuilder):
    """How people of the website MovieLens rated movies."""

    name = "movielens"
    VERSION = "0.1.1"
    HOMEPAGE = "https://grouplens.org/datasets/movielens/"
    CITATION = (
        "F. M. Harper, J. A. Konstan: The MovieLens Datasets: History and Context, ACM "
        "Transactions on Interactive Intelligent Systems 5(4), 2015"
    )
    BUILDER_CONFIGS: ClassVar[Sequence[MovielensConfig]] = tuple(_configs())

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        return {"train": self._generate_examples(dl_manager.download(self.resources["all"]))}

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
            notes=("Layout not verified: TensorFlow Datasets has no builder of it.",),
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
