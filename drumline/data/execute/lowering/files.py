"""How files are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from drumline.data.execute.array_record_rows import ArrayRecordRows
from drumline.data.execute.csv_stage import CsvStage
from drumline.data.execute.dense_stage import ragged_rows
from drumline.data.execute.flat_map_stage import FlatMapStage
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.interleave_stage import InterleaveStage
from drumline.data.execute.lowering.lower import Lowering
from drumline.data.execute.lowering.nesting import opener
from drumline.data.execute.lowering.rules import Pass, Trail, indexed_as, runs_as
from drumline.data.execute.openings import Openings
from drumline.data.execute.packed_records_stage import PackedRecordsStage
from drumline.data.execute.records_stage import RecordsStage
from drumline.data.execute.stage import Stage
from drumline.data.execute.table_stage import TableStage
from drumline.data.execute.tar_stage import TarStage
from drumline.data.execute.workers import MOST_THREADS
from drumline.data.files.csv_format import CsvFormat
from drumline.data.files.file_format import FileFormat, Format
from drumline.data.files.table_format import TableFormat
from drumline.data.files.tar_format import TarFormat
from drumline.data.plan import files
from drumline.data.plan.node import Node

_STAGES: dict[type, Callable[[str, Any], Stage]] = {
    CsvFormat: CsvStage,
    FileFormat: RecordsStage,
    TableFormat: TableStage,
    TarFormat: TarStage,
}
"""What reads a file of each format."""


@runs_as(files.File)
def file(lowering: Lowering, node: files.File, trail: Trail, run: Pass) -> Stage:
    if node.packed and isinstance(node.form, FileFormat):
        return PackedRecordsStage(node.path, node.form)
    return _STAGES[type(node.form)](node.path, node.form)


@runs_as(files.Files)
def all_files(lowering: Lowering, node: files.Files, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run)
    at_once = node.at_once or 1
    openings = Openings(
        source,
        node.input.spec,
        _plans(node.form, trail in lowering.packed),
        opener(lowering, ragged=at_once == 1),
        run,
        min(at_once, MOST_THREADS) if at_once > 1 else 0,
    )
    label = f"{node.form.kind} files"
    if at_once == 1:
        return FlatMapStage(openings, node.spec, label, True, ragged_rows(node.spec))
    return InterleaveStage(openings, at_once, 1, node.spec, label, True, lowering.pool)


@indexed_as(files.ArrayRecordFiles)
def array_records(
    lowering: Lowering, node: files.ArrayRecordFiles, trail: Trail, run: Pass
) -> Indexed:
    return ArrayRecordRows(node.records)


def _plans(form: Format, packed: bool) -> Callable[[Any, Sequence[int]], Node]:
    def plan(path: bytes, place: Sequence[int]) -> Node:
        return files.File((), os.fsdecode(path), form, packed)

    return plan
