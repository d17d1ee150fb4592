"""`DatasetBuilder`, the base class of named datasets."""

from __future__ import annotations

import abc
import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from drumline.data import Dataset, RaggedArray
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.directories import default_data_dir
from drumline.datasets.prepared.reading import ReadConfig
from drumline.datasets.split_expression import AbstractSplit, RowRange, resolve_split


def resolve_data_dir(name: str, data_dir: str | os.PathLike[str] | None) -> Path:
    """The directory for the files of the dataset `name`.

    A directory `name` inside `data_dir` (or the default) is it, else a `data_dir` that was given
    is itself.
    """
    base = default_data_dir() if data_dir is None else Path(data_dir).expanduser()
    own = base / name
    return own if data_dir is None or own.is_dir() else base


@dataclasses.dataclass(frozen=True)
class Preparation:
    """How a dataset is prepared; see `DatasetBuilder.download_and_prepare`."""

    download_dir: str | os.PathLike[str] | None
    manual_dir: str | os.PathLike[str] | None
    file_format: str
    num_shards: int | None
    max_examples_per_split: int | None


class DatasetBuilder(abc.ABC):
    """Reads one named dataset. Subclass it and `register` the subclass to add another.

    A subclass that holds its data in arrays sets `name` and implements `make_info` and `read`;
    what generates examples that are written to files is a `GeneratorBasedBuilder`.

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

    def read(self, split: str) -> Mapping[str, Any]:
        """The columns of one split: arrays with as many rows as the split has examples.

        Sequences of different lengths are a `RaggedArray`.
        """
        raise NotImplementedError(f"{type(self).__name__} holds no arrays: use as_dataset")

    @functools.cached_property
    def info(self) -> DatasetInfo:
        """The dataset's description."""
        return self.make_info()

    def download_and_prepare(
        self,
        *,
        download_dir: str | os.PathLike[str] | None = None,
        manual_dir: str | os.PathLike[str] | None = None,
        file_format: str | None = None,
        num_shards: int | None = None,
        max_examples_per_split: int | None = None,
        download_config: Any = None,
    ) -> None:
        """Download what is missing and write the files, unless they are there.

        The directory appears when it is complete. Of processes that prepare the same data one
        does, and the others wait for it. Data that are read in place are only looked for, whatever
        the arguments.

        Args:
            download_dir: for what is downloaded; ``downloads`` beside the datasets unless given.
            manual_dir: with files that cannot be downloaded; ``manual`` in it unless given.
            file_format: ``"tfrecord"`` or ``"array_record"``.
            num_shards: files of each split; by default as many as TFDS writes.
            max_examples_per_split: how many examples are written at most.
            download_config: an object with attributes of these names.

        Raises:
            DownloadError: a file cannot be downloaded, or is another one.
            FileNotFoundError: files have to be put there first; the message says which and where.
            FeatureError: an example does not fit the features.
            DuplicateKeyError: two examples have the same key.
            OSError: a file cannot be written.
        """
        given = {
            "download_dir": download_dir,
            "manual_dir": manual_dir,
            "file_format": file_format,
            "num_shards": num_shards,
            "max_examples_per_split": max_examples_per_split,
        }
        for name, value in given.items():
            if value is None:
                given[name] = getattr(download_config, name, None)
        form = given["file_format"]  # TFDS has an enumeration of them
        given["file_format"] = getattr(form, "value", form) or "tfrecord"
        self._prepare(Preparation(**given))  # type: ignore[arg-type]

    def _prepare(self, wanted: Preparation) -> None:
        """See that the files are there."""
        self.info  # noqa: B018

    def as_dataset(
        self,
        split: Any = None,
        *,
        batch_size: int | None = None,
        shuffle_files: bool = False,
        decoders: Any = None,
        read_config: ReadConfig | None = None,
        as_supervised: bool = False,
    ) -> Any:
        """The dataset of a split expression, or a structure of them; see `load`."""
        given = {
            "shuffle_files": bool(shuffle_files),
            "decoders": decoders,
            "read_config": read_config,
            "as_supervised": bool(as_supervised),
        }

        def of(expression: str | AbstractSplit) -> Any:
            return in_batches(self._dataset(expression, **given), batch_size)

        if split is None:
            return {name: of(name) for name in self.info.splits}
        return map_splits(of, split)

    def _dataset(
        self,
        expression: str | AbstractSplit,
        *,
        shuffle_files: bool,
        decoders: Any,
        read_config: ReadConfig | None,
        as_supervised: bool,
    ) -> Dataset:
        if decoders is not None:
            raise NotImplementedError(
                f"{self.name} is held in arrays, of which nothing is decoded: leave decoders out"
            )
        if read_config is not None and read_config.add_tfds_id:
            raise NotImplementedError(f"{self.name} is held in arrays: there are no files to name")
        ranges = resolve_split(expression, self.info.splits.shards)
        parts = [self._rows(part) for part in ranges]
        if len(parts) == 1:
            columns = parts[0]
        else:
            columns = {key: _joined([part[key] for part in parts]) for key in parts[0]}
        if not as_supervised:
            return Dataset.from_tensor_slices(columns)
        if self.info.supervised_keys is None:
            raise ValueError(
                f"The dataset {self.name!r} has no supervised form; load it with "
                f"as_supervised=False. Its columns are: {', '.join(columns)}."
            )
        return Dataset.from_tensor_slices(tuple(columns[key] for key in self.info.supervised_keys))

    def _rows(self, part: RowRange) -> dict[str, Any]:
        columns = self.read(part.name)
        return {key: columns[key][part.start : part.stop] for key in self.info.features}


def _joined(parts: list[Any]) -> Any:
    if not isinstance(parts[0], RaggedArray):
        return np.concatenate(parts)
    values = np.concatenate([part.values for part in parts])
    lengths = np.concatenate([part.row_lengths() for part in parts])
    return RaggedArray.from_row_lengths(values, lengths)


def map_splits(function: Callable[[Any], Any], split: Any) -> Any:
    """Return what a function makes of each split expression in a structure of them."""
    if isinstance(split, Mapping):
        return {key: map_splits(function, part) for key, part in split.items()}
    if isinstance(split, list | tuple):
        return type(split)([map_splits(function, part) for part in split])
    return function(split)


def in_batches(dataset: Dataset, batch_size: int | None) -> Any:
    """Return a dataset of batches, or for the size -1 all of it as arrays."""
    if batch_size is None:
        return dataset
    if batch_size == -1:
        return dataset.batch(max(len(dataset), 1)).get_single_element()
    return dataset.batch(batch_size)
