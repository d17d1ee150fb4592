"""Applies the rewrite rules to a plan."""

from __future__ import annotations

from collections.abc import Callable

from drumline.data.options import Options
from drumline.data.plan.node import Node
from drumline.data.rewrite.auto_prefetch import auto_prefetch
from drumline.data.rewrite.drop_noops import drop_noops
from drumline.data.rewrite.map_parallelization import map_parallelization
from drumline.data.rewrite.push_shard import push_shard
from drumline.data.rewrite.push_take_skip import push_take_skip

Rule = Callable[[Node], Node]


def optimize(plan: Node, options: Options) -> Node:
    """The plan as it runs: the same elements, sooner.

    Every rule keeps the order in which shuffles occur in the tree, since their keys follow from it.
    """
    threads = options.threading.private_threadpool_size
    rules: tuple[tuple[str, Rule], ...] = (
        ("noop_elimination", drop_noops),
        ("take_skip_pushdown", push_take_skip),
        ("shard_pushdown", push_shard),
        ("noop_elimination", drop_noops),
        ("map_parallelization", lambda node: map_parallelization(node, threads)),
        ("inject_prefetch", auto_prefetch),
    )
    for name, rule in rules:
        if options.experimental_optimization.applies(name):
            plan = rule(plan)
    return plan
