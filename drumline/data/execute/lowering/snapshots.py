"""How snapshots run: written at first, and read once they are complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline.data.execute.indexed import Indexed
from drumline.data.execute.snapshot_stage import SnapshotStage
from drumline.data.execute.stage import Stage
from drumline.data.operations.cache import Snapshot
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.store.reading import by_turns, dataset_of
from drumline.data.store.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


def index_snapshot(lowering: Lowering, node: Snapshot, trail: Trail, run: Pass) -> Indexed | None:
    plan = _stored(lowering, node, run)
    if plan is None:
        return None
    return lowering.indexed_inside(plan, run)


def lower_snapshot(lowering: Lowering, node: Snapshot, trail: Trail, run: Pass) -> Stage:
    plan = _stored(lowering, node, run)
    if plan is not None:
        return lowering.inside(plan, set(), run, ragged=True)
    # As of a cache, what it holds must not depend on the epoch in which it is written.
    source = lowering.input(node, trail, (0,), ragged=True)
    return SnapshotStage(source, node.store, node.sharded, node.in_order)


def _stored(lowering: Lowering, node: Snapshot, run: Pass) -> Node | None:
    """The elements as they are read; ``None`` while there are none."""
    store = node.store
    if store not in lowering.filled or not store.full or not isinstance(store, SnapshotStore):
        return None
    shards = store.shards()
    if node.reader is None:
        return by_turns(shards, node.spec)
    return node.reader(dataset_of(shards, node.spec), run)
