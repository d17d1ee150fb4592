"""Seeds for operations that were given none, and random numbers by position."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextvars import ContextVar, Token

import numpy as np

from drumline._core import mix64


class DrawnSeed(int):
    """A seed that the user did not give: any other would do as well."""


def draw_seed() -> DrawnSeed:
    """A seed, from Python's ``random``, which ``keras.utils.set_random_seed`` seeds.

    Inside a function that makes a dataset for an element, it comes from the ``SeedsFor`` in force.
    """
    source = _source.get()
    return DrawnSeed(random.getrandbits(63) if source is None else source.next())


def seeds_are_given() -> bool:
    """Whether seeds come from a ``SeedsFor``."""
    return _source.get() is not None


class SeedsFor:
    """Seeds that depend on nothing but where they are drawn, as a context.

    A dataset that is created again for an element, when its epoch is repeated or resumed, so gets
    the same seeds.

    Args:
        seed: of the operation whose function makes the dataset.
        place: the epoch, the pass of each ``repeat`` and the element's position.

    Attributes:
        drawn: how many seeds were asked for.
    """

    def __init__(self, seed: int, place: Sequence[int]):
        self.drawn = 0
        self._seed = seed
        self._place = place
        self._token: Token[SeedsFor | None] | None = None

    def next(self) -> int:
        """The next seed."""
        key = self._seed
        for part in (*self._place, self.drawn):
            key = mix64(key, part)
        self.drawn += 1
        return key

    def __enter__(self) -> SeedsFor:
        self._token = _source.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _source.reset(self._token)


_source: ContextVar[SeedsFor | None] = ContextVar("drumline_seeds", default=None)


_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def bits(key: int, positions: np.ndarray) -> np.ndarray:
    """64 random bits for each position of the stream that ``key`` names.

    The stream is splitmix64 (Steele, Lea and Flood, 2014) from the state ``key``, of which the
    n-th number can be had without the others.

    Returns:
        uint64, of the shape of ``positions``.
    """
    state = positions.astype(np.uint64)
    state += np.uint64(1)
    state *= _GAMMA
    state += np.uint64(key)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        state ^= state >> np.uint64(shift)
        state *= factor
    state ^= state >> np.uint64(31)
    return state


def uniform(key: int, start: int, count: int) -> np.ndarray:
    """The numbers at the positions ``start`` to ``start + count`` of a stream in [0, 1).

    Returns:
        float64 (count,).
    """
    positions = np.arange(start, start + count, dtype=np.uint64)
    return (bits(key, positions) >> np.uint64(11)) * 2.0**-53
