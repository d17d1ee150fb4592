"""A scheduled function's one run, as the chief has it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from drumline.distribute.parameter_server.coordinator.remote_value import RemoteValue

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.coordinator.function import ScheduledFunction

_numbers = itertools.count()


@dataclass(eq=False)
class Closure:
    """One run.

    Attributes:
        name: unique in the cluster; it stays when another worker has to run it again, so that the
            servers take each of its pushes once.
        function: what is run.
        arrays: the arrays among its arguments.
        iterators: the numbers of the per-worker iterators among them.
        round: in synchronous training, the number and the size of the round it belongs to.
        result: where the result goes.
        needs: what has to live until it has run.
    """

    name: str
    function: ScheduledFunction
    arrays: Sequence[np.ndarray]
    iterators: Sequence[int] = ()
    round: tuple[int, int] | None = None
    result: RemoteValue = field(default_factory=RemoteValue)
    needs: Any = None

    def header(self) -> dict[str, Any]:
        """What the worker is told."""
        return {
            "name": self.name,
            "function": self.function.number,
            "iterators": self.draws(),
            "arrays": len(self.arrays),
            "round": self.round,
        }

    def draws(self) -> list[tuple[int, int]]:
        """For each iterator, its number and how many elements the function draws."""
        return list(zip(self.iterators, self.function.draws, strict=True))


def next_number() -> int:
    """A number that no closure and no function of this process has yet."""
    return next(_numbers)


def next_name(session: str) -> str:
    """A name for a new closure."""
    return f"{session}:{next_number()}"
