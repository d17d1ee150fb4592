"""Records of files."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from drumline.data.cardinality import UNKNOWN
from drumline.data.files.array_records import ArrayRecords
from drumline.data.files.file_format import BYTES, Format
from drumline.data.plan.node import Node
from drumline.data.spec import ElementSpec


@dataclasses.dataclass(frozen=True, eq=False)
class File(Node):
    """The records of one file.

    Attributes:
        packed: whether they are left in the memory they are read into.
        at_once: how many files are read by turns, of which this is one.
    """

    path: str
    form: Format
    packed: bool = False
    at_once: int = 1
    name: ClassVar[str] = "file"

    @property
    def spec(self) -> ElementSpec:
        return self.form.spec

    @property
    def cardinality(self) -> int:
        return UNKNOWN

    def arguments(self) -> str:
        return f"{self.path!r}, {self.form}"


@dataclasses.dataclass(frozen=True, eq=False)
class Files(Node):
    """The records of the files that the input names.

    Attributes:
        form: how the files are read.
        at_once: how many are read by turns; ``None`` for one after the other.
    """

    form: Format
    at_once: int | None
    name: ClassVar[str] = "files"

    @property
    def spec(self) -> ElementSpec:
        return self.form.spec

    @property
    def cardinality(self) -> int:
        return 0 if self.input.cardinality == 0 else UNKNOWN

    def arguments(self) -> str:
        turns = "" if self.at_once is None else f", {self.at_once} by turns"
        return f"{self.form}{turns}"


@dataclasses.dataclass(frozen=True, eq=False)
class ArrayRecordFiles(Node):
    """The records of ArrayRecord files, which can be read in any order."""

    records: ArrayRecords
    name: ClassVar[str] = "array_records"

    @property
    def spec(self) -> ElementSpec:
        return BYTES

    @property
    def cardinality(self) -> int:
        return len(self.records)

    def arguments(self) -> str:
        return f"{len(self.records)} of {', '.join(map(repr, self.records.paths))}"
