"""The base class of named datasets."""

from __future__ import annotations

import abc
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from drumline.data import Dataset
from drumline.datasets.data_dir import resolve_data_dir
from drumline.datasets.info import DatasetInfo
from drumline.datasets.split_expression import RowRange, resolve_split


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
