"""Which files are read without making objects of their records."""

from __future__ import annotations

from drumline.data.files.file_format import FileFormat
from drumline.data.operations.batch import Batch
from drumline.data.operations.files import Files
from drumline.data.operations.map import Map
from drumline.data.operations.order import Skip, Take
from drumline.data.operations.prefetch import Prefetch
from drumline.data.plan.node import Node, Trail

_PASSING = (Batch, Prefetch, Skip, Take)
"""What does nothing with strings but hand them on."""


def packed_reads(root: Node) -> frozenset[Trail]:
    """Where in a plan those files are read whose records go to functions that take them packed."""
    found: set[Trail] = set()

    def visit(node: Node, trail: Trail, wanted: bool) -> None:
        if wanted and _can_be_packed(node):
            found.add(trail)
        takes = isinstance(node, Map) and _takes_packed(node)
        hands_on = wanted and isinstance(node, _PASSING)
        for which, item in enumerate(node.inputs):
            visit(item, (*trail, which), takes or hands_on)

    visit(root, (), False)
    return frozenset(found)


def _takes_packed(node: Map) -> bool:
    return bool(getattr(node.function.run, "takes_packed", False))


def _can_be_packed(node: Node) -> bool:
    """Records of files that are read one after the other."""
    if not isinstance(node, Files) or not isinstance(node.form, FileFormat):
        return False
    return node.form.kind == "tfrecord" and node.at_once in (None, 1)
