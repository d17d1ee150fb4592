"""Tables of numbers and classes."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from drumline.datasets.builders.bases import OneFile
from drumline.datasets.features.tensors import ClassLabel, TensorFeature, TextFeature
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.generator import BuilderConfig, Examples, GeneratorBasedBuilder
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import iter_archive, member_of, opened
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import listed


@register
class Iris(OneFile):
    """Lengths and widths of the sepals and petals of three kinds of iris."""

    name = "iris"
    VERSION = "2.1.0"
    RESOURCES = listed("iris")

    def _info(self) -> DatasetInfo:
        kinds = ["Iris-setosa", "Iris-versicolor", "Iris-virginica"]
        return self.dataset_info(
            features={
                "features": TensorFeature((4,), np.float32),
                "label": ClassLabel(names=kinds),
            },
            supervised_keys=("features", "label"),
            homepage="https://archive.ics.uci.edu/ml/datasets/iris",
            citation="R. A. Fisher: Iris, UCI Machine Learning Repository, 1936",
            license="CC BY 4.0",
            splits={"train": 150},
        )

    def _generate_examples(self, path: Path) -> Examples:
        for name, contents in iter_archive(path):
            if name == "iris.data":
                rows = [line for line in contents.read().decode().splitlines() if line]
                for i, row in enumerate(rows):
                    *numbers, label = row.split(",")
                    yield i, {"features": [float(n) for n in numbers], "label": label}


_PORTS = {"C": "Cherbourg", "Q": "Queenstown", "S": "Southampton", "?": "Unknown"}
_CLASSES = {"1": "1st_class", "2": "2nd_class", "3": "3rd_class"}
_FATES = {"0": "died", "1": "survived"}


def _number(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: -1 if text == "?" else kind(text)


def _text(text: str) -> str:
    return "Unknown" if text == "?" else text


_TITANIC: dict[str, tuple[Any, Callable[[str], Any]]] = {
    "pclass": (list(_CLASSES.values()), _CLASSES.__getitem__),
    "survived": (list(_FATES.values()), _FATES.__getitem__),
    "name": (str, _text),
    "sex": (["male", "female"], str),
    "age": (np.float32, _number(float)),
    "sibsp": (np.int32, _number(int)),
    "parch": (np.int32, _number(int)),
    "ticket": (str, _text),
    "fare": (np.float32, _number(float)),
    "cabin": (str, _text),
    "embarked": (list(_PORTS.values()), _PORTS.__getitem__),
    "boat": (str, _text),
    "body": (np.int32, _number(int)),
    "home.dest": (str, _text),
}
"""The columns: names of classes, or a type, and what makes a value of a text."""


@register
class Titanic(OneFile):
    """The passengers of the Titanic, and who survived."""

    name = "titanic"
    VERSION = "4.0.0"
    RESOURCES = listed("titanic")

    def _info(self) -> DatasetInfo:
        features = {
            name: ClassLabel(names=kind) if isinstance(kind, list) else TensorFeature((), kind)
            for name, (kind, _) in _TITANIC.items()
        }
        others = {name: name for name in features if name != "survived"}
        return self.dataset_info(
            features=features,
            supervised_keys=(others, "survived"),
            homepage="https://www.openml.org/d/40945",
            citation="F. E. Harrell Jr., T. Cason: Titanic, OpenML 40945, 2017",
            splits={"train": 1_309},
        )

    def _generate_examples(self, path: Path) -> Examples:
        with path.open(newline="") as file:
            for i, row in enumerate(csv.DictReader(file)):
                yield i, {name: _TITANIC[name][1](text) for name, text in row.items()}


@dataclasses.dataclass(eq=False)
class PenguinsConfig(BuilderConfig):
    """A form of the table of penguins.

    Attributes:
        file: its name.
        columns: names of classes, or a type, by name.
    """

    file: str = ""
    columns: Mapping[str, Any] = dataclasses.field(default_factory=dict)


_SIZES = ("culmen_length_mm", "culmen_depth_mm", "flipper_length_mm", "body_mass_g")
_RAW = [
    "studyName",
    "Sample Number",
    "Species",
    "Region",
    "Island",
    "Stage",
    "Individual ID",
    "Clutch Completion",
    "Date Egg",
    "Culmen Length (mm)",
    "Culmen Depth (mm)",
    "Flipper Length (mm)",
    "Body Mass (g)",
    "Sex",
    "Delta 15 N (o/oo)",
    "Delta 13 C (o/oo)",
    "Comments",
]


_PENGUINS = (
    PenguinsConfig(
        "processed",
        description="Four normalized sizes as one tensor, no missing values.",
        file="penguins_processed.csv",
        columns={"species": 3, **dict.fromkeys(_SIZES, np.float32)},
    ),
    PenguinsConfig(
        "simple",
        description="Seven columns; missing values are NaN and NA.",
        file="penguins_size.csv",
        columns={
            "species": ["Adelie", "Chinstrap", "Gentoo"],
            "island": ["Biscoe", "Dream", "Torgersen"],
            **dict.fromkeys(_SIZES, np.float32),
            "sex": ["FEMALE", "MALE", "NA"],
        },
    ),
    PenguinsConfig(
        "raw",
        description="All 17 columns, as numbers or texts.",
        file="penguins_lter.csv",
        columns={
            name: np.int32 if name == "Sample Number" else np.float32 if "(" in name else str
            for name in _RAW
        },
    ),
)


@register
class Penguins(GeneratorBasedBuilder):
    """Sizes of penguins of three kinds on the islands of the Palmer Archipelago."""

    name = "penguins"
    VERSION = "1.0.0"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = _PENGUINS
    RESOURCES = listed("penguins")

    def _info(self) -> DatasetInfo:
        config = cast(PenguinsConfig, self.builder_config)
        features = {name: _column(kind) for name, kind in config.columns.items()}
        keys: Any = None
        if config.name == "processed":
            features = {
                "species": features["species"],
                "features": TensorFeature((len(_SIZES),), np.float32),
            }
            keys = ("features", "species")
        elif config.name == "simple":
            keys = ({name: name for name in features}, "species")
        return self.dataset_info(
            features=features,
            supervised_keys=keys,
            homepage="https://allisonhorst.github.io/palmerpenguins/",
            citation="A. M. Horst, A. P. Hill, K. B. Gorman: Palmer Archipelago penguin data, 2020",
            license="CC0 1.0",
            splits={"train": 334 if config.name == "processed" else 344},
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        file = cast(PenguinsConfig, self.builder_config).file
        return {"train": self._generate_examples(dl_manager.download(self.RESOURCES[file]))}

    def _generate_examples(self, path: Path) -> Examples:
        config = cast(PenguinsConfig, self.builder_config)
        with path.open(newline="") as file:
            for i, row in enumerate(csv.DictReader(file)):
                found = {name: _value(text, config.columns[name]) for name, text in row.items()}
                if config.name == "processed":
                    species = found.pop("species")
                    yield i, {"species": species, "features": list(found.values())}
                else:
                    yield i, found


def _column(kind: Any) -> Any:
    if isinstance(kind, list):
        return ClassLabel(names=kind)
    if isinstance(kind, int):
        return ClassLabel(kind)
    return TextFeature() if kind is str else TensorFeature((), kind)


def _value(text: str, kind: Any) -> Any:
    if isinstance(kind, list):
        return text if text in kind else "NA"
    if kind is np.float32:
        try:
            return float(text)
        except ValueError:
            return float("nan")
    return text if kind is str else int(text)


_WINE = [
    "fixed acidity",
    "volatile acidity",
    "citric acid",
    "residual sugar",
    "chlorides",
    "free sulfur dioxide",
    "total sulfur dioxide",
    "density",
    "pH",
    "sulphates",
    "alcohol",
]


@register
class WineQuality(GeneratorBasedBuilder):
    """Chemical properties of Portuguese wines, and how experts like them."""

    name = "wine_quality"
    VERSION = "1.0.0"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = (
        BuilderConfig("white", description="White Wine"),
        BuilderConfig("red", description="Red Wine"),
    )
    RESOURCES = listed("wine_quality")

    def _info(self) -> DatasetInfo:
        config = cast(BuilderConfig, self.builder_config)
        properties = {name: np.float64 if name == "sulphates" else np.float32 for name in _WINE}
        return self.dataset_info(
            features={"quality": np.int32, "features": properties},
            supervised_keys=("features", "quality"),
            homepage="https://archive.ics.uci.edu/ml/datasets/wine+quality",
            citation=(
                "P. Cortez, A. Cerdeira, F. Almeida, T. Matos, J. Reis: Modeling wine preferences "
                "by data mining from physicochemical properties, Decision Support Systems 47, 2009"
            ),
            license="CC BY 4.0",
            splits={"train": 4_898 if config.name == "white" else 1_599},
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        color = cast(BuilderConfig, self.builder_config).name
        return {"train": self._generate_examples(dl_manager.download(self.RESOURCES[color]))}

    def _generate_examples(self, path: Path) -> Examples:
        with path.open(newline="") as file:
            for i, row in enumerate(csv.DictReader(file, delimiter=";")):
                quality = int(row.pop("quality"))
                yield i, {"quality": quality, "features": {k: float(v) for k, v in row.items()}}


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_FIRES: dict[str, Any] = {
    "X": np.uint8,
    "Y": np.uint8,
    "month": _MONTHS,
    "day": _DAYS,
    **dict.fromkeys(["FFMC", "DMC", "DC", "ISI", "temp", "RH", "wind", "rain"], np.float32),
}


@register
class ForestFires(OneFile):
    """Burned areas of fires in a Portuguese park, and the weather."""

    name = "forest_fires"
    VERSION = "0.0.1"
    RESOURCES = listed("forest_fires")

    def _info(self) -> DatasetInfo:
        columns = {name: _column(kind) for name, kind in _FIRES.items()}
        return self.dataset_info(
            features={"area": np.float32, "features": columns},
            supervised_keys=("area", "features"),
            homepage="https://archive.ics.uci.edu/ml/datasets/Forest+Fires",
            citation=(
                "P. Cortez, A. Morais: A Data Mining Approach to Predict Forest Fires using "
                "Meteorological Data, 2007"
            ),
            license="CC BY 4.0",
            splits={"train": 517},
        )

    def _generate_examples(self, path: Path) -> Examples:
        with path.open(newline="") as file:
            for i, row in enumerate(csv.DictReader(file)):
                area = float(row.pop("area"))
                yield (
                    i,
                    {"area": area, "features": {k: _value(v, _FIRES[k]) for k, v in row.items()}},
                )


@register
class GermanCreditNumeric(OneFile):
    """People who took a credit, as 24 numbers, and whether they were a good risk."""

    name = "german_credit_numeric"
    VERSION = "1.0.0"
    RESOURCES = listed("german_credit_numeric")

    def _info(self) -> DatasetInfo:
        return self.dataset_info(
            features={
                "features": TensorFeature((24,), np.int32),
                "label": ClassLabel(names=["Bad", "Good"]),
            },
            supervised_keys=("features", "label"),
            homepage="https://archive.ics.uci.edu/ml/datasets/Statlog+(German+Credit+Data)",
            citation="H. Hofmann: Statlog (German Credit Data), UCI, 1994",
            license="CC BY 4.0",
            splits={"train": 1_000},
        )

    def _generate_examples(self, path: Path) -> Examples:
        for i, row in enumerate(line for line in path.read_text().split("\n") if line):
            *numbers, label = map(int, row.split())
            yield i, {"features": numbers, "label": 2 - label}


def _words(text: str) -> list[str]:
    return text.split()


_HIGGS = _words(
    "class_label lepton_pT lepton_eta lepton_phi missing_energy_magnitude missing_energy_phi "
    "jet_1_pt jet_1_eta jet_1_phi jet_1_b-tag jet_2_pt jet_2_eta jet_2_phi jet_2_b-tag "
    "jet_3_pt jet_3_eta jet_3_phi jet_3_b-tag jet_4_pt jet_4_eta jet_4_phi jet_4_b-tag m_jj "
    "m_jjj m_lv m_jlv m_bb m_wbb m_wwbb"
)


@register
class Higgs(OneFile):
    """Simulated collisions of particles: whether they made a Higgs boson."""

    name = "higgs"
    VERSION = "2.0.0"
    FEATURES: ClassVar[Mapping[str, Any]] = {
        name: np.float32 if name == "class_label" else np.float64 for name in _HIGGS
    }
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 11_000_000}
    HOMEPAGE = "https://archive.ics.uci.edu/ml/datasets/HIGGS"
    CITATION = (
        "P. Baldi, P. Sadowski, D. Whiteson: Searching for Exotic Particles in High-Energy Physics "
        "with Deep Learning, Nature Communications 5, 2014"
    )
    LICENSE = "CC BY 4.0"
    RESOURCES = listed("higgs")

    def _generate_examples(self, path: Path) -> Examples:
        with opened(path) as file:
            for i, row in enumerate(csv.reader(io.TextIOWrapper(file, "utf-8"))):
                yield i, dict(zip(_HIGGS, map(float, row), strict=True))


_HOUSING = _words("MedInc HouseAge AveRooms AveBedrms Population AveOccup Latitude Longitude")


@register
class CaliforniaHousing(OneFile):
    """Districts of California in 1990, and the median value of a house in 100,000 dollars."""

    name = "california_housing"
    VERSION = "1.0.0"
    FEATURES: ClassVar[Mapping[str, Any]] = {
        "features": dict.fromkeys(_HOUSING, np.float32),
        "MedHouseVal": np.float32,
    }
    SUPERVISED_KEYS = ("features", "MedHouseVal")
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 20_640}
    HOMEPAGE = "https://www.dcc.fc.up.pt/~ltorgo/Regression/cal_housing.html"
    CITATION = (
        "R. K. Pace, R. Barry: Sparse Spatial Autoregressions, Statistics & Probability, 1997"
    )
    NOTES = (
        "TensorFlow Datasets has no builder of it: the layout is verified against scikit-learn's "
        "fetch_california_housing.",
    )
    RESOURCES = listed("california_housing")

    def _generate_examples(self, path: Path) -> Examples:
        with member_of(path, "CaliforniaHousing/cal_housing.data") as file:
            for i, line in enumerate(file):
                east, north, age, rooms, bedrooms, people, homes, income, value = map(
                    float, line.decode().split(",")
                )
                means = (rooms / homes, bedrooms / homes, people, people / homes)
                columns = (income, age, *means, north, east)
                features = dict(zip(_HOUSING, columns, strict=True))
                yield i, {"features": features, "MedHouseVal": value / 100_000}
