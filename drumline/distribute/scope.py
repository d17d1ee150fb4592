"""Which strategy is in force: entering a strategy's scope, and asking for it."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TYPE_CHECKING

import jax

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

_entered: contextvars.ContextVar[Strategy | None] = contextvars.ContextVar(
    "drumline_strategy", default=None
)


def has_strategy() -> bool:
    """Whether the calling code is inside some strategy's scope."""
    return _entered.get() is not None


def get_strategy() -> Strategy:
    """The strategy whose scope the calling code is in; the default one if it is in none.

    The default strategy runs one replica on JAX's default device.
    """
    from drumline.distribute.one_device import default_strategy

    return _entered.get() or default_strategy()


@contextlib.contextmanager
def enter(strategy: Strategy) -> Iterator[Strategy]:
    """Put `strategy` in force until the block ends.

    Raises:
        RuntimeError: if another strategy's scope is open. The same strategy's may be.
    """
    current = _entered.get()
    if current is not None and current is not strategy:
        raise RuntimeError(
            f"Cannot enter the scope of {strategy!r} inside the scope of {current!r}; "
            "leave that scope first."
        )
    token = _entered.set(strategy)
    try:
        with default_device(strategy.local_replica_devices[0]):
            yield strategy
    finally:
        _entered.reset(token)


@contextlib.contextmanager
def left() -> Iterator[None]:
    """No strategy is in force until the block ends."""
    token = _entered.set(None)
    try:
        yield
    finally:
        _entered.reset(token)


def default_device(device: jax.Device) -> contextlib.AbstractContextManager[object]:
    """Let what is on no device yet go to `device` until the block ends."""
    if device == jax.local_devices()[0]:
        return contextlib.nullcontext()
    return jax.default_device(device)
