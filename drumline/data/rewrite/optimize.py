"""Applies the rewrite rules to a plan."""

from __future__ import annotations

from collections.abc import Callable, Collection

from drumline.data.cores import available_cores
from drumline.data.options import Options
from drumline.data.plan.node import Node
from drumline.data.rewrite.auto_prefetch import auto_prefetch
from drumline.data.rewrite.drop_noops import drop_noops
from drumline.data.rewrite.map_parallelization import map_parallelization
from drumline.data.rewrite.push_shard import push_shard
from drumline.data.rewrite.push_take_skip import push_take_skip
from drumline.data.rewrite.stack_windows import stack_windows

Rule = Callable[[Node, int | None], Node]

_RULES: tuple[tuple[str, Rule], ...] = (
    ("noop_elimination", lambda plan, _: drop_noops(plan)),
    ("take_skip_pushdown", lambda plan, _: push_take_skip(plan)),
    ("shard_pushdown", lambda plan, _: push_shard(plan)),
    ("noop_elimination", lambda plan, _: drop_noops(plan)),
    ("window_and_batch_fusion", lambda plan, _: stack_windows(plan)),
    ("map_parallelization", map_parallelization),
    ("inject_prefetch", lambda plan, _: auto_prefetch(plan)),
)


def rules_in_force(options: Options) -> list[str]:
    """The names of the rules that apply under ``options`` on this machine."""
    names = dict.fromkeys(name for name, _ in _RULES)
    if available_cores() < 2:
        # There is no core on which to make elements while the consumer works.
        del names["inject_prefetch"]
    return [name for name in names if options.experimental_optimization.applies(name)]


def optimize(plan: Node, rules: Collection[str], threads: int | None) -> Node:
    """The plan as it runs: the same elements, sooner.

    Every rule keeps the order in which shuffles occur in the tree, since their keys follow from it.

    Args:
        plan: what was asked for.
        rules: the names of those to apply. The states of stages depend on them.
        threads: that maps share, if the user gave a number.
    """
    for name, rule in _RULES:
        if name in rules:
            plan = rule(plan, threads)
    return plan
