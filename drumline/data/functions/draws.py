"""Where the random numbers that a function draws come from."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any

import jax
import numpy as np

from drumline._core import mix64
from drumline.data.elements import precision
from drumline.data.elements.seeds import draw_seed, seeds_are_given


class Draws:
    """The numbers drawn for one element, as a context around the call of a function.

    Args:
        key: of the element, uint32 (4,): the first half follows from its position only, the second
            from the operation's seed, too. A tracer where the function is traced.

    Attributes:
        count: how many draws were made.
    """

    def __init__(self, key: Any):
        self.count = 0
        self._key = key
        self._token: Token[Draws | str | None] | None = None

    def next(self, seed: int | None) -> Any:
        """The key (typed, ``threefry2x32``) of the next draw, with another seed if one is given."""
        given = self._key[2:] if seed is None else self._key[:2]
        # Keys of positions are hashes already: one operation makes others of them.
        key = given ^ _halves(mix64((seed or 0) % 2**64, self.count))
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
        RuntimeError: the function that runs is none that may draw, or a trace that is not a
            dataset's is under way.
    """
    draws = _current.get()
    if isinstance(draws, str):
        raise RuntimeError(
            f"dl.random cannot draw in {draws} where it did not draw for the first element: draw "
            "for every element, or in a map before it"
        )
    if draws is None:
        if precision.is_tracing():
            raise RuntimeError(
                "dl.random draws in functions given to Dataset.map and the like, or outside of "
                "traces; in jax.jit, scan and the like, use jax.random with a key of "
                "dl.random.split()"
            )
        draws = Draws(np.tile(_halves(draw_seed()), 2))
    if precision.is_tracing():
        return draw(draws.next(seed))
    with precision.narrow():
        result = draw(draws.next(seed))
    is_key = jax.dtypes.issubdtype(result.dtype, jax.dtypes.extended)
    return result if is_key else precision.given(np.asarray(result))


def _halves(seed: int) -> np.ndarray:
    return np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF], np.uint32)


def call_without_draws(call: Callable[[], Any], where: str) -> Any:
    """``call()``, in which ``dl.random`` raises, unless draws are provided for already.

    Its draws would be others whenever it runs.
    """
    if _current.get() is not None or seeds_are_given():
        return call()
    token = _current.set(where)
    try:
        return call()
    finally:
        _current.reset(token)


_current: ContextVar[Draws | str | None] = ContextVar("drumline_draws", default=None)
