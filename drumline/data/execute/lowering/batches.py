"""How stacking runs."""

from __future__ import annotations

from drumline.data.execute.batch_stage import BatchStage
from drumline.data.execute.lowering.lower import Lowering
from drumline.data.execute.lowering.rules import Pass, Trail, runs_as
from drumline.data.execute.stage import Stage
from drumline.data.execute.unbatch_stage import UnbatchStage
from drumline.data.plan import batching


@runs_as(batching.Batch)
def batch(lowering: Lowering, node: batching.Batch, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run)
    return BatchStage(source, node.size, node.drop_remainder, lowering.pool)


@runs_as(batching.Unbatch)
def unbatch(lowering: Lowering, node: batching.Unbatch, trail: Trail, run: Pass) -> Stage:
    return UnbatchStage(lowering.input(node, trail, run))
