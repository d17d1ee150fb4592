"""Elements are made while the consumer works."""

from __future__ import annotations

from drumline.data.files.table_format import TableFormat
from drumline.data.operations.files import Files
from drumline.data.operations.map import Filter, Map
from drumline.data.operations.prefetch import Prefetch, PrefetchToDevice
from drumline.data.operations.sources import Generator
from drumline.data.plan.node import Node


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
