"""Small tables in the layouts in which they are distributed, with known content."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.datasets.builders.archives import Fabricated, tar, url_of, zipped

GENRES = [
    *("Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "IMAX", "Musical", "Mystery", "Romance", "Sci-Fi"),
    *("Thriller", "Unknown", "War", "Western", "(no genres listed)"),
]


def _movie(key: str, title: str, genres: list[str]) -> dict[str, Any]:
    numbers = np.array([GENRES.index(genre) for genre in genres], np.int64)
    return {"movie_id": key.encode(), "movie_title": title.encode(), "movie_genres": numbers}


def _rating(user: str, rating: float, timestamp: int) -> dict[str, Any]:
    return {"user_id": user.encode(), "user_rating": np.float32(rating), "timestamp": timestamp}


def movielens(size: str, kind: str) -> Fabricated:
    movies = [
        _movie("7", "Amélie, The", ["Comedy", "Romance"]),
        _movie("12", "Heat (1995)", ["(no genres listed)"]),
    ]
    table = 'movieId,title,genres\n7,"Amélie, The",Comedy|Romance\n'
    table += "12,Heat (1995),(no genres listed)\n"
    given = [("1", 0, 4.5, 964982703), ("1", 1, 0.5, 964982704), ("2", 1, 3.0, 964982705)]
    ratings = ["userId,movieId,rating,timestamp"]
    for user, movie, rating, timestamp in given:
        key = movies[movie]["movie_id"].decode()
        ratings.append(f"{user},{key},{rating},{timestamp}")
    files = {
        f"ml-{size}/movies.csv": table.encode(),
        f"ml-{size}/ratings.csv": ("\n".join(ratings) + "\n").encode(),
    }
    found = [
        {**_rating(user, rating, when), **movies[movie]} for user, movie, rating, when in given
    ]
    url = url_of(f"movielens/{size}-{kind}")
    return Fabricated({url: zipped(files)}, {"train": found if kind == "ratings" else movies})


def _person(gender: bool, age: float, label: int, text: str, zip_code: str) -> dict[str, Any]:
    return {
        "user_gender": np.bool_(gender),
        "bucketized_user_age": np.float32(age),
        "user_occupation_label": label,
        "user_occupation_text": text.encode(),
        "user_zip_code": zip_code.encode(),
    }


def movielens_1m(kind: str) -> Fabricated:
    movies = [_movie("1", "Toy Story é", ["Animation", "Children"]), _movie("2", "Heat", ["War"])]
    people = {
        "1": _person(False, 1, 17, "K-12 student", "48067"),
        "2": _person(True, 56, 20, "unemployed", "70072"),
    }
    files = {
        "movies.dat": "1::Toy Story é::Animation|Children's\n2::Heat::War\n",
        "users.dat": "1::F::1::10::48067\n2::M::56::19::70072\n",
        "ratings.dat": "1::2::5::978300760\n2::1::3::978302109\n",
    }
    found = [
        {**_rating("1", 5, 978300760), **movies[1], **people["1"]},
        {**_rating("2", 3, 978302109), **movies[0], **people["2"]},
    ]
    inside = {f"ml-1m/{name}": text.encode("iso-8859-1") for name, text in files.items()}
    url = url_of(f"movielens/1m-{kind}")
    return Fabricated({url: zipped(inside)}, {"train": found if kind == "ratings" else movies})


def movielens_100k(kind: str) -> Fabricated:
    names = ["Unknown", *(genre for genre in GENRES[:-1] if genre not in ("IMAX", "Unknown"))]
    movies = [_movie("1", "Café", ["Action", "Western"]), _movie("2", "Heat", ["Unknown"])]
    lines = []
    for key, title, genres in (("1", "Café", ["Action", "Western"]), ("2", "Heat", ["Unknown"])):
        flags = ["1" if name in genres else "0" for name in names]
        lines.append("|".join([key, title, "01-Jan-1995", "", "http://x", *flags]))
    people = {
        "1": {**_person(True, 18, 18, "technician", "85711"), "raw_user_age": np.float32(24)},
        "2": {**_person(False, 50, 11, "other", "T8H1N"), "raw_user_age": np.float32(53)},
    }
    files = {
        "u.item": "\n".join(lines) + "\n",
        "u.user": "1|24|M|technician|85711\n2|53|F|other|T8H1N\n",
        "u.data": "1\t2\t3\t881250949\n2\t1\t4\t891717742\n",
    }
    found = [
        {**_rating("1", 3, 881250949), **movies[1], **people["1"]},
        {**_rating("2", 4, 891717742), **movies[0], **people["2"]},
    ]
    inside = {f"ml-100k/{name}": text.encode("iso-8859-1") for name, text in files.items()}
    url = url_of(f"movielens/100k-{kind}")
    return Fabricated({url: zipped(inside)}, {"train": found if kind == "ratings" else movies})


HIGGS = [
    *("class_label", "lepton_pT", "lepton_eta", "lepton_phi", "missing_energy_magnitude"),
    "missing_energy_phi",
    *(f"jet_{n}_{part}" for n in range(1, 5) for part in ("pt", "eta", "phi", "b-tag")),
    *("m_jj", "m_jjj", "m_lv", "m_jlv", "m_bb", "m_wbb", "m_wwbb"),
]


def higgs() -> Fabricated:
    lines, rows = [], []
    for i in range(4):
        values = [float(i % 2), *(i + k / 8 for k in range(28))]
        lines.append(",".join(f"{value:.18e}" for value in values) + "\n")
        kinds = [np.float32, *[np.float64] * 28]
        rows.append({n: kind(v) for n, kind, v in zip(HIGGS, kinds, values, strict=True)})
    return Fabricated({url_of("higgs"): gzip.compress("".join(lines).encode())}, {"train": rows})


def california_housing() -> Fabricated:
    lines, rows = [], []
    for i in range(3):
        east, north, age, income, value = -122.25 + i, 37.75, 40.0 + i, 8.25, 352_100.0
        rooms, bedrooms, people, homes = 880.0 + i, 129.0, 322.0, 126.0
        row = [east, north, age, rooms, bedrooms, people, homes, income, value]
        lines.append(",".join(f"{each:.6f}" for each in row) + "\n")
        features = {
            "MedInc": income,
            "HouseAge": age,
            "AveRooms": rooms / homes,
            "AveBedrms": bedrooms / homes,
            "Population": people,
            "AveOccup": people / homes,
            "Latitude": north,
            "Longitude": east,
        }
        rows.append(
            {
                "features": {name: np.float32(number) for name, number in features.items()},
                "MedHouseVal": np.float32(value / 100_000),
            }
        )
    inside = {
        "CaliforniaHousing/cal_housing.domain": b"x",
        "CaliforniaHousing/cal_housing.data": "".join(lines).encode(),
    }
    return Fabricated({url_of("california_housing"): tar(inside)}, {"train": rows})


def criteo() -> Fabricated:
    files, examples = {}, {"train": [], "test": []}
    for day in range(24):
        lines = []
        for i in range(2):
            numbers = [day + i + k for k in range(12)]
            categories = [(day << 24) + k for k in range(25)]
            click = (day + i) % 2
            cells = [str(click), *map(str, numbers), "", *(f"{k:08x}" for k in categories), ""]
            lines.append("\t".join(cells) + "\n")
            examples["test" if day == 23 else "train"].append(
                {
                    "numbers": np.array([*numbers, -(2**31)], np.int32),
                    "categories": np.array([*categories, -1], np.int64),
                    "click": click,
                }
            )
        files[f"day_{day}.gz"] = gzip.compress("".join(lines).encode())
    return Fabricated({}, examples, files)


TABLES: dict[str, Callable[..., Fabricated]] = {
    **{
        f"movielens/{size}-{kind}": (lambda size=size, kind=kind: movielens(size, kind))
        for size in ("25m", "20m", "latest-small")
        for kind in ("ratings", "movies")
    },
    "movielens/1m-ratings": lambda: movielens_1m("ratings"),
    "movielens/1m-movies": lambda: movielens_1m("movies"),
    "movielens/100k-ratings": lambda: movielens_100k("ratings"),
    "movielens/100k-movies": lambda: movielens_100k("movies"),
    "higgs": higgs,
    "california_housing": california_housing,
    "criteo_terabyte": criteo,
}
"""What makes the files of each dataset."""
