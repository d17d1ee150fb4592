"""Where the random numbers that a function draws come from."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any

import jax
import numpy as np

from drumline._core import mix64
from drumline.data.functions import modes
from drumline.data.seeds import draw_seed


class Draws:
    """The numbers drawn for one element, as a context around the call of a function.

    Args:
        key: of the element, uint32 (2,); a tracer where the function is traced.
        seed: of the operation, up to 64 bits.

    Attributes:
        count: how many draws were made.
    """

    def __init__(self, key: Any, seed: int):
        self.count = 0
        self._key = key
        self._seed = seed
        self._token: Token[Draws | None] | None = None

    def next(self, seed: int | None) -> Any:
        """The key (typed, ``threefry2x32``) of the next draw, with another seed if one is given."""
        chosen = self._seed if seed is None else seed
        # Keys of positions are hashes already: one operation makes others of them.
        key = self._key ^ _halves(mix64(chosen % 2**64, self.count))
        self.count += 1
        return jax.random.wrap_key_data(key, impl="threefry2x32")

    def __enter__(self) -> Draws:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)


def drawn(draw: Callable[[Any], Any], seed: int | None) -> Any:
    """What ``draw`` makes of the next key: an array, or a tracer where a function is traced.

    Outside of a dataset's functions the key is a new one, from Python's ``random``.

    Raises:
        RuntimeError: a trace that is not a dataset's is under way.
    """
    draws = _current.get()
    if draws is None:
        if modes.is_tracing():
            raise RuntimeError(
                "dl.random draws in functions given to Dataset.map and filter, or outside of "
                "traces; in jax.jit, scan and the like, use jax.random with a key of "
                "dl.random.split()"
            )
        draws = Draws(_halves(draw_seed()), 0)
    if modes.is_tracing():
        return draw(draws.next(seed))
    with modes.narrow():
        result = draw(draws.next(seed))
    is_key = jax.dtypes.issubdtype(result.dtype, jax.dtypes.extended)
    return result if is_key else np.asarray(result)


def _halves(seed: int) -> np.ndarray:
    return np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF], np.uint32)


_current: ContextVar[Draws | None] = ContextVar("drumline_draws", default=None)
