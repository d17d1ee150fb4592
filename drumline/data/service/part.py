"""A part of a plan as workers get it."""

from __future__ import annotations

import dataclasses

from drumline.data.engine.optimize import push_shard
from drumline.data.execute.filter_stage import Predicate
from drumline.data.execute.map_stage import MapStage
from drumline.data.execute.parallel_map_stage import ParallelMapStage
from drumline.data.operations.map import Map
from drumline.data.operations.nested.windows import Rows
from drumline.data.operations.order import Shard, resolve_shard_hints
from drumline.data.options import Options
from drumline.data.plan.distributing import Piece
from drumline.data.plan.node import Node, Trail, bottom_up
from drumline.data.rewrite.shard_files import shard_files
from drumline.data.runtime.stage import Stage
from drumline.data.service.cluster import Split
from drumline.data.service.policy import ShardingPolicy


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a plan that workers run.

    Attributes:
        plan: with a ``Piece`` where a split's elements come in, unless they have shards of it.
        occurrences: of the operations that draw, as in the whole plan, for those in this one.
        options: which hold there.
        policy: by which there are shards.
        shards: how many; 0 for none.
    """

    plan: Node
    occurrences: dict[Trail, int]
    options: Options = dataclasses.field(default_factory=Options)
    policy: ShardingPolicy = ShardingPolicy.DYNAMIC
    shards: int = 0

    def of(self, split: Split) -> Node:
        """The plan of a split."""
        if split.shard is not None:
            return push_shard(_shard_of(self.plan, self.policy, self.shards, split.shard))

        def filled(node: Node) -> Node:
            if not isinstance(node, Piece):
                return node
            if node.by_position:
                return dataclasses.replace(node, start=split.start, stop=split.stop)
            return Rows((), node.spec, split.rows)

        return bottom_up(self.plan, filled)


def for_workers(plan: Node) -> Node:
    """Without what stays beside the consumer; a worker is one thread unless the user says more."""

    def changed(node: Node) -> Node:
        if isinstance(node, Piece) and not node.by_position:
            return node.with_inputs(Rows((), node.spec, ()))
        if isinstance(node, Map) and node.function.reorderable:
            return dataclasses.replace(node, workers=None)
        return node

    return bottom_up(plan, changed)


def options_for_workers(options: Options) -> Options:
    """They have one core each; counting and resting between steps is the consumer's."""
    made = Options().merged(options)
    made.experimental_statistics = made.experimental_slack = None
    made.autotune.cpu_budget = 1
    return made


def count_from(stage: Stage, start: int) -> None:
    """Lets errors name elements by their positions in the whole, as far as these are known."""
    chain = [stage]
    while len(inputs := chain[-1].inputs()) == 1:
        chain.append(inputs[0])
    for below in reversed(chain[:-1]):
        if not isinstance(below, MapStage | ParallelMapStage | Predicate):
            return
        below.count_from(start)
        if isinstance(below, Predicate):
            return


def _shard_of(plan: Node, policy: ShardingPolicy, shards: int, index: int) -> Node:
    match policy:
        case ShardingPolicy.FILE:
            plan = shard_files(plan, shards, index)
        case ShardingPolicy.DATA:
            plan = Shard((plan,), shards, index)
        case ShardingPolicy.HINT:
            return resolve_shard_hints(plan, shards, index)
    return resolve_shard_hints(plan, 1, 0)
