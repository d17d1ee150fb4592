"""Records of files: text lines, TFRecords, CSV, tar archives, ArrayRecords."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from drumline._core import CsvReader, RecordReader, TarReader
from drumline.data.elements.block import Block
from drumline.data.elements.columns import PackedStrings
from drumline.data.elements.errors import CsvError, DataLossError, at_element
from drumline.data.elements.spec import STRING, UNKNOWN, ElementSpec
from drumline.data.operations.batch import Batch
from drumline.data.operations.map import Map
from drumline.data.operations.nested.inner_datasets import InnerDatasets, opener
from drumline.data.operations.nested.nesting import FlatMapStage, InterleaveStage
from drumline.data.operations.ordering.order import Skip, Take
from drumline.data.operations.prefetch import Prefetch
from drumline.data.operations.reading.tables import TableFormat, TableStage, tables_nbytes
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.stage import (
    TARGET_BYTES,
    Index,
    RandomAccessSource,
    Stage,
    State,
    ragged_rows,
)
from drumline.data.runtime.threads import MOST_THREADS
from drumline.data.storage.files.array_records import ArrayRecords
from drumline.data.storage.files.csv import CsvFormat
from drumline.data.storage.files.records import BYTES, FileFormat, Format
from drumline.data.storage.files.remote import ReadAhead, Source, open_records, opened_bytes
from drumline.data.storage.files.tables import PIECE_BYTES
from drumline.data.storage.files.tar_format import TarFormat

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering, Runtime


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
        at_once: how many are read by turns; ``None``: they are read in order.
    """

    form: Format
    at_once: int | None
    name: ClassVar[str] = "files"
    reads_files: ClassVar[bool] = True

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


Failure = tuple[str, int, int, BaseException | None]
"""A failure: its message, the byte and the element where it is, and the exception raised."""


class FileReader(Protocol):
    """Reads the elements of one file."""

    def position(self) -> tuple[int, ...]:
        """Return the numbers of bytes, elements and others of ``places`` before the next one."""


class FileStage(Stage):
    """Reads a file in order; what cannot be read is an error in its place, and the last element.

    Its state is a place in the file, where reading resumes at once if it is not compressed.
    """

    width = 1
    """How many leaves an element has; all are ``bytes`` unless ``nothing`` says otherwise."""

    places: tuple[str, ...] = ("offset", "number")
    """The names of the numbers that describe a place in the file: of bytes, elements and others."""

    def __init__(self, path: str, label: str):
        self.path = path
        self._label = label
        self._reader: Any = None
        self._source: Source | None = None
        self._place: tuple[int, ...] = (0,) * len(self.places)
        self._ended = False

    def open(self, *place: int) -> tuple[FileReader, Source]:
        """Return what reads the file from a place on, and the bytes it reads."""
        raise NotImplementedError

    def nothing(self) -> list[np.ndarray]:
        """Return the columns of no elements."""
        return [np.empty(0, object)] * self.width

    def read(self, reader: Any, limit: int) -> tuple[list[Any], Failure | None, bool]:
        """Return up to ``limit`` elements, the failure of the next, and whether it is the last."""
        raise NotImplementedError

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        try:
            if self._reader is None:
                self._reader, self._source = self.open(*self._place)
            columns, failure, last = self.read(self._reader, limit)
        except Exception as error:
            return self._failed(self.nothing(), error, self._position()[1], True)
        if failure is not None:
            return self._failed(columns, self._error(*failure), failure[2], last)
        if not len(columns[0]):
            self._end()
            return None
        return Block(columns, len(columns[0]))

    def _failed(
        self, columns: list[np.ndarray], error: Exception, number: int, last: bool
    ) -> Block:
        if last:
            self._end()
        error = at_element(error, number, f"the {self._label} file {self.path}")
        return Block(columns, len(columns[0]), error)

    def _error(
        self, message: str, offset: int, number: int, raised: BaseException | None
    ) -> Exception:
        if isinstance(raised, OSError) and raised.errno and raised.filename is None:
            return OSError(raised.errno, os.strerror(raised.errno), self.path)
        if isinstance(raised, Exception):
            return raised
        return DataLossError(message, self.path, offset, number)

    def _end(self) -> None:
        self._ended = True
        self.close()

    def state(self) -> State:
        if self._ended:
            return {"ended": True}
        return dict(zip(self.places, self._position(), strict=True))

    def _position(self) -> tuple[int, ...]:
        place: tuple[int, ...] = self._place if self._reader is None else self._reader.position()
        return place

    def restore(self, state: State) -> None:
        self.close()
        self._ended = "ended" in state
        if not self._ended:
            self._place = tuple(state[name] for name in self.places)

    def inputs(self) -> Sequence[Stage]:
        return []

    def close(self) -> None:
        if isinstance(self._source, ReadAhead):
            self._source.close()
        self._reader = self._source = None


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


_NBYTES = 4 << 20
"""Blocks of fewer bytes are filled up with what comes next in the file."""


class PackedRecordsStage(RecordsStage):
    """Reads a file's records to columns that are ``PackedStrings``."""

    def read(self, reader: RecordReader, limit: int) -> tuple[list[Any], Failure | None, bool]:
        records, failure = reader.packed(limit, _NBYTES)
        return [PackedStrings.of(records)], failure, True


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


class ArrayRecordRows(RandomAccessSource):
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


_STAGES: dict[type, Callable[[str, Any], Stage]] = {
    CsvFormat: CsvStage,
    FileFormat: RecordsStage,
    TarFormat: TarStage,
}
"""The reader of each format, except of tables."""

_PIECES_BYTES = 32 << 20
"""How many bytes are decoded at once of all tables that are read by turns."""


def lower_file(lowering: Lowering, node: File, trail: Trail, run: Pass) -> Stage:
    if node.packed and isinstance(node.form, FileFormat):
        return PackedRecordsStage(node.path, node.form)
    if isinstance(node.form, TableFormat):
        nbytes = _piece_nbytes(lowering.runtime, node.at_once)
        return TableStage(node.path, node.form, nbytes, _shares_columns(lowering.runtime))
    return _STAGES[type(node.form)](node.path, node.form)


def lower_files(lowering: Lowering, node: Files, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run)
    at_once = node.at_once or 1
    shared = ""
    held: int | None = 0
    if isinstance(node.form, TableFormat):
        held = tables_nbytes(node.form, _piece_nbytes(lowering.runtime, at_once))
        if _shares_columns(lowering.runtime):
            shared = ", columns decoded by Arrow's threads"
    inner_datasets = InnerDatasets(
        source,
        node.input.spec,
        _plans(node.form, trail in lowering.packed, at_once),
        opener(lowering, ragged=at_once == 1),
        run,
        min(at_once, MOST_THREADS) if at_once > 1 else 0,
        each_nbytes=held,
    )
    label = f"{node.form.kind} files{shared}"
    if at_once == 1:
        return FlatMapStage(inner_datasets, node.spec, label, True, ragged_rows(node.spec))
    stage = InterleaveStage(inner_datasets, at_once, 1, node.spec, label, True, lowering.pool)
    # A block costs a slice for each file and leaf, however many rows it has.
    most = max(1, TARGET_BYTES // (node.spec.row_nbytes() * at_once))
    stage.preferred_block_size = stage.least_block_size = at_once * min(most, _ROUNDS)
    return stage


def index_array_records(
    lowering: Lowering, node: ArrayRecordFiles, trail: Trail, run: Pass
) -> RandomAccessSource:
    return ArrayRecordRows(node.records)


_ROUNDS = 32
"""How often a block visits each of the files that are read by turns."""


def _plans(form: Format, packed: bool, at_once: int) -> Callable[[Any, Sequence[int]], Node]:
    def plan(path: bytes, place: Sequence[int]) -> Node:
        return File((), os.fsdecode(path), form, packed, at_once)

    return plan


def _piece_nbytes(runtime: Runtime, at_once: int) -> int:
    """Return how much to decode at once of each of so many tables that are read by turns."""
    return min(PIECE_BYTES, min(_PIECES_BYTES, runtime.nbytes // 8) // at_once)


def _shares_columns(runtime: Runtime) -> bool:
    """Return whether Arrow's threads may decode, of which it has one for each core it sees."""
    return runtime.cores > 1 and runtime.options.autotune.cpu_budget is None


_PASSING = (Batch, Prefetch, Skip, Take)
"""The operations that pass strings on unchanged."""


def packed_reads(root: Node) -> frozenset[Trail]:
    """Return the places in a plan that read records for functions which take them packed."""
    found: set[Trail] = set()

    def visit(node: Node, trail: Trail, wanted: bool) -> None:
        if wanted and _can_be_packed(node):
            found.add(trail)
        takes = isinstance(node, Map) and _takes_packed(node)
        hands_on = wanted and isinstance(node, _PASSING)
        for which, item in enumerate(node.inputs):
            visit(item, (*trail, which), takes or hands_on)

    visit(root, (), False)
    return frozenset(found)


def _takes_packed(node: Map) -> bool:
    return bool(getattr(node.function.run, "takes_packed", False))


def _can_be_packed(node: Node) -> bool:
    """Return whether a node reads records of files sequentially."""
    if not isinstance(node, Files) or not isinstance(node.form, FileFormat):
        return False
    return node.form.kind == "tfrecord" and node.at_once in (None, 1)
