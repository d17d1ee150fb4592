"""The rows of a table that one step takes, and the gradients that it has for them.

What goes to one server and back in one message: pushes, rows and values.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from drumline._core import spread_rows, sum_rows, unique_ids
from drumline._memory import BufferPool
from drumline.distribute.parameter_server.servers import VariableLayout
from drumline.distribute.parameter_server.wire import ArrayForm, Message

_IDS = np.dtype(np.int32)  # as steps compute them


class PushPullRequest:
    """One message to one server, being put together.

    Args:
        empties: makes arrays of shapes and dtypes that one message to that server can carry without
            a copy.

    Attributes:
        empties: as given.
    """

    def __init__(self, empties: Callable[[Sequence[ArrayForm]], list[np.ndarray]]) -> None:
        self.empties = empties
        self._push: list[dict[str, Any]] = []
        self._pushed: list[np.ndarray] = []
        self._pushed_ids: list[np.ndarray] = []
        self._gather: list[dict[str, Any]] = []
        self._gathered_ids: list[np.ndarray] = []
        self._pull: list[dict[str, Any]] = []
        self._on_rows: list[Callable[[np.ndarray], None]] = []
        self._on_value: list[Callable[[int, np.ndarray], None]] = []

    def __bool__(self) -> bool:
        return bool(self._push or self._gather or self._pull)

    def push(self, part: str, kind: str, rule: Any, value: np.ndarray) -> None:
        """Have a part updated."""
        self._push.append({"name": part, "kind": kind, "rule": rule})
        self._pushed.append(value)

    def push_rows(self, part: str, rule: Any, ids: np.ndarray, gradient: np.ndarray) -> None:
        """Have rows of a table updated."""
        self._push.append({"name": part, "kind": "rows", "rule": rule, "ids": len(ids)})
        self._pushed.append(gradient)
        self._pushed_ids.append(ids)

    def gather(self, part: str, ids: np.ndarray, take: Callable[[np.ndarray], None]) -> None:
        """Ask for rows of a table; `take` gets them."""
        self._gather.append({"name": part, "ids": len(ids)})
        self._gathered_ids.append(ids)
        self._on_rows.append(take)

    def pull(self, part: str, version: int, take: Callable[[int, np.ndarray], None]) -> None:
        """Ask for a value if it is newer than `version`; `take` gets its version and it."""
        self._pull.append({"name": part, "version": version})
        self._on_value.append(take)

    def header(self, closure: str | None) -> dict[str, Any]:
        """The message's header; `closure` is the run whose pushes it carries."""
        return {
            "closure": closure,
            "push": self._push,
            "gather": self._gather,
            "pull": self._pull,
        }

    def arrays(self) -> list[np.ndarray]:
        """The message's arrays: all ids are one, the last."""
        ids = [*self._pushed_ids, *self._gathered_ids]
        if not ids:
            return self._pushed
        (together,) = self.empties([((sum(map(len, ids)),), _IDS)])
        np.concatenate(ids, out=together, casting="same_kind")
        return [*self._pushed, together]

    def take(self, reply: Message) -> None:
        """Hand out what the server sent back."""
        arrays = iter(reply.arrays)
        for on_rows in self._on_rows:
            on_rows(next(arrays))
        answers = zip(
            self._on_value, reply.header["changed"], reply.header["versions"], strict=True
        )
        for on_value, changed, version in answers:
            if changed:
                on_value(version, next(arrays))


_FEW = 8
"""If one row in so many at most is used twice, rows are asked for as often as they are used."""


class EmbeddingLookup:
    """What a step looks up in a table.

    Args:
        layout: where the table lies.
        ids: of the rows, in the order of the program.
        by_id: whether the program takes a row for each id; otherwise it takes each row once, and
            whatever is behind them.

    Attributes:
        inverse: for each id where its row is among the different ones.
    """

    def __init__(self, layout: VariableLayout, ids: np.ndarray, by_id: bool) -> None:
        self._layout = layout
        self._ids = np.ascontiguousarray(ids)
        bounds = [part.start for part in layout.parts] + [layout.parts[-1].stop]
        self._unique, self.inverse, counts = unique_ids(self._ids, bounds)
        stops = list(itertools.accumulate(counts, initial=0))
        self._spans = [slice(*each) for each in itertools.pairwise(stops)]
        repeated = len(self._ids) - len(self._unique)
        self._by_id = by_id
        self._as_used = by_id and len(layout.parts) == 1 and repeated * _FEW <= len(self._ids)
        self._blocks: dict[int, np.ndarray] = {}

    def ask(self, exchanges: Mapping[int, PushPullRequest]) -> None:
        """Add the rows to the messages, by server."""
        for part, span in zip(self._layout.parts, self._spans, strict=True):
            if span.start < span.stop:
                ids = self._ids if self._as_used else self._unique[span]
                take = functools.partial(self._blocks.__setitem__, part.index)
                exchanges[part.server].gather(self._layout.part_name(part), ids, take)

    def rows(self, pool: BufferPool) -> np.ndarray:
        """The rows that have come, as the program takes them, in memory of `pool` if need be."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        if self._as_used and blocks:
            return blocks[0]
        shape = (len(self._ids), *self._layout.shape[1:])
        out = pool.empty(shape, np.dtype(self._layout.dtype))
        if self._by_id:
            spread_rows([_bytes(block) for block in blocks], self.inverse, _bytes(out))
        elif blocks:
            np.concatenate(blocks, out=out[: len(self._unique)])
        return out

    def push(
        self,
        gradient: np.ndarray,
        exchanges: Mapping[int, PushPullRequest],
        rule: Callable[[str], Any],
    ) -> None:
        """Add the gradients of the different rows to the messages.

        Args:
            gradient: at least as many.
            exchanges: the messages, by server.
            rule: by which a part is updated.
        """
        self._push([gradient[span] for span in self._spans], exchanges, rule)

    def sums_of(self, gradient: np.ndarray) -> list[tuple[int, ArrayForm]]:
        """For each part its server, and the form that the sums of its rows' gradients have.

        Args:
            gradient: with a row for each id.
        """
        return [
            (part.server, ((span.stop - span.start, *gradient.shape[1:]), gradient.dtype))
            for part, span in zip(self._layout.parts, self._spans, strict=True)
        ]

    def push_by_id(
        self,
        gradient: np.ndarray,
        sums: Sequence[np.ndarray],
        exchanges: Mapping[int, PushPullRequest],
        rule: Callable[[str], Any],
    ) -> None:
        """The same with a gradient for each id; those of one row are summed in their order.

        Args:
            sums: where to, of the forms that `sums_of` tells.
        """
        sum_rows(_rows(gradient), self.inverse, [_rows(each) for each in sums])
        self._push(sums, exchanges, rule)

    def _push(
        self,
        gradients: Sequence[np.ndarray],
        exchanges: Mapping[int, PushPullRequest],
        rule: Callable[[str], Any],
    ) -> None:
        # Also to parts without a row: they count the step, and take nothing of it again.
        for part, span, gradient in zip(self._layout.parts, self._spans, gradients, strict=True):
            name = self._layout.part_name(part)
            exchanges[part.server].push_rows(name, rule(name), self._unique[span], gradient)


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _bytes(rows: np.ndarray) -> np.ndarray:
    """Rows as bytes, of whatever type they are."""
    flat = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
    return flat.reshape(len(rows), math.prod(rows.shape[1:]) * rows.dtype.itemsize)
