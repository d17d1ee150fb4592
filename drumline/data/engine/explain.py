"""Plans and stages as text."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from drumline.data.plan.node import Node
from drumline.data.runtime.stage import Described, Stage


class Explanation(str):
    """Text that consoles and notebooks show as it is, line by line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"


def explain(plan: Node, optimized: Node, stage: Stage, decisions: Sequence[str]) -> Explanation:
    """Return the plan, the optimized plan, and the stages, as text."""
    parts = [f"plan\n{plan.describe(1, titles=True)}"]
    if optimized is not plan:
        parts.append(f"optimized\n{optimized.describe(1, titles=True)}")
    parts.append("stages\n" + "\n".join(_lines(stage, 1)))
    parts.append(f"memory\n  {_memory(stage)}")
    if decisions:
        parts.append("autotune\n" + "\n".join(f"  {line}" for line in decisions))
    return Explanation("\n".join(parts))


def _memory(stage: Stage) -> str:
    """Return how many bytes the stages hold at most, besides blocks in flight."""
    known: list[tuple[str, int]] = []
    unknown: list[str] = []
    for item in _stages(stage):
        nbytes = item.most_nbytes()
        if nbytes is None:
            unknown.append(item.describe())
        elif nbytes:
            known.append((item.describe(), nbytes))
    total = sum(nbytes for _, nbytes in known)
    each = [f"{nbytes / 1e6:.1f} MB: {what}" for what, nbytes in known]
    rest = [f"as elements are: {what}" for what in unknown]
    return "\n    ".join([f"at most {total / 1e6:.1f} MB{' and' * bool(rest)}", *each, *rest])


def _stages(item: Described) -> Iterator[Stage]:
    if isinstance(item, Stage):
        yield item
    for part in item.parts():
        yield from _stages(part)


def _lines(item: Described, depth: int) -> list[str]:
    lines = ["  " * depth + item.describe()]
    for part in item.parts():
        lines += _lines(part, depth + 1)
    return lines
