"""Operations whose elements depend on a seed, and what they are with another one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from drumline.data.elements.seeds import DrawnSeed
from drumline.data.operations.cache import Cache
from drumline.data.plan.node import Node


def seed_of(node: Node) -> int | None:
    """Return the given or drawn seed of an operation; ``None`` if it has none."""
    seed: int | None = getattr(node, "seed", None)
    return seed


def with_seed(node: Node, seed: int) -> Node:
    """Return the same operation with another seed."""
    changed: Any = node
    if hasattr(changed, "with_seed"):
        replaced: Node = changed.with_seed(seed)
        return replaced
    made: Node = dataclasses.replace(changed, seed=seed)
    return made


def seeds_of(plan: Node) -> list[int]:
    """Return the given and drawn seeds of a plan's operations, inputs first."""
    found = (seed_of(node) for node in plan.walk())
    return [seed for seed in found if seed is not None]


def drawn_seeds(plan: Node) -> list[int]:
    """Return the drawn ones of these seeds."""
    return [int(seed) for seed in seeds_of(plan) if isinstance(seed, DrawnSeed)]


def with_drawn_seeds(plan: Node, seeds: Sequence[int]) -> Node:
    """Return the plan as if these seeds had been drawn for it, as many as it has drawn ones."""
    given = iter(seeds)
    return with_seeds(
        plan, [next(given) if isinstance(seed, DrawnSeed) else seed for seed in seeds_of(plan)]
    )


def with_seeds(plan: Node, seeds: Sequence[int]) -> Node:
    """Return the plan with these seeds in the place of ``seeds_of(plan)``."""
    return _changed(plan, iter(seeds))


def _changed(node: Node, seeds: Iterator[int]) -> Node:
    inputs = tuple(_changed(part, seeds) for part in node.inputs)
    made = node.with_inputs(*inputs)
    if isinstance(made, Cache):  # it may hold the other order
        made = dataclasses.replace(made, store=made.store.anew(*inputs))
    seed = seed_of(node)
    # What the user did not give stays known as such.
    return made if seed is None else with_seed(made, type(seed)(next(seeds)))
