"""Random draws that differ from replica to replica, from one seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from drumline.keras.replica_trace import current_trace


def differ_by_replica(next_seed: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``SeedGenerator.next``: while a replica's step is traced, fold its number in.

    The generator's state advances alike on all replicas; only the seeds drawn differ.
    """

    def next_for_replica(self: Any, ordered: bool = True) -> Any:
        seed = next_seed(self, ordered)
        trace = current_trace()
        if trace is None or not trace.draws_differ:
            return seed
        key = jax.random.wrap_key_data(seed.astype("uint32"), impl="threefry2x32")
        folded = jax.random.fold_in(key, trace.context.replica_id_in_sync_group)
        return jax.random.key_data(folded).astype(seed.dtype)

    return next_for_replica
