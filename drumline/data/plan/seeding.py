"""Operations whose elements depend on a seed, and what they are with another one."""

from __future__ import annotations

import dataclasses
from typing import Any

from drumline.data.plan.node import Node


def seed_of(node: Node) -> int | None:
    """The seed that the operation was given or that was drawn for it; ``None`` if it has none."""
    seed: int | None = getattr(node, "seed", None)
    return seed


def with_seed(node: Node, seed: int) -> Node:
    """The same operation with another seed."""
    changed: Any = node
    if hasattr(changed, "with_seed"):
        replaced: Node = changed.with_seed(seed)
        return replaced
    made: Node = dataclasses.replace(changed, seed=seed)
    return made
