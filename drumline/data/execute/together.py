"""Short datasets whose elements are computed together.

A compiled function runs on blocks of one length, and to call it costs as much for three elements as
for a thousand. So datasets that a user's function makes of neighbouring outer elements have theirs
computed by one call, where they were found to be of the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from drumline.data.execute.block import Block
from drumline.data.execute.filter_stage import Predicate
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.stage import Stage
from drumline.data.execute.walk_stage import WalkStage
from drumline.data.functions.lifted import called_together
from drumline.data.operations.map import Mapped

SHORT = 512
"""Elements up to which a dataset is short."""


def short_length(stage: Stage) -> int | None:
    """How many elements a stage reads that can be computed together with others'.

    ``None`` if it does not read few that are at hand.
    """
    walk, _ = _parts(stage)
    return None if walk is None or walk.indexed.length > SHORT else walk.indexed.length


def computes(stage: Stage) -> bool:
    """Whether a function is called for the elements that a stage reads."""
    walk, predicate = _parts(stage)
    return predicate is not None or (walk is not None and _maps(walk))


def prepare(stages: Sequence[Stage]) -> None:
    """Computes elements of fresh stages together, where neighbours run the same functions."""
    parts = [_parts(stage) for stage in stages]
    found = [(walk, predicate) for walk, predicate in parts if walk is not None]
    if len(found) < 2 or len(found) < len(parts):
        return
    walks = [walk for walk, _ in found]
    predicates = [predicate for _, predicate in found if predicate is not None]
    if not (_maps(walks[0]) or predicates):
        return
    rows = _elements(walks)
    if rows is None:
        return
    for walk, block in zip(walks, rows, strict=True):
        walk.prepared = block
    if len(predicates) == len(walks):
        verdicts = called_together([predicate.function for predicate in predicates], rows)
        for predicate, verdict in zip(predicates, verdicts or (), strict=False):
            predicate.prepared = verdict


def _parts(stage: Stage) -> tuple[WalkStage | None, Predicate | None]:
    """The walk over the elements that a stage reads, and the predicate they are given to."""
    predicate: Predicate | None = None
    while not isinstance(stage, WalkStage):
        inputs = stage.inputs()
        if len(inputs) != 1:
            return None, None
        predicate = stage if isinstance(stage, Predicate) else None
        (stage,) = inputs
    return stage, predicate


def _maps(walk: WalkStage) -> bool:
    return bool(walk.functions) or isinstance(walk.indexed, Mapped)


def _elements(walks: Sequence[WalkStage]) -> list[Block] | None:
    """All elements of each walk by position, if none of them is an error."""
    rows = _rows([walk.indexed for walk in walks])
    if len({len(walk.functions) for walk in walks}) > 1:
        return None
    for functions in zip(*(walk.functions for walk in walks), strict=True):
        rows = rows and called_together(functions, rows)
    return rows


def _rows(parts: Sequence[Indexed]) -> list[Block] | None:
    mapped = [part for part in parts if type(part) is Mapped]
    if len(mapped) == len(parts):
        inner = _rows([part.inner for part in mapped])
        return inner and called_together([part.function for part in mapped], inner)
    blocks = [part.rows(range(part.length)) for part in parts]
    whole = all(block.n == part.length for block, part in zip(blocks, parts, strict=True))
    return blocks if whole and not any(block.error for block in blocks) else None
