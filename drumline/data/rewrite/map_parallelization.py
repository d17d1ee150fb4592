"""Compiled maps run on several threads."""

from __future__ import annotations

import dataclasses

from drumline.data.cores import available_cores
from drumline.data.operations.map import Map
from drumline.data.plan.node import Node
from drumline.data.rewrite.transform import bottom_up


def map_parallelization(plan: Node, threads: int | None) -> Node:
    """Gives maps for which the user named no ``num_parallel_calls`` as many workers as ``threads``.

    Without a number, all cores but one, which the consumer needs: with two cores, a second worker
    halved the throughput.

    Only functions that may be applied to elements in any order: results and their order stay.
    """
    workers = threads or max(1, available_cores() - 1)

    def widen(node: Node) -> Node:
        if isinstance(node, Map) and node.workers is None and node.function.reorderable:
            return dataclasses.replace(node, workers=workers)
        return node

    return bottom_up(plan, widen) if workers > 1 else plan
