"""Loading a dataset by name."""

from __future__ import annotations

import os
from typing import Any, Literal, overload

from drumline.data import Dataset
from drumline.datasets.info import DatasetInfo
from drumline.datasets.registry import builder


@overload
def load(
    name: str,
    *,
    split: str,
    data_dir: str | os.PathLike[str] | None = ...,
    as_supervised: bool = ...,
    with_info: Literal[False] = ...,
) -> Dataset: ...


@overload
def load(
    name: str,
    *,
    split: str,
    data_dir: str | os.PathLike[str] | None = ...,
    as_supervised: bool = ...,
    with_info: Literal[True],
) -> tuple[Dataset, DatasetInfo]: ...


@overload
def load(
    name: str,
    *,
    split: Any = ...,
    data_dir: str | os.PathLike[str] | None = ...,
    as_supervised: bool = ...,
    with_info: bool = ...,
) -> Any: ...


def load(
    name: str,
    *,
    split: Any = None,
    data_dir: str | os.PathLike[str] | None = None,
    as_supervised: bool = False,
    with_info: bool = False,
) -> Any:
    """The named dataset, as ``tfds.load``. Nothing is downloaded.

    Args:
        name: one of `list_builders`.
        split: a split expression such as ``"train"``, ``"train[:80%]"``, ``"train[10:20]"``,
            ``"train[:10%]+test[-5:]"`` or ``"all"``; or a list, tuple or dict of them, which
            gives as many datasets in the same structure. ``None`` gives a dict with every split.
            Boundaries are rows or percent, as in Python slices; percents are rounded to the
            closest row.
        data_dir: the directory with the dataset's files, or one that holds a directory of the
            dataset's name. By default ``$DRUMLINE_DATA_DIR/<name>``, else
            ``~/.cache/drumline/datasets/<name>``.
        as_supervised: yield pairs ``(input, target)`` instead of dicts of all features.
        with_info: return a pair of the result and the `DatasetInfo`.

    Returns:
        A ``drumline.data.Dataset`` in the dataset's fixed order, or a structure of them.

    Raises:
        ValueError: the dataset or a split does not exist, or a split expression is malformed.
        FileNotFoundError: the dataset's files are not there; the message says which and where
            to put them.
    """
    found = builder(name, data_dir)
    result = found.as_dataset(split, as_supervised)
    return (result, found.info) if with_info else result
