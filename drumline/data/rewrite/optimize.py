"""Applies the rewrite rules to a plan."""

from __future__ import annotations

from drumline.data.options import Options
from drumline.data.plan.node import Node
from drumline.data.rewrite.auto_prefetch import auto_prefetch
from drumline.data.rewrite.drop_noops import drop_noops
from drumline.data.rewrite.map_parallelization import map_parallelization
from drumline.data.rewrite.push_shard import push_shard
from drumline.data.rewrite.push_take_skip import push_take_skip


def optimize(plan: Node, options: Options) -> Node:
    """The plan as it runs: the same elements, sooner.

    Every rule keeps the order in which shuffles occur in the tree, since their keys follow from it.
    """
    if not options.experimental_optimization.apply_default_optimizations:
        return plan
    for rule in (drop_noops, push_take_skip, push_shard, drop_noops):
        plan = rule(plan)
    plan = map_parallelization(plan, options.threading.private_threadpool_size)
    return auto_prefetch(plan)
