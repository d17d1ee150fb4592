"""The name that was meant by a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A sentence for a message with the nearest of `names` and a space behind it, or nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"Did you mean {close[0]!r}? " if close else ""
