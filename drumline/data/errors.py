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


class WorkerDiedError(RuntimeError):
    """Workers of a data service ended, one after the other, when they were to make an element.

    Attributes:
        where: of which the element is one.
        position: how many of it come before the element.
        how: what is known of the last one's end.
        element_index: the element's position in the whole; ``None`` where that is not known.
    """

    element_index: int | None = None

    def __init__(self, where: str, position: int, how: str):
        super().__init__(
            f"distribute: workers end, one after the other, at element {position} of {where}. Of "
            f"the last one is known: {how}"
        )
        self.where = where
        self.position = position
        self.how = how

    def __reduce__(self) -> tuple[type, tuple[str, int, str]]:
        return type(self), (self.where, self.position, self.how)


class IteratorStateError(ValueError):
    """What ``restore`` was given is no state of the iterator's plan, or is damaged."""


class CsvError(ValueError):
    """A record of comma-separated values is not as it should be.

    Attributes:
        path: of the file.
        line: where the record begins, from 1 on.
        column: which one it is in, if it is in one, by number from 1 on and name.
        offset: how many bytes of the file, decompressed, come before the record.
    """

    def __init__(self, message: str, path: str, line: int, column: str | None, offset: int):
        place = f"line {line}" if column is None else f"line {line}, {column}"
        super().__init__(f"{path}: {place}: {message}")
        self.path = path
        self.line = line
        self.column = column
        self.offset = offset
        self._message = message

    def __reduce__(self) -> tuple[type, tuple[str, str, int, str | None, int]]:
        return type(self), (self._message, self.path, self.line, self.column, self.offset)
