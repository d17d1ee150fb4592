"""`DatasetBuilder`, the base class of named datasets, with their info and data directory."""

from __future__ import annotations

import abc
import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from drumline.data import Dataset
from drumline.datasets.split_expression import RowRange, resolve_split

VARIABLE = "DRUMLINE_DATA_DIR"


def default_data_dir() -> Path:
    """``$DRUMLINE_DATA_DIR``, else ``drumline/datasets`` in the user's cache directory.

    The cache directory is ``$XDG_CACHE_HOME``, else ``~/.cache`` (XDG Base Directory
    Specification).
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "drumline" / "datasets"


def resolve_data_dir(name: str, data_dir: str | os.PathLike[str] | None) -> Path:
    """The directory for the files of the dataset `name`.

    A directory `name` inside `data_dir` (or the default) is it, else a `data_dir` that was given
    is itself.
    """
    base = default_data_dir() if data_dir is None else Path(data_dir).expanduser()
    own = base / name
    return own if data_dir is None or own.is_dir() else base


@dataclasses.dataclass(frozen=True)
class SplitInfo:
    """One split, or what a split expression selects.

    Attributes:
        name: the split's name, or the expression.
        num_examples: how many examples it has.
    """

    name: str
    num_examples: int


class Splits(Mapping[str, SplitInfo]):
    """The splits of a dataset by name; subscripting takes split expressions too.

    ``info.splits["train[:80%]"].num_examples`` says how many examples that is.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of examples of each split."""
        return dict(self._sizes)

    @property
    def total_num_examples(self) -> int:
        """The number of examples of all splits together."""
        return sum(self._sizes.values())

    def __getitem__(self, expression: str) -> SplitInfo:
        ranges = resolve_split(expression, self._sizes)
        return SplitInfo(expression, sum(part.stop - part.start for part in ranges))

    def __contains__(self, name: object) -> bool:
        return name in self._sizes

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __repr__(self) -> str:
        return f"Splits({self._sizes})"


@dataclasses.dataclass(frozen=True)
class DatasetInfo:
    """A dataset's description, as ``tfds.core.DatasetInfo``.

    Attributes:
        name: its name, as `load` takes it.
        splits: its splits and their sizes.
        features: a ``TensorSpec`` for each column of an example, by name.
        supervised_keys: the names of input and target, which ``as_supervised`` yields.
        description: what the data are and how the splits were made.
        source: where the data come from.
        citation: whom to cite.
    """

    name: str
    splits: Splits
    features: Mapping[str, Any]
    supervised_keys: tuple[str, str] | None
    description: str
    source: str
    citation: str = ""


class DatasetBuilder(abc.ABC):
    """Reads one named dataset. Subclass it and `register` the subclass to add another.

    A subclass sets `name` and implements `make_info` and `read`.

    Args:
        data_dir: the directory with the dataset's files, or one that holds a directory of the
            dataset's name; see `load` for the default.

    Attributes:
        name: the name `load` knows it by.
    """

    name: ClassVar[str]

    def __init__(self, data_dir: str | os.PathLike[str] | None = None) -> None:
        self.data_dir: Path = resolve_data_dir(self.name, data_dir)

    @abc.abstractmethod
    def make_info(self) -> DatasetInfo:
        """Describes the dataset; called once.

        Raises:
            FileNotFoundError: the dataset's files are not there; the message says which and
                where to put them.
        """

    @abc.abstractmethod
    def read(self, split: str) -> Mapping[str, np.ndarray]:
        """The columns of one split: arrays with as many rows as the split has examples."""

    @functools.cached_property
    def info(self) -> DatasetInfo:
        """The dataset's description."""
        return self.make_info()

    def as_dataset(self, split: Any = None, as_supervised: bool = False) -> Any:
        """The dataset of a split expression, or a structure of them; see `load`."""
        if split is None:
            return {name: self._dataset(name, as_supervised) for name in self.info.splits}
        if isinstance(split, Mapping):
            return {key: self.as_dataset(part, as_supervised) for key, part in split.items()}
        if isinstance(split, (list, tuple)):
            return type(split)([self.as_dataset(part, as_supervised) for part in split])
        return self._dataset(split, as_supervised)

    def _dataset(self, expression: str, as_supervised: bool) -> Dataset:
        ranges = resolve_split(expression, self.info.splits.sizes)
        parts = [self._rows(part) for part in ranges]
        if len(parts) == 1:
            columns = parts[0]
        else:
            columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        if not as_supervised:
            return Dataset.from_tensor_slices(columns)
        if self.info.supervised_keys is None:
            raise ValueError(
                f"The dataset {self.name!r} has no supervised form; load it with "
                f"as_supervised=False. Its columns are: {', '.join(columns)}."
            )
        return Dataset.from_tensor_slices(tuple(columns[key] for key in self.info.supervised_keys))

    def _rows(self, part: RowRange) -> dict[str, np.ndarray]:
        columns = self.read(part.name)
        return {key: columns[key][part.start : part.stop] for key in self.info.features}
