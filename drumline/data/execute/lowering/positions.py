"""Elements by position where operations run as streams: for ``index`` and global shuffles.

``prefetch`` has its thread, ``batch`` and ``repeat`` their stages as long as elements come in
order; these rules say where in the input an element is that is asked for by its position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline.data.cardinality import INFINITE
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.lowering.ordering import buffered, shuffle_key
from drumline.data.execute.positions import Batches, Passes, Reordered
from drumline.data.execute.sources import Columns
from drumline.data.execute.transforms import Concatenated
from drumline.data.plan.batching import Batch
from drumline.data.plan.buffering import Cache, Prefetch
from drumline.data.plan.checking import AssertCardinality
from drumline.data.plan.node import Pass, Trail
from drumline.data.plan.ordering import Repeat, Shuffle

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


def locate_prefetch(lowering: Lowering, node: Prefetch, trail: Trail, run: Pass) -> Indexed | None:
    return lowering.indexed_input(node, trail, run)


def locate_assert_cardinality(
    lowering: Lowering, node: AssertCardinality, trail: Trail, run: Pass
) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is not None and inner.length != node.expected:
        number = "infinitely many" if node.expected == INFINITE else node.expected
        raise ValueError(
            f"assert_cardinality: {number} elements were expected, there are {inner.length}"
        )
    return inner


def locate_batch(lowering: Lowering, node: Batch, trail: Trail, run: Pass) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    return None if inner is None else Batches(inner, node.size, node.drop_remainder, node.spec)


def locate_cache(lowering: Lowering, node: Cache, trail: Trail, run: Pass) -> Indexed | None:
    """What the cache holds, or else what it will be filled with."""
    blocks = node.store.blocks if node.store in lowering.filled else None
    if not blocks:
        return lowering.indexed_input(node, trail, (0,))
    parts: list[Indexed] = [Columns(block.columns, block.n, lowering.pool) for block in blocks]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        rest = parts[-1:] if len(parts) % 2 else []
        parts = [*(Concatenated(a, b) for a, b in pairs), *rest]
    return parts[0]


def locate_shuffle(lowering: Lowering, node: Shuffle, trail: Trail, run: Pass) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None:
        return None
    return Reordered(inner, buffered(node), shuffle_key(lowering, node, trail, run))


def locate_repeat(lowering: Lowering, node: Repeat, trail: Trail, run: Pass) -> Indexed | None:
    if lowering.indexed_input(node, trail, (*run, 0)) is None:
        return None

    def make(number: int) -> Indexed:
        found = lowering.indexed_input(node, trail, (*run, number))
        assert found is not None
        return found

    return Passes(make, node.count)
