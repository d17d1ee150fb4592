"""The records of one file of comma-separated values."""

from __future__ import annotations

import numpy as np

from drumline._core import CsvReader
from drumline.data.errors import CsvError
from drumline.data.execute.file_stage import Failure, FileStage
from drumline.data.files.csv_format import CsvFormat
from drumline.data.files.opening import Source, opened_bytes


class CsvStage(FileStage):
    """Reads a file's records. After one that is bad the next follows."""

    places = ("offset", "number", "line")

    def __init__(self, path: str, form: CsvFormat):
        super().__init__(path, form.kind)
        self.form = form

    def open(self, *place: int) -> tuple[CsvReader, Source]:
        offset, number, line = place
        form = self.form
        with opened_bytes(self.path, offset, form.compression, form.chunk) as source:
            before = (offset, number, line)
            layout = form.records.layout
            reader = CsvReader(source, layout, form.header, form.compression, form.chunk, before)
            return reader, source

    def nothing(self) -> list[np.ndarray]:
        return [np.empty(0, leaf.dtype) for leaf in self.form.spec.leaves]

    def read(self, reader: CsvReader, limit: int) -> tuple[list[np.ndarray], Failure | None, bool]:
        columns, _, failure = reader.next(limit)
        if failure is None:
            return columns, None, False
        message, column, (offset, number, line), goes_on, raised = failure
        if raised is None:
            label = None if column is None else self.form.label(column)
            raised = CsvError(message, self.path, line + 1, label, offset)
        return columns, (message, offset, number, raised), not goes_on

    def describe(self) -> str:
        return f"records of {self.path} ({self.form})"
