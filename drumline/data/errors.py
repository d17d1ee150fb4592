"""Errors of data that was read, by the names of ``tf.errors``."""

from __future__ import annotations


class DataLossError(ValueError):
    """A file is damaged, cut off, or not of the format it is read as.

    Attributes:
        path: of the file.
        offset: how many bytes of it, decompressed, come before the record.
        number: how many records.
    """

    def __init__(self, message: str, path: str, offset: int, number: int):
        super().__init__(f"{path}: record {number}, at byte {offset}: {message}")
        self.path = path
        self.offset = offset
        self.number = number
        self._message = message

    def __reduce__(self) -> tuple[type, tuple[str, str, int, int]]:
        return type(self), (self._message, self.path, self.offset, self.number)
