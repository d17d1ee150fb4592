"""Noticing, while a step is traced per replica, that it must see whole batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline.keras.replica_trace import NeedsWholeBatch, current_trace


def refuse_added_losses(add_loss: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Layer.add_loss``: a loss added on activations may be a mean over the batch, a sum,
    or neither, and its value does not say; only the whole batch gives it as on one device.
    """

    def add_loss_or_refuse(self: Any, loss: Any) -> Any:
        if current_trace() is not None:
            raise NeedsWholeBatch(
                f"layer {self.path!r} adds a loss on its activations, so the step is partitioned "
                "over the replicas by the compiler, not run once on each"
            )
        return add_loss(self, loss)

    return add_loss_or_refuse
