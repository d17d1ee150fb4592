"""Replacing methods: for good on a class, or for the length of a trace on one object."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

_MARK = "__drumline_original__"


def replace_method(owner: Any, name: str, make: Callable[[Callable[..., Any]], Any]) -> None:
    """Replace ``owner.name`` by ``make(original)``, once however often this is called."""
    original = getattr(owner, name)
    if hasattr(original, _MARK):
        return
    replacement = functools.wraps(original)(make(original))
    setattr(replacement, _MARK, original)
    setattr(owner, name, replacement)


@contextlib.contextmanager
def shadowed(owner: Any, name: str, replacement: Callable[..., Any]) -> Iterator[None]:
    """Let `owner`'s own attribute `name` be `replacement` until the block ends."""
    own = vars(owner)
    had, before = name in own, own.get(name)
    own[name] = replacement
    try:
        yield
    finally:
        if had:
            own[name] = before
        else:
            del own[name]
