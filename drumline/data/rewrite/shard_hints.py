"""``shard(SHARD_HINT, SHARD_HINT)``: the place where processes take their shares."""

from __future__ import annotations

import dataclasses

from drumline.data.operations.order import SHARD_HINT, Shard
from drumline.data.plan.node import Node
from drumline.data.rewrite.transform import bottom_up


def has_shard_hints(plan: Node) -> bool:
    """Whether some shard of the plan is a hint."""
    return any(isinstance(node, Shard) and node.num_shards == SHARD_HINT for node in plan.walk())


def resolve_shard_hints(plan: Node, num_shards: int, index: int) -> Node:
    """The plan of one of `num_shards` processes; with one it reads everything."""

    def resolve(node: Node) -> Node:
        if isinstance(node, Shard) and node.num_shards == SHARD_HINT:
            return dataclasses.replace(node, num_shards=num_shards, index=index)
        return node

    return bottom_up(plan, resolve)
