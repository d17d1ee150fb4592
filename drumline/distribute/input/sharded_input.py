"""Going through different datasets in several processes, in step."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from drumline._resumable import as_resumable, close_iterator, position_of, recorded_state
from drumline.distribute.process_group.host_collectives import all_gather_host

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

MOST_BYTES_OF_A_FORM = 16_384

WINDOW = 16
"""How many steps the processes tell one another of at once, from the first few steps on."""


@dataclass(frozen=True)
class Step:
    """What the replicas use in one step.

    Attributes:
        batches: the batches of this process's replicas; of all replicas if `of_all`.
        of_all: whether the replicas' batches differ in size: every process then has all of them.
    """

    batches: list[Any]
    of_all: bool


class LockstepInputIterator:
    """The steps of a process that reads a dataset of its own, until all processes have ended.

    Processes read ahead and tell one another how many rows their replicas have in the next few
    steps. Where these are the same for all replicas each process keeps its batches to itself.
    Otherwise, as at the end, the batches go to every process, which computes the step on all of
    them. A process whose dataset has ended has no rows.

    Args:
        source: the dataset's own iterator.
        steps: what of it each step uses: a batch for each replica of this process.
        strategy: whose replicas they are.
        rowless: gives a batch without rows, for a process that has none at all.
    """

    def __init__(
        self,
        source: Iterator[Any],
        steps: Iterator[list[Any]],
        strategy: Strategy,
        rowless: Callable[[], Any],
    ) -> None:
        self._source = as_resumable(source)
        self._steps = steps
        self._strategy = strategy
        self._rowless = rowless
        self._like: Any = None
        self._ahead: deque[tuple[Any, list[Any], np.ndarray, bool]] = deque()
        self._next_window = 1
        self._ended = False

    def __iter__(self) -> LockstepInputIterator:
        return self

    def __next__(self) -> Step:
        if not self._ahead and not self._ended:
            self._look_ahead()
        if not self._ahead:
            raise StopIteration
        _, batches, rows, alike = self._ahead.popleft()
        if not alike:
            raise ValueError(
                "In a step the processes have batches that differ in more than their rows; this "
                f"process's have {_form(batches[0])}. Pad every batch to the same dimensions, or "
                "let all processes read the same dataset (AutoShardPolicy.DATA)."
            )
        if (rows == rows.flat[0]).all():
            return Step(batches, of_all=False)
        return Step(self._exchanged(batches, rows), of_all=True)

    def state(self) -> Any:
        """The position in the dataset of the next step."""
        if not self._ahead:
            return self._source.state()
        return recorded_state(self._source, self._ahead[0][0])

    def restore(self, state: Any) -> None:
        """Continue where `state` was taken."""
        self._ahead.clear()
        self._next_window, self._ended = 1, False
        self._source.restore(state)

    def close(self) -> None:
        """End the threads behind the source."""
        close_iterator(self._source)

    def _look_ahead(self) -> None:
        window, self._next_window = self._next_window, min(2 * self._next_window, WINDOW)
        local = len(self._strategy.local_replica_devices)
        own = np.zeros((WINDOW, local + 1), np.int64)
        read: list[tuple[Any, list[Any]]] = []
        for number in range(window):
            position = position_of(self._source)
            batches = next(self._steps, None)
            if batches is not None:
                self._like = batches[0]
                own[number] = [*map(_rows, batches), _digest(batches[0])]
            read.append((position, batches or [self._empty()] * local))
        told = all_gather_host(self._strategy, own)
        rows, digests = told[..., :-1], told[..., -1]
        for number, (position, batches) in enumerate(read):
            if not rows[:, number].any():
                self._ended = True
                return
            present = rows[:, number].any(axis=1)
            alike = len(set(digests[present, number])) == 1
            self._ahead.append((position, batches, rows[:, number], alike))

    def _empty(self) -> Any:
        if self._like is None:
            return self._rowless()
        return jax.tree.map(lambda leaf: leaf[:0], self._like)

    def _exchanged(self, batches: Sequence[Any], rows: np.ndarray) -> list[Any]:
        """The batches of all replicas, from those of this process's."""
        most = int(rows.max())
        columns, treedef = zip(*(jax.tree.flatten(batch) for batch in batches), strict=True)
        forms = self._forms(batches[0], rows)
        together = [
            all_gather_host(
                self._strategy, np.stack([_padded(leaf, most, *form) for leaf in leaves])
            )
            for leaves, form in zip(zip(*columns, strict=True), forms, strict=True)
        ]
        return [
            jax.tree.unflatten(treedef[0], [leaf[process, index, :count] for leaf in together])
            for process, counts in enumerate(rows)
            for index, count in enumerate(counts)
        ]

    def _forms(self, batch: Any, rows: np.ndarray) -> list[tuple[tuple[int, ...], str]]:
        """The other dimensions and the dtypes, from a process that has rows in this step."""
        own = json.dumps(_form(batch)).encode()
        if len(own) > MOST_BYTES_OF_A_FORM:
            raise ValueError(f"A batch of {len(_form(batch))} components has too many of them.")
        buffer = np.zeros(MOST_BYTES_OF_A_FORM, np.uint8)
        buffer[: len(own)] = np.frombuffer(own, np.uint8)
        texts = all_gather_host(self._strategy, buffer)
        text = texts[int(rows.any(axis=1).argmax())].tobytes().rstrip(b"\0")
        return [(tuple(shape), dtype) for shape, dtype in json.loads(text)]


def _form(batch: Any) -> list[tuple[list[int], str]]:
    leaves = map(np.asarray, jax.tree.leaves(batch))
    return [(list(leaf.shape[1:]), leaf.dtype.str) for leaf in leaves]


def _digest(batch: Any) -> int:
    text = f"{jax.tree.structure(batch)} {_form(batch)}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little")


def _rows(batch: Any) -> int:
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(batch)}
    if len(sizes) != 1 or sizes == {()}:
        raise ValueError(
            "A batch needs the same first dimension in all of its components, got the shapes "
            f"{[np.shape(leaf) for leaf in jax.tree.leaves(batch)]}. Call `.batch(n)` on the "
            "dataset first."
        )
    return int(sizes.pop()[0])


def _padded(leaf: Any, rows: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    array = np.asarray(leaf)
    if array.dtype.kind in "OSUT":
        raise TypeError(
            "Batches of different sizes go from process to process, and this one holds strings or "
            "objects, which cannot. Drop them from the dataset, or turn them into numbers."
        )
    padded = np.zeros((rows, *shape), dtype)
    if len(array):
        padded[: len(array)] = array
    return padded
