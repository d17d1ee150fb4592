"""Random states that differ from worker to worker."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def worker_state(state: Any, worker: int) -> np.ndarray:
    """A worker's first state of a random generator, from the chief's.

    Workers draw independently of each other, and the same again in a job that starts again.

    Args:
        state: what the chief's `keras.random.SeedGenerator` holds, of shape (2,).
        worker: the worker's number.

    Returns:
        An array of the same shape and dtype.
    """
    array: np.ndarray = np.asarray(state)
    key = jax.random.wrap_key_data(jnp.asarray(array.astype(np.uint32)), impl="threefry2x32")
    folded = jax.random.key_data(jax.random.fold_in(key, worker))
    return np.asarray(folded).astype(array.dtype)
