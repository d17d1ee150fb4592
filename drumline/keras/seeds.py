"""Random draws that differ from replica to replica, from one seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from drumline.distribute.replica_context import running_replica
from drumline.distribute.updates_elsewhere import note_draw


def differ_by_replica(next_seed: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``SeedGenerator.next``: while a replica's step is traced, fold its number in.

    The generator's state advances alike on all replicas; only the seeds drawn differ.
    """

    def next_for_replica(self: Any, ordered: bool = True) -> Any:
        note_draw(self.state)
        seed = next_seed(self, ordered)
        context = running_replica()
        if context is None or not context.draws_differ or context.num_replicas_in_sync == 1:
            return seed
        key = jax.random.wrap_key_data(seed.astype("uint32"), impl="threefry2x32")
        folded = jax.random.fold_in(key, context.replica_id_in_sync_group)
        return jax.random.key_data(folded).astype(seed.dtype)

    return next_for_replica
