"""How caches and buffers run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline.data.execute.cache_stages import FillStage, ReplayStage
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.prefetch_stage import PrefetchStage
from drumline.data.execute.sources import Columns
from drumline.data.execute.stage import Stage
from drumline.data.plan.batching import Batch
from drumline.data.plan.buffering import Cache, Prefetch
from drumline.data.plan.node import Node, Pass, Trail

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


def lower_prefetch(lowering: Lowering, node: Prefetch, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=True)
    room = lowering.runtime.room(lowering.root) if node.size is None else None
    slack = bool(lowering.runtime.options.experimental_slack) and not trail
    row_nbytes, most = node.spec.row_nbytes(), lowering.runtime.nbytes // 2
    largest = _largest_nbytes(node.input)
    return PrefetchStage(source, node.size, row_nbytes, room, slack, None, most, largest)


def _largest_nbytes(node: Node) -> int | None:
    """What no element of a node is larger than, in bytes."""
    if type(node) is Batch:
        row = _largest_nbytes(node.input)
        return None if row is None else node.size * row
    sizes = [leaf.nbytes for leaf in node.spec.leaves]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
