"""How stacking runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline.data.execute.batch_stage import BatchStage
from drumline.data.execute.padded_batch_stage import PaddedBatchStage
from drumline.data.execute.ragged_batch_stage import RaggedBatchStage
from drumline.data.execute.rebatch_stage import RebatchStage
from drumline.data.execute.stage import Stage
from drumline.data.execute.unbatch_stage import UnbatchStage
from drumline.data.operations.batch import Batch, Unbatch
from drumline.data.plan.node import Pass, Trail
from drumline.data.plan.padding import PaddedBatch, RaggedBatch, Rebatch

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


def lower_batch(lowering: Lowering, node: Batch, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run)
    _gather(lowering, source, node.size)
    return BatchStage(source, node.size, node.drop_remainder, lowering.pool)


def _gather(lowering: Lowering, source: Stage, size: int) -> None:
    """Has a map make whole batches, if it can at no cost, so that they are not copied."""
    if lowering.runtime.options.experimental_optimization.applies("map_and_batch_fusion"):
        source.gathered(size)


def lower_unbatch(lowering: Lowering, node: Unbatch, trail: Trail, run: Pass) -> Stage:
    return UnbatchStage(lowering.input(node, trail, run), node.input.spec, node.operation)


def lower_padded_batch(lowering: Lowering, node: PaddedBatch, trail: Trail, run: Pass) -> Stage:
    return PaddedBatchStage(lowering.input(node, trail, run, ragged=True), node)


def lower_ragged_batch(lowering: Lowering, node: RaggedBatch, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=True)
    return RaggedBatchStage(source, node.spec, node.size, node.drop_remainder)


def lower_rebatch(lowering: Lowering, node: Rebatch, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run)
    if len(set(node.sizes)) == 1:
        _gather(lowering, source, node.sizes[0])
        return BatchStage(source, node.sizes[0], node.drop_remainder, lowering.pool, node.name)
    return RebatchStage(source, node.sizes, node.drop_remainder, lowering.pool, node.input.spec)
