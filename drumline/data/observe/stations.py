"""Which stages share a thread: what of a running dataset can be busy at the same time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from drumline.data.execute.stage import Stage


@dataclasses.dataclass(frozen=True)
class Placed:
    """A measured stage and where it stands.

    Attributes:
        stage: the stage.
        depth: how many measured stages are above it.
        section: which thread pulls it: 0 for the consumer's, another for each prefetch.
    """

    stage: Stage
    depth: int
    section: int


def placed(root: Stage) -> list[Placed]:
    """The measured stages below ``root``, consumers before producers."""
    return list(_below(root, 0, 0, iter(range(1, 10_000))))


def _below(stage: Stage, depth: int, section: int, sections: Iterator[int]) -> Iterator[Placed]:
    if stage.meter is not None:
        yield Placed(stage, depth, section)
        depth += 1
    inner = next(sections) if stage.threaded else section
    for source in stage.inputs():
        yield from _below(source, depth, inner, sections)
