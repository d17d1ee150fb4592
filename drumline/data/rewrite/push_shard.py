"""``shard`` moves towards the source."""

from __future__ import annotations

from drumline.data.operations.map import Map
from drumline.data.operations.order import Shard
from drumline.data.plan.node import Node
from drumline.data.rewrite.transform import bottom_up


def push_shard(plan: Node) -> Node:
    """Below maps whose functions may be left out for elements nobody sees; neighbours merge."""
    return bottom_up(plan, _push)


def _push(node: Node) -> Node:
    match node:
        case Shard(inputs=(Shard() as inner,)):
            index = inner.index + inner.num_shards * node.index
            return _push(Shard(inner.inputs, inner.num_shards * node.num_shards, index))
        case Shard(inputs=(Map() as inner,)) if inner.function.reorderable:
            return inner.with_inputs(_push(node.with_inputs(inner.input)))
    return node
