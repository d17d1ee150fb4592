"""How each kind of plan node runs: registered by its class, looked up by ``Lowering``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from drumline.data.execute.indexed import Indexed
from drumline.data.execute.stage import Stage
from drumline.data.plan.node import Node

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering

Trail = tuple[int, ...]
"""Where in the tree a node stands: which input to follow at each step from the root."""

Pass = tuple[int, ...]
"""Which epoch, and inside it which repetition, a stage runs in."""

AsStage = Callable[["Lowering", Any, Trail, Pass], Stage]
AsIndexed = Callable[["Lowering", Any, Trail, Pass], Indexed | None]

stages: dict[type[Node], AsStage] = {}
"""What makes a stream of each node's elements."""

random_access: dict[type[Node], AsIndexed] = {}
"""What makes a node's elements at any position, or ``None`` where this one's inputs do not allow
it; a node of a class that is missing here has no random access."""

by_position: dict[type[Node], AsIndexed] = {}
"""The same for operations that run as streams where elements are asked for in order."""


def runs_as(node: type[Node]) -> Callable[[AsStage], AsStage]:
    """Registers the function that makes the stage of nodes of this class."""

    def register(make: AsStage) -> AsStage:
        stages[node] = make
        return make

    return register


def indexed_as(node: type[Node]) -> Callable[[AsIndexed], AsIndexed]:
    """Registers the function that gives random access to elements of nodes of this class."""

    def register(make: AsIndexed) -> AsIndexed:
        random_access[node] = make
        return make

    return register


def positioned_as(node: type[Node]) -> Callable[[AsIndexed], AsIndexed]:
    """Registers the function that finds elements of nodes of this class, which are streams."""

    def register(make: AsIndexed) -> AsIndexed:
        by_position[node] = make
        return make

    return register
