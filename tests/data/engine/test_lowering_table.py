"""Every operation has an entry in the table that says how it runs."""

from __future__ import annotations

import pytest

import drumline.data.dataset  # noqa: F401 - defines all nodes
from drumline.data.engine.lowering import LOWERINGS
from drumline.data.plan.node import Node

_BASES = {"ByClass", "Drawn", "Nested", "Specified"}
"""What nodes share; no plan holds one of these."""


def _subclasses(node: type[Node]) -> set[type[Node]]:
    below = {n for child in node.__subclasses__() for n in (child, *_subclasses(child))}
    return {n for n in below if n.__module__.startswith("drumline.")}


NODES = sorted(
    (n for n in _subclasses(Node) if n.__name__ not in _BASES and not n.__name__.startswith("_")),
    key=lambda n: n.__name__,
)


@pytest.mark.parametrize("node", NODES, ids=lambda n: n.__name__)
def test_every_node_is_lowered(node: type[Node]) -> None:
    lowered = LOWERINGS.get(node)
    assert lowered is not None, f"{node.__name__} has no entry in engine/lowering.py's LOWERINGS"
    assert any(lowered), f"{node.__name__} has neither a stage nor random access"


def test_the_table_names_no_other_classes() -> None:
    assert set(LOWERINGS) <= set(NODES)
