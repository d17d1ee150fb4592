"""The records of one file."""

from __future__ import annotations

from typing import Any

from drumline._core import RecordReader
from drumline.data.execute.file_stage import Failure, FileStage
from drumline.data.files.file_format import FileFormat
from drumline.data.files.opening import Source, open_records


class RecordsStage(FileStage):
    """Reads a file's records."""

    def __init__(self, path: str, form: FileFormat):
        super().__init__(path, str(form))
        self.form = form

    def open(self, *place: int) -> tuple[RecordReader, Source]:
        offset, number = place
        return open_records(self.path, self.form, offset, number)

    def read(self, reader: RecordReader, limit: int) -> tuple[list[Any], Failure | None, bool]:
        records, failure = reader.next(limit)
        return [records], failure, True

    def describe(self) -> str:
        return f"records of {self.path} ({self.form})"
