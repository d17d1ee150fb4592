"""Builders that read prepared files; `PreparedBuilder` reads what TFDS, or drumline, prepared."""

from __future__ import annotations

import abc
import functools
import os
from pathlib import Path
from typing import Any, ClassVar

from drumline.data import Dataset
from drumline.datasets.builder import DatasetBuilder
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.directories import Folder
from drumline.datasets.prepared.info_json import read_info
from drumline.datasets.prepared.reading import PreparedReader, ReadConfig
from drumline.datasets.split_expression import AbstractSplit


class FilesBuilder(DatasetBuilder):
    """A builder whose examples are in prepared files."""

    @property
    @abc.abstractmethod
    def reader(self) -> PreparedReader:
        """What makes datasets of the files."""

    def _dataset(
        self,
        expression: str | AbstractSplit,
        *,
        shuffle_files: bool,
        decoders: Any,
        read_config: ReadConfig | None,
        as_supervised: bool,
    ) -> Dataset:
        return self.reader.dataset(
            expression,
            shuffle_files=shuffle_files,
            decoders=decoders,
            config=read_config,
            as_supervised=as_supervised,
        )


class PreparedBuilder(FilesBuilder):
    """Reads files that TensorFlow Datasets or drumline prepared; see `builder_from_directory`.

    Args:
        folder: with ``dataset_info.json`` and the files beside it.
    """

    name: ClassVar[str] = ""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.data_dir: Path = folder.path  # type: ignore[assignment]
        self.name = self.info.name  # type: ignore[misc]

    def make_info(self) -> DatasetInfo:
        """Read the description of the files.

        Raises:
            FileNotFoundError: there is none.
            PreparedDataError: it is damaged.
        """
        return read_info(self._folder)

    @functools.cached_property
    def reader(self) -> PreparedReader:
        """What makes datasets of the files."""
        return PreparedReader(self._folder, self.info)


def builder_from_directory(builder_dir: str | os.PathLike[str]) -> PreparedBuilder:
    """Return the builder of a prepared dataset, as ``tfds.builder_from_directory``.

    Args:
        builder_dir: the directory of a version, with ``dataset_info.json`` and ``features.json``;
            a path with a scheme (``gs://``, ``memory://``) is read by fsspec.

    Raises:
        FileNotFoundError: no prepared dataset is there.
        PreparedDataError: its description is damaged; the message names the file and the place.

    Example:
        >>> # made = dl.datasets.builder_from_directory("~/tensorflow_datasets/mnist/3.0.1")
        >>> # train = made.as_dataset("train[:80%]", as_supervised=True)
    """
    return PreparedBuilder(Folder(builder_dir))
