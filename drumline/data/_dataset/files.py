"""Plans that read the files a user names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from drumline.data.elements.spec import AUTOTUNE
from drumline.data.operations.reading import constructors
from drumline.data.operations.reading.files import Files
from drumline.data.operations.reading.tables import table_format
from drumline.data.options import BaseDataset, Options, named
from drumline.data.plan.node import Node, count_of
from drumline.data.storage.files.records import BYTES, Format
from drumline.data.storage.files.remote import as_paths
from drumline.data.storage.files.tables import first_schema

PARALLEL_READS = 4
"""What ``AUTOTUNE`` stands for: it decides the order, which is to be the same everywhere."""


def files_plan(
    operation: str, filenames: Any, form: Format, parallel: int | None, name: str | None
) -> tuple[Node, Options | None]:
    """What reads the files, and the options of the dataset that names them, if one does.

    Args:
        operation: the caller's, for errors.
        filenames: a path, a list of paths, or a dataset of them.
        form: how each is read.
        parallel: ``num_parallel_reads``.
        name: shown by ``explain()``.

    Raises:
        TypeError: ``filenames`` are no paths.
        ValueError: ``parallel`` is out of range.
    """
    if parallel == AUTOTUNE:
        parallel = PARALLEL_READS
    elif parallel is not None:
        parallel = count_of(parallel, operation, "num_parallel_reads", least=1)
    if isinstance(filenames, BaseDataset):
        names, options = _checked(filenames, operation)._plan, filenames._given_options
    else:
        paths = np.array(as_paths(filenames, operation), dtype=object)
        names, options = constructors.slices(paths), None
    return named(Files((names,), form, parallel), name), options


def first_path(operation: str, filenames: Any) -> str:
    """The first of the paths that ``files_plan`` takes.

    Raises:
        TypeError: they are no paths.
        ValueError: there is none.
    """
    if isinstance(filenames, BaseDataset):
        paths: Any = [next(iter(_checked(filenames, operation).take(1)), None)]
    else:
        paths = [*as_paths(filenames, operation)[:1], None]
    if paths[0] is None:
        raise ValueError(f"{operation}: there are no files, and the first one tells the columns")
    return os.fsdecode(paths[0])


def tables_plan(
    operation: str,
    kind: Literal["parquet", "arrow"],
    filenames: Any,
    columns: Sequence[str] | None,
    default_values: Mapping[str, Any] | None,
    parallel: int | None,
    name: str | None,
) -> tuple[Node, Options | None]:
    """`files_plan` of files that hold tables, whose columns the first file tells.

    Raises:
        OSError: if the first file cannot be opened.
        TypeError: if a column's type is none of a dataset, or ``filenames`` are no paths.
        ValueError: if it is no such file, lacks a column, or a default does not fit its column.
    """
    schema = first_schema(kind, first_path(operation, filenames))
    form = table_format(operation, kind, schema, columns, default_values)
    return files_plan(operation, filenames, form, parallel, name)


def _checked(filenames: Any, operation: str) -> Any:
    if filenames._plan.spec.tree() != BYTES.tree():
        raise TypeError(
            f"{operation}: a dataset of filenames has one path per element, a scalar of bytes; "
            f"this one has {filenames._plan.spec.tree()}"
        )
    return filenames
