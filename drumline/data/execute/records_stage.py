"""The records of one file."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from drumline._core import RecordReader
from drumline.data.errors import DataLossError
from drumline.data.execute.block import Block
from drumline.data.execute.stage import Stage, State
from drumline.data.files.file_format import FileFormat
from drumline.data.files.opening import open_records
from drumline.data.files.read_ahead import ReadAhead
from drumline.data.functions.notes import at_element


class RecordsStage(Stage):
    """Reads a file in order; what cannot be read is an error in its place, and the last element.

    Its state is a place in the file, where reading goes on at once if it is not compressed.
    """

    def __init__(self, path: str, form: FileFormat):
        self.path = path
        self.form = form
        self._reader: RecordReader | None = None
        self._source: ReadAhead | None = None
        self._place = (0, 0)
        self._ended = False

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        try:
            if self._reader is None:
                self._reader, self._source = open_records(self.path, self.form, *self._place)
            records, failure = self._reader.next(limit)
        except Exception as error:
            return self._failed(np.empty(0, object), error)
        if failure is not None:
            return self._failed(records, self._error(*failure))
        if not len(records):
            self._end()
            return None
        return Block([records], len(records))

    def _failed(self, records: np.ndarray, error: Exception) -> Block:
        number = self._place[1] if self._reader is None else self._reader.position()[1]
        self._end()
        error = at_element(error, number, f"the {self.form} file {self.path}")
        return Block([records], len(records), error)

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
        offset, number = self._place if self._reader is None else self._reader.position()
        return {"offset": offset, "number": number}

    def restore(self, state: State) -> None:
        self.close()
        self._ended = "ended" in state
        if not self._ended:
            self._place = (state["offset"], state["number"])

    def inputs(self) -> Sequence[Stage]:
        return []

    def describe(self) -> str:
        return f"records of {self.path} ({self.form})"

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
        self._reader = self._source = None
