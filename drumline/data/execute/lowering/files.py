"""How files are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from drumline.data.execute.array_record_rows import ArrayRecordRows
from drumline.data.execute.csv_stage import CsvStage
from drumline.data.execute.dense_stage import ragged_rows
from drumline.data.execute.flat_map_stage import FlatMapStage
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.interleave_stage import InterleaveStage
from drumline.data.execute.openings import Openings, opener
from drumline.data.execute.packed_records_stage import PackedRecordsStage
from drumline.data.execute.records_stage import RecordsStage
from drumline.data.execute.runtime import Runtime
from drumline.data.execute.stage import Stage
from drumline.data.execute.table_stage import TableStage, tables_nbytes
from drumline.data.execute.tar_stage import TarStage
from drumline.data.execute.workers import MOST_THREADS
from drumline.data.files.csv_format import CsvFormat
from drumline.data.files.file_format import FileFormat, Format
from drumline.data.files.table_format import TableFormat
from drumline.data.files.tables import PIECE_BYTES
from drumline.data.files.tar_format import TarFormat
from drumline.data.operations.files import ArrayRecordFiles, File, Files
from drumline.data.plan.node import Node, Pass, Trail

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


_STAGES: dict[type, Callable[[str, Any], Stage]] = {
    CsvFormat: CsvStage,
    FileFormat: RecordsStage,
    TarFormat: TarStage,
}
"""What reads a file of each format, but tables."""

_PIECES_BYTES = 32 << 20
"""What is decoded at once of all tables that are read by turns."""


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
    openings = Openings(
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
        return FlatMapStage(openings, node.spec, label, True, ragged_rows(node.spec))
    return InterleaveStage(openings, at_once, 1, node.spec, label, True, lowering.pool)


def index_array_records(
    lowering: Lowering, node: ArrayRecordFiles, trail: Trail, run: Pass
) -> Indexed:
    return ArrayRecordRows(node.records)


def _plans(form: Format, packed: bool, at_once: int) -> Callable[[Any, Sequence[int]], Node]:
    def plan(path: bytes, place: Sequence[int]) -> Node:
        return File((), os.fsdecode(path), form, packed, at_once)

    return plan


def _piece_nbytes(runtime: Runtime, at_once: int) -> int:
    """How much to decode at once of each of so many tables that are read by turns."""
    return min(PIECE_BYTES, min(_PIECES_BYTES, runtime.nbytes // 8) // at_once)


def _shares_columns(runtime: Runtime) -> bool:
    """Whether Arrow's threads may decode, of which it has one for each core it sees."""
    return runtime.cores > 1 and runtime.options.autotune.cpu_budget is None
