"""Datasets of the records of ArrayRecord files."""

from __future__ import annotations

from typing import Any

from drumline.data._base import named
from drumline.data.dataset import Dataset
from drumline.data.files.array_records import ArrayRecords
from drumline.data.files.remote import as_paths
from drumline.data.operations.reading.files import ArrayRecordFiles


def ArrayRecordDataset(filenames: Any, name: str | None = None) -> Dataset:
    """The records of ArrayRecord files (https://github.com/google/array_record), as ``bytes``.

    They can be reached by position: ``len``, ``index(i)`` and ``shuffle(dl.data.GLOBAL)`` work,
    ``skip`` and ``shard`` read nothing they leave out, and restoring an iterator takes no time.
    Files written with ``group_size:1`` are quickest. A damaged record raises in its place.

    Args:
        filenames: a local path or a list of them.
        name: shown by ``explain()``.

    Raises:
        ImportError: the package ``array_record`` is not installed.
        OSError: a file cannot be opened.
        DataLossError: a file is no ArrayRecord file, or was cut off.
    """
    records = ArrayRecords(as_paths(filenames, "ArrayRecordDataset"))
    return Dataset(named(ArrayRecordFiles((), records), name))
