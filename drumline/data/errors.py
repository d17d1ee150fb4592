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
        element_index: the element's position in the whole; ``None`` where that is not known.
    """

    element_index: int | None = None

    def __init__(self, where: str, position: int):
        super().__init__(
            f"distribute: workers end, one after the other, at element {position} of {where}; "
            "their logs say why (memory, or a crash in native code). ignore_errors() after "
            "distribute passes over such elements"
        )
        self.where = where
        self.position = position

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return type(self), (self.where, self.position)
