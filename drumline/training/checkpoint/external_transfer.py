"""Restoring the values of a checkpoint that its file does not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drumline.training.checkpoint.external_storage import (
    Keeper,
    Kept,
    Reader,
    keeper_of,
    only_keeper,
    reader_of,
)
from drumline.training.checkpoint.keeping import directory_of
from drumline.training.keras_internals import Variable, trained_variables


class ValuesElsewhere:
    """The values that a checkpoint's keeper saved.

    Args:
        path: of the checkpoint.
        kept: what its file tells of them; None if it holds all values itself.
    """

    def __init__(self, path: str, kept: Kept | None) -> None:
        self._kept = kept
        self._directory = "" if kept is None else directory_of(path, kept)
        self._reader: Reader | None = None

    def transfer(
        self, assignments: Sequence[tuple[Variable, str]], optimizers: Mapping[str, Any]
    ) -> Transfer:
        """Prepare to restore variables, and optimizers' states, as far as the keeper saved them.

        Raises:
            ValueError: if that is not possible: values are missing, damaged or others.
        """
        if self._kept is None:
            return Transfer(None, None)
        wanted = {path: variable for variable, path in assignments}
        keeper = only_keeper(wanted.values()) or _keeper_of_trained(optimizers)
        entries = self._kept.entries
        same = keeper is not None and keeper.format == self._kept.format
        direct = {
            path: variable
            for path, variable in wanted.items()
            if path in entries and same and keeper_of(variable) is not None
        }
        read_here = [path for path in wanted if path in entries and path not in direct]
        if read_here:
            self._opened().check(read_here)
        if not same or keeper is None:
            return Transfer(None, None, read_here)
        arguments = (self._directory, self._kept, direct, optimizers)
        keeper.check(*arguments)
        return Transfer(keeper, arguments, read_here)

    def read(self, path: str) -> np.ndarray:
        """A value."""
        return self._opened().read(path)

    def _opened(self) -> Reader:
        if self._reader is None:
            assert self._kept is not None
            self._reader = reader_of(self._directory, self._kept)
        return self._reader


class Transfer:
    """What a keeper is to restore, checked.

    Attributes:
        read_here: the paths of the values that the program reads itself.
    """

    def __init__(
        self, keeper: Keeper | None, arguments: Any, read_here: Sequence[str] = ()
    ) -> None:
        self._keeper = keeper
        self._arguments = arguments
        self.read_here = frozenset(read_here)

    def run(self) -> None:
        """Have the keeper restore its values."""
        if self._keeper is not None and self._arguments is not None:
            self._keeper.restore(*self._arguments)

    def end(self) -> None:
        """All other values were restored."""
        if self._keeper is not None and self._arguments is not None:
            self._keeper.restored()


def _keeper_of_trained(optimizers: Mapping[str, Any]) -> Keeper | None:
    return only_keeper(v for each in optimizers.values() for v in trained_variables(each))
