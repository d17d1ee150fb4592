"""The samples of one tar archive."""

from __future__ import annotations

import numpy as np

from drumline._core import TarReader
from drumline.data.execute.file_stage import Failure, FileStage
from drumline.data.files.opening import Source
from drumline.data.files.tar_format import TarFormat

_AT_ONCE = 4 << 20
"""About how many bytes of samples a block has."""


class TarStage(FileStage):
    """Reads an archive's samples. One that is not as wanted is an error, and the next follows."""

    def __init__(self, path: str, form: TarFormat):
        super().__init__(path, form.kind)
        self.form = form
        self.width = 1 + len(form.extensions)

    def open(self, *place: int) -> tuple[TarReader, Source]:
        offset, number = place
        return self.form.open(self.path, offset, number)

    def read(self, reader: TarReader, limit: int) -> tuple[list[np.ndarray], Failure | None, bool]:
        columns, failure = reader.next(limit, _AT_ONCE)
        return columns, failure and failure[:4], failure is not None and failure[4]

    def describe(self) -> str:
        return f"samples of {self.path} ({self.form})"
