"""A dataset of global batches, seen as each replica's share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from drumline.distribute.per_replica import PerReplica

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


def shares(rows: int, replicas: int) -> list[slice]:
    """Cut `rows` rows into one run for each replica, in order; sizes differ by at most one.

    With fewer rows than replicas the last replicas get none.
    """
    size, extra = divmod(rows, replicas)
    ends = np.cumsum([size + (index < extra) for index in range(replicas)])
    return [slice(int(end) - (size + (i < extra)), int(end)) for i, end in enumerate(ends)]


class DistributedDataset:
    """Iterates a dataset's global batches as `PerReplica` values, placed on the devices.

    With one replica the batches keep their plain form. Made by
    `Strategy.experimental_distribute_dataset`.

    Attributes:
        dataset: the dataset of global batches.
        strategy: the strategy whose replicas share them.
    """

    def __init__(self, dataset: Iterable[Any], strategy: Strategy) -> None:
        self.dataset = dataset
        self.strategy = strategy

    def __iter__(self) -> Iterator[Any]:
        for batch in self.dataset:
            yield self._distribute(batch)

    @property
    def element_spec(self) -> Any:
        """The specification of a global batch, as the dataset gives it."""
        return self.dataset.element_spec  # type: ignore[attr-defined]

    def _distribute(self, batch: Any) -> Any:
        devices = self.strategy.replica_devices
        if len(devices) == 1:
            return jax.device_put(batch, devices[0])
        rows = _rows(batch)
        pieces = shares(rows, len(devices))
        return jax.tree.map(
            lambda leaf: PerReplica(
                jax.device_put([leaf[piece] for piece in pieces], list(devices))
            ),
            batch,
        )


def _rows(batch: Any) -> int:
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(batch)}
    if len(sizes) != 1 or sizes == {()}:
        raise ValueError(
            "A batch to distribute needs the same first dimension in all of its components, got "
            f"the shapes {[np.shape(leaf) for leaf in jax.tree.leaves(batch)]}. Call "
            "`.batch(global_batch_size)` on the dataset first."
        )
    return int(sizes.pop()[0])
