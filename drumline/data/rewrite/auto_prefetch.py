"""Elements are made while the consumer works."""

from __future__ import annotations

from drumline.data.files.table_format import TableFormat
from drumline.data.plan.buffering import Prefetch
from drumline.data.plan.files import Files
from drumline.data.plan.function_nodes import Filter, Map
from drumline.data.plan.node import Node
from drumline.data.plan.placing import PrefetchToDevice
from drumline.data.plan.sources import Generator


def auto_prefetch(plan: Node) -> Node:
    """Adds a prefetch at the end of a plan that computes and runs no Python of the user's.

    A generator or a Python function must not be called before its element is asked for.
    """
    computes = any(isinstance(node, Map | Filter) or _decodes(node) for node in plan.walk())
    made_ahead = isinstance(plan, Prefetch | PrefetchToDevice)
    if made_ahead or not computes:
        return plan
    return plan if any(_runs_python(node) for node in plan.walk()) else Prefetch((plan,), None)


def _decodes(node: Node) -> bool:
    return isinstance(node, Files) and isinstance(node.form, TableFormat)


def _runs_python(node: Node) -> bool:
    function = getattr(node, "function", None)
    return isinstance(node, Generator) or getattr(function, "is_python", False)
