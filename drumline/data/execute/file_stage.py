"""What stages that read a file by its bytes have in common."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from drumline.data.errors import DataLossError
from drumline.data.execute.block import Block
from drumline.data.execute.stage import Stage, State
from drumline.data.files.opening import Source
from drumline.data.files.read_ahead import ReadAhead
from drumline.data.functions.notes import at_element

Failure = tuple[str, int, int, BaseException | None]
"""What is wrong, the byte and the element where it is, and the exception that reading raised."""


class Reader(Protocol):
    """What a file is read by."""

    def position(self) -> tuple[int, ...]:
        """How many bytes, elements and whatever else of ``places`` came before the next one."""


class FileStage(Stage):
    """Reads a file in order; what cannot be read is an error in its place, and the last element.

    Its state is a place in the file, where reading goes on at once if it is not compressed.
    """

    width = 1
    """How many leaves an element has; all are ``bytes`` unless ``nothing`` says otherwise."""

    places: tuple[str, ...] = ("offset", "number")
    """What tells a place in the file: bytes, elements and perhaps more before it."""

    def __init__(self, path: str, label: str):
        self.path = path
        self._label = label
        self._reader: Any = None
        self._source: Source | None = None
        self._place: tuple[int, ...] = (0,) * len(self.places)
        self._ended = False

    def open(self, *place: int) -> tuple[Reader, Source]:
        """What reads the file from a place on, and the bytes it reads."""
        raise NotImplementedError

    def nothing(self) -> list[np.ndarray]:
        """The columns of no elements."""
        return [np.empty(0, object)] * self.width

    def read(self, reader: Any, limit: int) -> tuple[list[Any], Failure | None, bool]:
        """Up to ``limit`` elements, what is wrong with the next, and whether it is the last."""
        raise NotImplementedError

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        try:
            if self._reader is None:
                self._reader, self._source = self.open(*self._place)
            columns, failure, last = self.read(self._reader, limit)
        except Exception as error:
            return self._failed(self.nothing(), error, self._position()[1], True)
        if failure is not None:
            return self._failed(columns, self._error(*failure), failure[2], last)
        if not len(columns[0]):
            self._end()
            return None
        return Block(columns, len(columns[0]))

    def _failed(
        self, columns: list[np.ndarray], error: Exception, number: int, last: bool
    ) -> Block:
        if last:
            self._end()
        error = at_element(error, number, f"the {self._label} file {self.path}")
        return Block(columns, len(columns[0]), error)

    def _error(
        self, message: str, offset: int, number: int, raised: BaseException | None
    ) -> Exception:
        if isinstance(raised, OSError) and raised.errno and raised.filename is None:
            return OSError(raised.errno, os.strerror(raised.errno), self.path)
        if isinstance(raised, Exception):
            return raised
        return DataLossError(message, self.path, offset, number)

    def _end(self) -> None:
        self._ended = True
        self.close()

    def state(self) -> State:
        if self._ended:
            return {"ended": True}
        return dict(zip(self.places, self._position(), strict=True))

    def _position(self) -> tuple[int, ...]:
        place: tuple[int, ...] = self._place if self._reader is None else self._reader.position()
        return place

    def restore(self, state: State) -> None:
        self.close()
        self._ended = "ended" in state
        if not self._ended:
            self._place = tuple(state[name] for name in self.places)

    def inputs(self) -> Sequence[Stage]:
        return []

    def close(self) -> None:
        if isinstance(self._source, ReadAhead):
            self._source.close()
        self._reader = self._source = None
