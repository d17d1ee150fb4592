"""Records of ArrayRecord files, by position."""

from __future__ import annotations

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.order import Index
from drumline.data.files.array_records import ArrayRecords
from drumline.data.functions.notes import at_element
from drumline.data.spec import STRING


class ArrayRecordRows(Indexed):
    """Reads the records of a block together; if that fails, one by one up to the damaged one."""

    def __init__(self, records: ArrayRecords):
        self.records = records
        self.length = len(records)

    def rows(self, index: Index) -> Block:
        positions = list(index) if isinstance(index, range) else index.tolist()
        try:
            return Block([_column(self.records.read(positions))], len(positions))
        except Exception:
            return self._up_to_error(positions)

    def _up_to_error(self, positions: list[int]) -> Block:
        found: list[bytes] = []
        for position in positions:
            try:
                found += self.records.read([position])
            except Exception as error:
                error = at_element(error, position, "ArrayRecordDataset")
                return Block([_column(found)], len(found), error)
        return Block([_column(found)], len(found))

    def describe(self) -> str:
        return f"records of {len(self.records.paths)} ArrayRecord files ({self.length} elements)"


def _column(records: list[bytes]) -> np.ndarray:
    column = np.empty(len(records), STRING)
    column[:] = records
    return column
