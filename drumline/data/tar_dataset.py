"""Datasets of samples in tar archives, as WebDataset lays them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drumline.data._dataset.files import files_plan, first_path
from drumline.data.dataset import Dataset
from drumline.data.files.tar_format import KEY, MOST_BYTES, TarFormat, first_extensions
from drumline.data.plan.arguments import count_of

_COMPRESSIONS = (None, "", "GZIP")


def TarDataset(
    filenames: Any,
    extensions: Sequence[str] | None = None,
    default_values: Mapping[str, bytes] | None = None,
    compression_type: str | None = None,
    max_bytes: int = MOST_BYTES,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> Dataset:
    """The samples of tar archives: dicts of extension to ``bytes``, with the ``__key__``.

    Members that follow one another and have the same path up to the first dot of the file's name
    are a sample, as in WebDataset: ``a/7.jpg`` and ``a/7.meta.json`` are the sample with the
    ``__key__`` ``a/7``, ``jpg`` and ``meta.json``. Extensions are in lower case. Members without a
    dot, hidden files, folders and links are passed over.

    Archives are read from start to end; an iterator's ``restore`` seeks in those that are not
    compressed. A sample that lacks an extension, or has one twice, raises in its place and the
    next one follows; so does what is damaged or cut off, and the next file follows.

    Args:
        filenames: as of ``TFRecordDataset``.
        extensions: what to read, in the order of the dicts; other members are passed over. Unless
            given, those of the first sample of the first archive, and others are errors.
        default_values: by extension, what stands for one that a sample lacks.
        compression_type: ``None``, ``""`` or ``"GZIP"``; ``None`` takes ``"GZIP"`` for names of the
            first archive that end in ``.gz`` or ``.tgz``.
        max_bytes: the most bytes a sample may have.
        num_parallel_reads: as of ``TFRecordDataset``.
        name: shown by ``explain()``.

    Raises:
        TypeError: ``filenames`` are no paths.
        ValueError: an argument is out of range, or the first archive has no sample.
        OSError: extensions are not given, and the first archive cannot be opened.
    """
    operation = "TarDataset"
    if compression_type not in _COMPRESSIONS:
        raise ValueError(
            f"{operation}: compression_type must be None, '' or 'GZIP', got {compression_type!r}"
        )
    most = count_of(max_bytes, operation, "max_bytes", least=1)
    compression = _compression(operation, filenames, compression_type)
    chosen = (
        first_extensions(first_path(operation, filenames), compression)
        if extensions is None
        else tuple(extension.lower() for extension in extensions)
    )
    defaults = {key.lower(): bytes(value) for key, value in (default_values or {}).items()}
    _check(operation, chosen, defaults)
    form = TarFormat(
        chosen,
        tuple(defaults.get(extension) for extension in chosen),
        extensions is not None,
        compression,
        most,
    )
    return Dataset(*files_plan(operation, filenames, form, num_parallel_reads, name))


def _compression(operation: str, filenames: Any, given: str | None) -> str:
    if given is not None:
        return given
    return "GZIP" if first_path(operation, filenames).endswith((".gz", ".tgz")) else ""


def _check(operation: str, chosen: Sequence[str], defaults: Mapping[str, bytes]) -> None:
    if len(set(chosen)) < len(chosen) or KEY in chosen:
        raise ValueError(f"{operation}: extensions must differ, and from {KEY!r}: {list(chosen)}")
    unknown = sorted(set(defaults) - set(chosen))
    if unknown:
        raise ValueError(
            f"{operation}: default_values names {unknown}, but the extensions are {list(chosen)}"
        )
