"""Which parts of a plan run on workers."""

from __future__ import annotations

import dataclasses

from drumline.data.elements.spec import has_datasets
from drumline.data.engine.lowering import Lowering
from drumline.data.operations.batch import Unbatch
from drumline.data.operations.cache import Cache
from drumline.data.operations.filter import Filter
from drumline.data.operations.map import Map
from drumline.data.operations.nested.nesting import FlatMap, Interleave
from drumline.data.operations.prefetch import Prefetch
from drumline.data.operations.reading.files import Files
from drumline.data.plan.node import Node, bottom_up
from drumline.data.workers.remote.cluster import Service
from drumline.data.workers.remote.nodes import Distribute, Piece, Remote, Shards


def place(plan: Node) -> Node:
    """The plan with every ``distribute`` replaced by what it stands for.

    Where elements are handed out on demand, the operations that work element by element go to the
    workers: functions, and what reads files. All others stay, so that what comes is what came
    without ``distribute``.
    """
    return bottom_up(plan, _placed)


def _placed(node: Node) -> Node:
    if not isinstance(node, Distribute):
        return node
    if node.shards:
        _check_shards(node)
        return Shards((), node.service, node.policy, node.shards, node.input)
    return _Placement(node.service).placed(node.input)


def _check_shards(node: Distribute) -> None:
    for below in node.walk():
        if isinstance(below, Cache):
            raise ValueError(
                f"distribute({node.policy.name}): cache() before it would be filled by each worker "
                "anew in every epoch; put it after distribute"
            )


@dataclasses.dataclass(frozen=True)
class _Placement:
    service: Service

    def placed(self, node: Node) -> Node:
        """The operations that workers can do, done by workers."""
        if isinstance(node, Interleave) and _reads_files(node):
            each = FlatMap((self._names(node),), node.function)
            return Remote((each,), self.service, node.cycle_length, node.block_length)
        if _by_position(node) and _computes(node):
            return Remote((Piece((node,), by_position=True),), self.service)
        if _by_element(node) or (isinstance(node, FlatMap) and _reads_files(node)):
            return Remote((self._part(node),), self.service)
        return node.with_inputs(*map(self.placed, node.inputs))

    def _part(self, node: Node) -> Node:
        if _by_position(node):
            return Piece((node,), by_position=True)
        if isinstance(node, Prefetch):
            return self._part(node.input)
        if _by_element(node):
            return node.with_inputs(self._part(node.input))
        if _one_after_the_other(node):
            return node.with_inputs(self._names(node))
        return Piece((self.placed(node),), by_position=False)

    def _names(self, node: Node) -> Piece:
        return Piece((self.placed(node.input),), by_position=False, one=True)


def _by_position(node: Node) -> bool:
    return Lowering(node, set()).indexed(node, (), (0,)) is not None


def _computes(node: Node) -> bool:
    return any(isinstance(below, Map) for below in node.walk())


def _by_element(node: Node) -> bool:
    """Whether each element of the result depends on one of the input's alone."""
    return isinstance(node, Map | Filter | Unbatch) and not has_datasets(node.input.spec)


def _reads_files(node: FlatMap | Interleave) -> bool:
    # What draws seeds draws them by the element's position in the whole.
    return node.function.reads_files and node.function.seed is None


def _one_after_the_other(node: Node) -> bool:
    if isinstance(node, Files):
        return node.at_once in (None, 1)
    return isinstance(node, FlatMap) and _reads_files(node)
