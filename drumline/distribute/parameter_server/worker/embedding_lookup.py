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
from drumline.distribute.parameter_server.wire import ArrayForm
from drumline.distribute.parameter_server.wire.messages import (
    GatherRows,
    Pull,
    Push,
    PushPull,
    PushPullReply,
    SyncRound,
    VariableLayout,
)

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
        self._push: list[Push] = []
        self._pushed: list[np.ndarray] = []
        self._pushed_ids: list[np.ndarray] = []
        self._gather: list[GatherRows] = []
        self._gathered_ids: list[np.ndarray] = []
        self._pull: list[Pull] = []
        self._on_rows: list[Callable[[np.ndarray], None]] = []
        self._on_value: list[Callable[[int, np.ndarray], None]] = []

    def __bool__(self) -> bool:
        return bool(self._push or self._gather or self._pull)

    def push(self, shard: str, kind: str, rule: Any, value: np.ndarray) -> None:
        """Have a shard updated."""
        self._push.append(Push(name=shard, kind=kind, update=rule))
        self._pushed.append(value)

    def push_rows(self, shard: str, rule: Any, ids: np.ndarray, gradient: np.ndarray) -> None:
        """Have rows of a table updated."""
        self._push.append(Push(name=shard, kind="rows", update=rule, ids=len(ids)))
        self._pushed.append(gradient)
        self._pushed_ids.append(ids)

    def gather(self, shard: str, ids: np.ndarray, take: Callable[[np.ndarray], None]) -> None:
        """Ask for rows of a table; `take` gets them."""
        self._gather.append(GatherRows(name=shard, ids=len(ids)))
        self._gathered_ids.append(ids)
        self._on_rows.append(take)

    def pull(self, shard: str, version: int, take: Callable[[int, np.ndarray], None]) -> None:
        """Ask for a value if it is newer than `version`; `take` gets its version and it."""
        self._pull.append(Pull(name=shard, version=version))
        self._on_value.append(take)

    def message(self, closure: str | None, sync: SyncRound | None = None) -> PushPull:
        """The request.

        Args:
            closure: whose pushes it carries.
            sync: the synchronous round of the pushes.
        """
        return PushPull(
            closure=closure,
            push=tuple(self._push),
            gather=tuple(self._gather),
            pull=tuple(self._pull),
            sync=sync,
            arrays=self._arrays(),
        )

    def _arrays(self) -> tuple[np.ndarray, ...]:
        """The request's arrays: all ids are one, the last."""
        ids = [*self._pushed_ids, *self._gathered_ids]
        if not ids:
            return tuple(self._pushed)
        (together,) = self.empties([((sum(map(len, ids)),), _IDS)])
        np.concatenate(ids, out=together, casting="same_kind")
        return (*self._pushed, together)

    def take(self, reply: PushPullReply) -> None:
        """Hand out what the server sent back."""
        arrays = iter(reply.values)
        for on_rows in self._on_rows:
            on_rows(next(arrays))
        answers = zip(self._on_value, reply.changed, reply.versions, strict=True)
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
        bounds = [shard.start for shard in layout.shards] + [layout.shards[-1].stop]
        self._unique, self.inverse, counts = unique_ids(self._ids, bounds)
        stops = list(itertools.accumulate(counts, initial=0))
        self._spans = [slice(*each) for each in itertools.pairwise(stops)]
        repeated = len(self._ids) - len(self._unique)
        self._by_id = by_id
        self._as_used = by_id and len(layout.shards) == 1 and repeated * _FEW <= len(self._ids)
        self._blocks: dict[int, np.ndarray] = {}

    def ask(self, exchanges: Mapping[int, PushPullRequest]) -> None:
        """Add the rows to the messages, by server."""
        for shard, span in zip(self._layout.shards, self._spans, strict=True):
            if span.start < span.stop:
                ids = self._ids if self._as_used else self._unique[span]
                take = functools.partial(self._blocks.__setitem__, shard.index)
                exchanges[shard.server].gather(self._layout.shard_name(shard), ids, take)

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
            rule: by which a shard is updated.
        """
        self._push([gradient[span] for span in self._spans], exchanges, rule)

    def sums_of(self, gradient: np.ndarray) -> list[tuple[int, ArrayForm]]:
        """For each shard its server, and the form that the sums of its rows' gradients have.

        Args:
            gradient: with a row for each id.
        """
        return [
            (shard.server, ((span.stop - span.start, *gradient.shape[1:]), gradient.dtype))
            for shard, span in zip(self._layout.shards, self._spans, strict=True)
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
        # Also to shards without a row: they count the step, and take nothing of it again.
        for shard, span, gradient in zip(self._layout.shards, self._spans, gradients, strict=True):
            name = self._layout.shard_name(shard)
            exchanges[shard.server].push_rows(name, rule(name), self._unique[span], gradient)


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _bytes(rows: np.ndarray) -> np.ndarray:
    """Rows as bytes, of whatever type they are."""
    flat = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
    return flat.reshape(len(rows), math.prod(rows.shape[1:]) * rows.dtype.itemsize)
