"""Plans and stages as text."""

from __future__ import annotations

from collections.abc import Sequence

from drumline.data.execute.stage import Described, Stage
from drumline.data.plan.node import Node


def explain(plan: Node, optimized: Node, stage: Stage, decisions: Sequence[str]) -> str:
    """What was asked for, what the optimizer made of it, and how it runs."""
    parts = [f"plan\n{plan.describe(1, titles=True)}"]
    if optimized is not plan:
        parts.append(f"optimized\n{optimized.describe(1, titles=True)}")
    parts.append("stages\n" + "\n".join(_lines(stage, 1)))
    if decisions:
        parts.append("autotune\n" + "\n".join(f"  {line}" for line in decisions))
    return "\n".join(parts)


def _lines(item: Described, depth: int) -> list[str]:
    lines = ["  " * depth + item.describe()]
    for part in item.parts():
        lines += _lines(part, depth + 1)
    return lines
