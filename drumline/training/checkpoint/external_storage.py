"""Values that an external store holds, and saves and restores by itself.

A variable names its store in its attribute ``kept_by``, an `ExternalStore`. The checkpoint's file
then has the place where the value was saved, and not the value; as it is written last, it makes
the checkpoint valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from drumline.training.keras_internals import Variable


@dataclass
class ExternalValues:
    """What a checkpoint's file tells of the values that are not in it.

    Attributes:
        format: by which `ExternalReader` they can be read.
        directory: where they are, from the directory of the checkpoint's file.
        entries: what the keeper tells of each value, by path, besides ``shape`` and ``dtype``.
        record: what it tells of all. Everything can be written as JSON.
    """

    format: str
    directory: str
    entries: dict[str, dict[str, Any]]
    record: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As objects that JSON has."""
        return asdict(self)


class ExternalStore(Protocol):
    """Keeps the values of variables.

    Attributes:
        format: of what it saves.
    """

    format: str

    def settle(self) -> None:
        """Wait until nothing changes the values any more."""

    def holds(self, variable: Variable) -> bool:
        """Whether the value is with the keeper now, and not with the program."""

    def save(
        self, directory: str, variables: Mapping[str, Variable], optimizers: Mapping[str, Any]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """Save values to a new directory; `ExternalValues.entries` and `.record`."""

    def check(
        self,
        directory: str,
        kept: ExternalValues,
        variables: Mapping[str, Variable],
        optimizers: Mapping[str, Any],
    ) -> None:
        """Raise if the values, or an optimizer's state, cannot be restored."""

    def restore(
        self,
        directory: str,
        kept: ExternalValues,
        variables: Mapping[str, Variable],
        optimizers: Mapping[str, Any],
    ) -> None:
        """Take the values of these variables, and the state of optimizers, from a directory."""

    def restored(self) -> None:
        """All that the program keeps itself was restored as well."""


class ExternalReader(Protocol):
    """Reads what a keeper saved, one value at a time."""

    def check(self, paths: Iterable[str]) -> None:
        """Raise if the values cannot be read whole."""

    def read(self, path: str) -> np.ndarray:
        """A value."""


_readers: dict[str, Callable[[str, ExternalValues], ExternalReader]] = {}


def register_reader(format: str, reader: Callable[[str, ExternalValues], ExternalReader]) -> None:
    """Have `reader`, given a directory, read what keepers of a format saved."""
    _readers[format] = reader


def reader_of(directory: str, kept: ExternalValues) -> ExternalReader:
    """What reads the values in `directory`.

    Raises:
        ValueError: if nothing that is imported can.
    """
    if kept.format not in _readers:
        raise ValueError(
            f"The checkpoint keeps values as {kept.format!r}, which this program cannot read; it "
            f"reads {sorted(_readers)}. Import drumline.distribute."
        )
    return _readers[kept.format](directory, kept)


def store_of(variable: Variable) -> ExternalStore | None:
    """What keeps the variable's value; None if it does so itself."""
    keeper: ExternalStore | None = getattr(variable, "kept_by", None)
    return keeper


def is_away(variable: Variable) -> bool:
    """Whether the variable's value is with a store, and not in the program."""
    store = store_of(variable)
    return store is not None and not getattr(store, "of_processes", False)


class ProcessesStore(ExternalStore, Protocol):
    """Of processes each of which has a part of the values, and saves it.

    Attributes:
        of_processes: true.
        is_first: whether this process writes the checkpoint's file.
    """

    of_processes: bool
    is_first: bool

    def agree(self, what: str, detail: str) -> list[str]:
        """Wait until all processes do `what`; the detail that each gives."""


def only_store(variables: Iterable[Variable]) -> ExternalStore | None:
    """What keeps values of any of the variables.

    Raises:
        ValueError: if there are several.
    """
    keepers = {id(keeper): keeper for v in variables if (keeper := store_of(v)) is not None}
    if len(keepers) > 1:
        raise ValueError(
            f"A checkpoint has variables of {len(keepers)} strategies with parameter servers. Make "
            "a Checkpoint for the variables of each."
        )
    return next(iter(keepers.values()), None)
