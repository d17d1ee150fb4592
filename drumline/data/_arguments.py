"""Checks of arguments that many methods take."""

from __future__ import annotations

import operator
from typing import Any

from drumline.data.autotune.number import AUTOTUNE
from drumline.data.seeds import draw_seed

__all__ = ["AUTOTUNE", "check_deterministic", "count_of", "parallel_calls"]


def count_of(value: Any, operation: str, name: str, least: int | None = None) -> int:
    """``value`` as an integer, of at least ``least``; errors name the method and the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        meant = isinstance(value, str) and value == "AUTOTUNE"
        found = f"{value!r:.40}{_automatic(operation, name) if meant else ''}"
        raise TypeError(f"{operation}: {name} must be an integer, got {found}") from None
    if least is not None and number < least:
        hint = _automatic(operation, name) if number == AUTOTUNE else ""
        raise ValueError(f"{operation}: {name} must be at least {least}, got {number}{hint}")
    if abs(number) >= 2**63:
        raise ValueError(f"{operation}: {name} must be less than 2**63, got {number}")
    return number


def _automatic(operation: str, name: str) -> str:
    """What to say to one who wants an argument to be left to drumline."""
    if name in ("num_parallel_calls", "num_parallel_reads", "cycle_length") or (
        (operation, name) == ("prefetch", "buffer_size")
    ):
        return "; give dl.data.AUTOTUNE, which is a number"
    if name in ("batch_size", "buffer_size", "block_length"):
        return f"; {name} cannot be AUTOTUNE (-1): give a number"
    return ""


def seed_of(seed: Any, operation: str) -> int:
    """The seed that was given, or one drawn now.

    Raises:
        TypeError: it is no integer.
    """
    if seed is None:
        return draw_seed()
    try:
        return operator.index(seed) % 2**64
    except TypeError:
        raise TypeError(f"{operation}: seed must be an integer or None, got {seed!r:.40}") from None


def parallel_calls(num_parallel_calls: int | None, operation: str) -> int | None:
    """The number of workers meant, ``AUTOTUNE``, or ``None`` if it was left open."""
    if num_parallel_calls is None or num_parallel_calls == AUTOTUNE:
        return num_parallel_calls
    return count_of(num_parallel_calls, operation, "num_parallel_calls", least=1)


def check_deterministic(value: Any, operation: str) -> None:
    """Rejects what is no bool or ``None``; results come in order either way."""
    if value not in (None, True, False):
        raise TypeError(f"{operation}: deterministic must be a bool or None, got {value!r}")
