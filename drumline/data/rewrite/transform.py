"""Walking a plan to change it."""

from __future__ import annotations

from collections.abc import Callable

from drumline.data.plan.node import Node


def bottom_up(plan: Node, change: Callable[[Node], Node]) -> Node:
    """Applies ``change`` to every node, inputs first; nodes that stay the same stay identical."""
    inputs = tuple(bottom_up(node, change) for node in plan.inputs)
    same = all(new is old for new, old in zip(inputs, plan.inputs, strict=True))
    return change(plan if same else plan.with_inputs(*inputs))
