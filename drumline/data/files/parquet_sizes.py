"""How much memory it takes to decode rows of a Parquet file, as its metadata tell."""

from __future__ import annotations

from typing import Any

_STORED_BYTES = {
    "BOOLEAN": 1,
    "INT32": 4,
    "INT64": 8,
    "INT96": 12,
    "FLOAT": 4,
    "DOUBLE": 8,
}
"""The format's physical types once they are decoded; integers of 8 and 16 bits are INT32."""

_LEVELS_BYTES = 4
"""A repetition and a definition level of 16 bits, which each value of a list has."""

_OBJECT_BYTES = 64


class DecodedSizes:
    """The bytes of row groups while some of their columns are decoded.

    A value of a list is there twice: as it is stored, with its levels, and in the list's array. A
    string becomes an object, and is taken to be as long as it is in the file; one that is there
    once for many rows (the format's dictionaries) is longer than that.

    Args:
        file: a ``pyarrow.parquet.ParquetFile``.
        columns: names of those at the top.
    """

    def __init__(self, file: Any, columns: list[str]):
        self._metadata = file.metadata
        self._row_nbytes = 0
        self._values: list[tuple[int, int]] = []
        self._strings: list[int] = []
        for leaf in range(len(file.schema)):
            column = file.schema.column(leaf)
            if any(column.path == name or column.path.startswith(f"{name}.") for name in columns):
                self._add(leaf, column)

    def _add(self, leaf: int, column: Any) -> None:
        nbytes = _STORED_BYTES.get(column.physical_type, column.length)
        if column.physical_type == "BYTE_ARRAY":
            nbytes = _OBJECT_BYTES
            self._strings.append(leaf)
        if column.max_repetition_level:
            self._values.append((leaf, 3 * nbytes // 2 + _LEVELS_BYTES))
        else:
            self._row_nbytes += nbytes

    def of(self, group: int) -> int:
        """The bytes of a row group, all of it decoded at once."""
        found = self._metadata.row_group(group)
        nbytes = self._row_nbytes * int(found.num_rows)
        nbytes += sum(each * found.column(leaf).num_values for leaf, each in self._values)
        return nbytes + sum(found.column(leaf).total_uncompressed_size for leaf in self._strings)
