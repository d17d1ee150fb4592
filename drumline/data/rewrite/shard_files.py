"""Each process reads its own files: a ``shard`` before what reads them."""

from __future__ import annotations

import dataclasses

from drumline.data.operations.batch import Batch, Unbatch
from drumline.data.operations.cache import Cache
from drumline.data.operations.combine import Concatenate
from drumline.data.operations.filter import Filter
from drumline.data.operations.map import Map
from drumline.data.operations.nested.nesting import FlatMap, Interleave
from drumline.data.operations.ordering.order import Repeat, Shard, Shuffle
from drumline.data.operations.prefetch import Prefetch
from drumline.data.operations.reading.files import Files
from drumline.data.plan.node import Node

_WHOLE = (
    Map,
    Filter,
    Batch,
    Unbatch,
    Shuffle,
    Repeat,
    Cache,
    Prefetch,
    Concatenate,
    FlatMap,
    Interleave,
)


def filenames(plan: Node) -> list[Node] | None:
    """What names the files that the plan reads, a dataset for each place where it reads some.

    These are inputs of ``Files``, and of operations whose function reads files for each element.
    ``None`` if there is another source.
    """
    if _reads(plan):
        return [plan.input]
    found: list[Node] = []
    for node in plan.inputs:
        part = filenames(node)
        if part is None:
            return None
        found += part
    return found or None


def keeps_elements(plan: Node) -> bool:
    """Whether all processes together have the plan's elements if each reads some of its files.

    Not so where an operation counts elements (``take``) or pairs them (``zip``).
    """
    if _reads(plan):
        return True
    return isinstance(plan, _WHOLE) and all(keeps_elements(node) for node in plan.inputs)


def shard_files(plan: Node, num_shards: int, index: int) -> Node:
    """The plan of one of ``num_shards`` processes, whose files are every ``num_shards``-th."""

    def shared(node: Node) -> Node:
        if _reads(node):
            return node.with_inputs(Shard((node.input,), num_shards, index))
        changed = node.with_inputs(*map(shared, node.inputs))
        # What the whole dataset's cache holds is not this process's share.
        return (
            dataclasses.replace(changed, store=changed.store.anew(changed.input))
            if isinstance(changed, Cache)
            else changed
        )

    return shared(plan)


def _reads(node: Node) -> bool:
    return isinstance(node, Files) or (
        isinstance(node, FlatMap | Interleave) and node.function.reads_files
    )
