"""A scheduled function's one run, as the worker has it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Closure:
    """One run of a function.

    Attributes:
        name: what the whole cluster calls it, also when another worker runs it again.
        function: the number of the function.
        iterators: for each iterator it draws from, its number and how many elements.
        arguments: the arrays the chief passed.
        round: in synchronous training, the number and the size of the round it belongs to.
        answer: gets the header and the arrays of the reply.
        batch: for each iterator the elements drawn from it so far, each a list of leaves. They stay
            when the closure is run again.
        broken: how often a connection to a server broke under it.
    """

    name: str
    function: int
    iterators: list[tuple[int, int]]
    arguments: list[np.ndarray]
    round: tuple[int, int] | None = None
    answer: Future[tuple[dict[str, Any], list[np.ndarray]]] = field(default_factory=Future)
    batch: dict[int, list[list[Any]]] = field(default_factory=dict)
    broken: int = 0

    def draw(self, draw: Callable[[int], list[Any]]) -> list[Any]:
        """Draw the elements that are missing, and give the leaves of all arguments."""
        for number, times in self.iterators:
            drawn = self.batch.setdefault(number, [])
            while len(drawn) < times:
                drawn.append(draw(number))
        elements = [element for number, _ in self.iterators for element in self.batch[number]]
        return [*self.arguments, *(leaf for element in elements for leaf in element)]
