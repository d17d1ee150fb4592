"""The order of an interleaving, computed for a whole block at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass
class Cycle:
    """Where the cycle over the slots stands.

    A visit to a slot takes ``length`` elements of it. One that finds the slot's dataset at its end
    closes it and goes on to the next slot; one that finds the slot empty opens a dataset and takes
    its elements.

    Attributes:
        slots: how many there are.
        length: the elements of a visit.
        slot: the one that is visited.
        used: how many elements this visit has taken.
    """

    slots: int
    length: int
    slot: int = 0
    used: int = 0

    def leave(self) -> None:
        """Goes on to the next slot."""
        self.slot = (self.slot + 1) % self.slots
        self.used = 0

    def take(self, count: int) -> None:
        """Notes that the visit took elements."""
        self.used += count
        if self.used == self.length:
            self.leave()

    def schedule(
        self, known: Sequence[int | None], limit: int, opens: bool, ordered: bool = False
    ) -> Schedule:
        """What the next visits take, as far as that is known.

        Args:
            known: how many elements of each slot are at hand; 0 for a dataset that has ended,
                ``None`` for an empty slot.
            limit: the most elements to take.
            opens: whether closed and empty slots get new datasets.
            ordered: give the order also where all slots give whole visits by turns.
        """
        counts = np.array([count or 0 for count in known], np.int64)
        empty = np.array([count is None for count in known])
        first = np.where(np.arange(self.slots) < self.slot, self.length, 0)
        first[self.slot] = self.used
        # An element's place is the number of elements of its own slot that visits could have taken
        # since the round in which the cycle stands began.
        ends = first + counts
        closing = (counts == 0) & ~empty
        stops = np.where(closing, (ends // self.length + 1) * self.length, ends)
        if not opens:
            stops[closing | empty] = np.iinfo(np.int64).max
        stop = int(self._keys(stops).min())
        taken = self._before(stop, first, counts)
        order: np.ndarray | None = None
        if ordered or taken.sum() > limit or not self._regular(taken):
            keys = self._element_keys(first, taken)
            order = np.argsort(keys, kind="stable")
            if len(keys) > limit:
                stop = int(keys[order[limit]])
                taken = self._before(stop, first, counts)
                order = np.argsort(self._element_keys(first, taken), kind="stable")
        closed = closing & (self._keys(first) < stop)
        return Schedule(taken, order, closed, stop)

    def _regular(self, taken: np.ndarray) -> bool:
        """Whether every slot gives as many whole visits as every other."""
        return self.used == 0 and bool((taken == taken[0]).all()) and taken[0] % self.length == 0

    def _keys(self, places: np.ndarray) -> np.ndarray:
        """Numbers by which places of all slots (one for each) are ordered in time."""
        rounds, within = np.divmod(places, self.length)
        rounds = np.minimum(rounds, np.iinfo(np.int64).max // (self.slots * self.length) - 1)
        return (rounds * self.slots + np.arange(self.slots)) * self.length + within

    def _element_keys(self, first: np.ndarray, taken: np.ndarray) -> np.ndarray:
        keys = []
        for slot in range(self.slots):
            places = np.arange(first[slot], first[slot] + taken[slot])
            rounds, within = np.divmod(places, self.length)
            keys.append((rounds * self.slots + slot) * self.length + within)
        return np.concatenate(keys)

    def _before(self, stop: int, first: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """How many of each slot's elements come before the place with the key ``stop``."""
        visits, within = divmod(stop, self.length)
        rounds, slot = divmod(visits, self.slots)
        slots = np.arange(self.slots)
        places = np.where(slots < slot, rounds + 1, rounds) * self.length
        places[slot] += within
        return np.clip(places - first, 0, counts)

    def move(self, stop: int) -> None:
        """Goes to the place with the key ``stop``."""
        visits, self.used = divmod(stop, self.length)
        self.slot = visits % self.slots


@dataclasses.dataclass(frozen=True)
class Schedule:
    """What a number of visits take.

    Attributes:
        taken: how many elements of each slot.
        order: the order of the elements, given slot after slot; ``None`` if all slots give whole
            visits by turns, from the cycle's slot on.
        closed: the slots whose datasets were found at their end.
        stop: where the cycle then stands.
    """

    taken: np.ndarray
    order: np.ndarray | None
    closed: np.ndarray
    stop: int
