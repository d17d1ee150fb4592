"""Whether a function is now being traced for workers."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_scheduled = contextvars.ContextVar("drumline_being_scheduled", default=False)


def being_scheduled() -> bool:
    """Whether the calling code is part of a function that workers will run."""
    return _scheduled.get()


@contextlib.contextmanager
def scheduling() -> Iterator[None]:
    """Within the block a function is traced for workers."""
    token = _scheduled.set(True)
    try:
        yield
    finally:
        _scheduled.reset(token)
