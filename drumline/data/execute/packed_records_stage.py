"""The records of one file, left in the memory they were read into."""

from __future__ import annotations

from typing import Any

from drumline._core import RecordReader
from drumline.data.execute.file_stage import Failure
from drumline.data.execute.records_stage import RecordsStage
from drumline.data.packed_strings import PackedStrings

_NBYTES = 4 << 20
"""Blocks of fewer bytes are filled up with what comes next in the file."""


class PackedRecordsStage(RecordsStage):
    """Reads a file's records to columns that are ``PackedStrings``."""

    def read(self, reader: RecordReader, limit: int) -> tuple[list[Any], Failure | None, bool]:
        records, failure = reader.packed(limit, _NBYTES)
        return [PackedStrings.of(records)], failure, True
