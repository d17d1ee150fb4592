"""Keras's own data adapters under a strategy of several processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from drumline.distribute import Strategy
from drumline.distribute.exchange import first_process
from drumline.keras.data_adapter import DatasetAdapter


def in_step(adapter: Any, strategy: Strategy) -> Iterator[Any]:
    """The batches of one pass over what `fit` was given: the same in all processes.

    Keras shuffles arrays in an order drawn from numpy's global random state, which all processes
    therefore take over from the first one. Generators and ``PyDataset``s must give the same batches
    in each process.
    """
    if not isinstance(adapter, DatasetAdapter):
        _share_random_state(strategy)
    yield from adapter.get_jax_iterator()


def _share_random_state(strategy: Strategy) -> None:
    name, keys, position, *_ = np.random.get_state()
    shared = first_process(strategy, np.append(keys, np.uint32(position)))
    np.random.set_state((name, shared[:-1], int(shared[-1]), 0, 0.0))
