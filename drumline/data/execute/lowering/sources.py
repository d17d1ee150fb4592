"""How sources run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drumline.data._dataset.base import as_dataset
from drumline.data.dataset_spec import DatasetSpec
from drumline.data.execute.generator_stage import GeneratorStage
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.items import SequenceRows
from drumline.data.execute.sources import Columns, Integers
from drumline.data.execute.stage import Stage
from drumline.data.execute.stored_parts_stage import StoredPartsStage
from drumline.data.operations import sources
from drumline.data.plan.node import Pass, Trail

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


def index_range(lowering: Lowering, node: sources.Range, trail: Trail, run: Pass) -> Indexed:
    return Integers(node.start, node.step, node.length, node.dtype)


def index_slices(lowering: Lowering, node: sources.Slices, trail: Trail, run: Pass) -> Indexed:
    return Columns(node.columns, node.length, lowering.pool)


def index_slices_with_datasets(
    lowering: Lowering, node: sources.SlicesWithDatasets, trail: Trail, run: Pass
) -> Indexed:
    datasets = np.empty(len(node.inputs), object)
    for i, plan in enumerate(node.inputs):
        datasets[i] = as_dataset(plan)
    pairs = zip(node.columns, node.spec.leaves, strict=True)
    columns = [
        datasets[column] if isinstance(leaf, DatasetSpec) else column for column, leaf in pairs
    ]
    return Columns(columns, node.length, lowering.pool)


def index_stored(lowering: Lowering, node: sources.Stored, trail: Trail, run: Pass) -> Indexed:
    return Columns(node.columns, node.length, lowering.pool)


def lower_stored_parts(
    lowering: Lowering, node: sources.StoredParts, trail: Trail, run: Pass
) -> Stage:
    return StoredPartsStage(node)


def index_items(
    lowering: Lowering, node: sources.SequenceItems, trail: Trail, run: Pass
) -> Indexed:
    return SequenceRows(node.sequence, node.length, node.spec, node.label)


def lower_generator(lowering: Lowering, node: sources.Generator, trail: Trail, run: Pass) -> Stage:
    return GeneratorStage(node.factory, node.spec, node.label, lowering.pool)
