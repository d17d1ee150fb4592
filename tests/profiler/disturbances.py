"""Tests of shares of time, on machines that do other things meanwhile."""

from __future__ import annotations

import functools
from collections.abc import Callable

_TRIES = 4


def again_if_disturbed(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test up to four times until it passes once.

    Where the system gives the processor to other processes for some time slices, that is in the
    measured shares; a wrong account of them is in all tries.
    """

    @functools.wraps(test)
    def repeated(*args: object, **kwargs: object) -> None:
        for _ in range(_TRIES - 1):
            try:
                return test(*args, **kwargs)
            except AssertionError:
                continue
        test(*args, **kwargs)

    return repeated
