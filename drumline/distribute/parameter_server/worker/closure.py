"""A scheduled function's one run, as the worker has it."""

from __future__ import annotations

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
        answer: gets the header and the arrays of the reply.
        batch: the leaves of the drawn elements, once drawn.
    """

    name: str
    function: int
    iterators: list[tuple[int, int]]
    arguments: list[np.ndarray]
    answer: Future[tuple[dict[str, Any], list[np.ndarray]]] = field(default_factory=Future)
    batch: list[Any] | None = None
