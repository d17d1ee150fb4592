"""How caches and buffers run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline.data.execute.cache_stages import FillStage, ReplayStage
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.sources import Columns
from drumline.data.execute.stage import Stage
from drumline.data.operations.cache import Cache
from drumline.data.plan.node import Pass, Trail

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


def index_cache(lowering: Lowering, node: Cache, trail: Trail, run: Pass) -> Indexed | None:
    blocks = node.store.blocks if node.store in lowering.filled else None
    if blocks is None or len(blocks) != 1:
        return None
    return Columns(blocks[0].columns, blocks[0].n, lowering.pool)


def lower_cache(lowering: Lowering, node: Cache, trail: Trail, run: Pass) -> Stage:
    if node.store in lowering.filled and node.store.blocks is not None:
        return ReplayStage(node.store.blocks)
    # What a cache holds must not depend on the epoch in which it was filled.
    return FillStage(lowering.input(node, trail, (0,), ragged=True), node.store)
