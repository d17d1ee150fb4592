"""Collectives of small host arrays between the processes of a strategy, outside of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jax.experimental import multihost_utils

from drumline.distribute.process_group import watchdog

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


def all_gather_host(strategy: Strategy, value: np.ndarray) -> np.ndarray:
    """What each process gives, an array ``(processes, ...)``; all call this together.

    Args:
        strategy: one that spans the processes; no program of it runs meanwhile.
        value: of the same shape and dtype in all processes; 64-bit types keep their bits.
    """
    strategy._in_flight.wait()
    flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    with watchdog(timeout_seconds=strategy._in_flight.timeout_seconds):
        together: np.ndarray = multihost_utils.process_allgather(flat)
    return together.view(value.dtype).reshape(len(together), *value.shape)


def broadcast(strategy: Strategy, value: np.ndarray) -> np.ndarray:
    """What the first process gives, an array of the same shape and dtype in all processes."""
    strategy._in_flight.wait()
    with watchdog(timeout_seconds=strategy._in_flight.timeout_seconds):
        return np.asarray(multihost_utils.broadcast_one_to_all(value))


def broadcast_host(strategy: Strategy, value: np.ndarray) -> np.ndarray:
    """What the first process gives, on all of them."""
    first: np.ndarray = all_gather_host(strategy, value)[0]
    return first
