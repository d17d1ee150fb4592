"""Elements are made while the consumer works."""

from __future__ import annotations

import os

from drumline.data.plan.buffering import Prefetch
from drumline.data.plan.function_nodes import Filter, Map
from drumline.data.plan.node import Node
from drumline.data.plan.sources import Generator


def auto_prefetch(plan: Node) -> Node:
    """Adds a prefetch at the end of a plan that computes and runs no Python of the user's.

    A generator or a Python function must not be called before its element is asked for.
    """
    computes = any(isinstance(node, Map | Filter) for node in plan.walk())
    if isinstance(plan, Prefetch) or not computes or (os.cpu_count() or 1) < 2:
        return plan
    return plan if any(_runs_python(node) for node in plan.walk()) else Prefetch((plan,), None)


def _runs_python(node: Node) -> bool:
    if isinstance(node, Map | Filter):
        return node.function.is_python
    return isinstance(node, Generator)
