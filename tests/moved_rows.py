"""Counts the bytes that move between a home and the devices that compute, as tables' rows do."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import jax
import numpy as np
import pytest


def count_moved_rows(
    monkeypatch: pytest.MonkeyPatch, home: str, rows: Collection[tuple[int, ...]]
) -> dict[str, int]:
    """Bytes that `jax.device_put` moves from now on, "to" devices that compute and "from" them.

    Args:
        monkeypatch: until whose end it counts.
        home: the CPU device on which tables live.
        rows: the shapes of a row of each table; float32 arrays of such rows are counted.
    """
    return count_moved(monkeypatch, home, lambda array: np.shape(array)[1:] in rows)


def count_moved(
    monkeypatch: pytest.MonkeyPatch, home: str, is_counted: Callable[[Any], bool] = lambda _: True
) -> dict[str, int]:
    """The same of all float32 arrays, or of some.

    Args:
        monkeypatch: until whose end it counts.
        home: the CPU device on which variables live.
        is_counted: whether an array is.
    """
    moved = {"to": 0, "from": 0}
    place = jax.devices()[int(home.split(":")[1])]
    put = jax.device_put

    def counted(values: Any, *where: Any, **options: Any) -> Any:
        found = put(values, *where, **options)
        for before, after in zip(jax.tree.leaves(values), jax.tree.leaves(found), strict=True):
            if not is_counted(before) or before.dtype != np.float32:
                continue
            came = before.devices() if isinstance(before, jax.Array) else set()
            for each in after.addressable_shards:
                if each.device not in came:
                    moved["from" if each.device == place else "to"] += each.data.nbytes
        return found

    monkeypatch.setattr(jax, "device_put", counted)
    return moved


def padded(rows: int) -> int:
    """How many rows are sent for so many different ids: a power of two."""
    return 1 << (rows - 1).bit_length()
