"""Data that are a dataset of ``dl.datasets``, prepared on this machine unless they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from drumline.jobs.sources.data import DataError

_FAULTS = (OSError, ValueError, NotImplementedError, ImportError)


def dataset_problem(source: str) -> str:
    """Why there is no dataset of that name; empty if there is one."""
    from drumline.datasets.registry import builder

    try:
        builder(_name(source))
    except _FAULTS as error:
        return str(error)
    return ""


def prepare_dataset(
    source: str, at: str, say: Callable[[str], None] = lambda text: None
) -> tuple[Path, str]:
    """Prepare a dataset.

    Args:
        source: as ``dataset://name/config:1.0.0``.
        at: the directory that is to hold it, as ``dl.datasets.load(..., data_dir=at)`` wants it;
            empty for none.
        say: is given what was done, in a sentence.

    Returns:
        The folder with its files, and the path at which it is to be seen, beneath `at`.

    Raises:
        DataError: it cannot be had.
    """
    from drumline.data.elements.errors import DataLossError
    from drumline.datasets.registry import builder

    name = _name(source)
    try:
        made = builder(name)
        made.download_and_prepare()
        folder = str(made.info.data_dir or made.data_dir)
        examples = made.info.splits.total_num_examples
    except (*_FAULTS, DataLossError) as error:
        raise DataError(f"{source}: {error}") from error
    if not at:
        say(f"{source}: {examples} examples in {folder}")
        return Path(folder), ""
    if "://" in folder:
        raise DataError(f"{source}: its files are in {folder}; give that as from, with at")
    if not Path(folder).is_dir():
        raise DataError(f"{source}: it has no files of its own; leave at out, it is found by name")
    say(f"{source}: {examples} examples in {folder}")
    parts = Path(folder).parts
    last = len(parts) - 1 - parts[::-1].index(made.name) if made.name in parts else len(parts) - 1
    return Path(folder), str(Path(at, *parts[last:]))


def _name(source: str) -> str:
    return source.removeprefix("dataset://").strip("/")
