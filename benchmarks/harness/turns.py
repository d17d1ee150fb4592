"""Contenders that take turns in one process, so that what distinguishes processes is left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchmarks.harness.measurement import Measurement
from benchmarks.harness.workload import Contender, Scale


def by_turns(contenders: Sequence[Contender], scale: Scale, turns: int) -> list[Measurement]:
    """Run contenders one after the other, as often as there are turns, each turn in reverse order.

    Returns:
        A measurement for each: that of its first turn, with the later epochs of all turns. What the
        check looks at is that of the last turn.

    Raises:
        ValueError: ``turns`` is not positive.
    """
    if turns < 1:
        raise ValueError(f"contenders must have at least one turn, not {turns}")
    found: dict[str, list[Measurement]] = {contender.name: [] for contender in contenders}
    for turn in range(turns):
        for contender in contenders if turn % 2 == 0 else reversed(contenders):
            found[contender.name].append(contender.run(scale))
    return [
        dataclasses.replace(
            taken[0],
            later_epochs_s=tuple(seconds for each in taken for seconds in each.later_epochs_s),
            evidence=taken[-1].evidence,
        )
        for taken in found.values()
    ]
