"""The hook by which an optimizer gives its gradients to code that updates in its place."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

UpdateInterceptor = Callable[[Any, Sequence[Any], Sequence[Any]], None]
"""Takes an optimizer, gradients and their variables, in the place of the optimizer's update."""

SeedListener = Callable[[Any], None]
"""Is called with a `keras.random.SeedGenerator`'s state when it is drawn from."""

_taker: contextvars.ContextVar[UpdateInterceptor | None] = contextvars.ContextVar(
    "drumline_update_interceptor", default=None
)
_seeds: contextvars.ContextVar[SeedListener | None] = contextvars.ContextVar(
    "drumline_seeds_noted", default=None
)


def update_interceptor() -> UpdateInterceptor | None:
    """Who takes the gradients of the outermost optimizer; None where optimizers update."""
    return _taker.get()


def note_draw(state: Any) -> None:
    """Say that a seed generator with the variable `state` is drawn from."""
    note = _seeds.get()
    if note is not None:
        note(state)


@contextlib.contextmanager
def intercept_optimizer_updates(taker: UpdateInterceptor, seeds: SeedListener) -> Iterator[None]:
    """Within the block `taker` is called instead of an optimizer's ``apply``.

    Args:
        taker: called with the optimizer, the gradients and the variables.
        seeds: called with the state of each seed generator that is drawn from.
    """
    tokens = _taker.set(taker), _seeds.set(seeds)
    try:
        yield
    finally:
        _taker.reset(tokens[0])
        _seeds.reset(tokens[1])
