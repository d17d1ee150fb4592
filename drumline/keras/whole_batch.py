"""Layers that must see whole batches, and layers that are given them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline.distribute import get_strategy, in_cross_replica_context
from drumline.distribute.merge_call import merging_replica
from drumline.distribute.replica_context import running_replica, whole_batch
from drumline.keras.step.replica_trace import NeedsWholeBatch, current_trace


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


def refuse_shares_of_state(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``RNN.call``: a stateful layer keeps a state for each row, so it must see all rows."""

    def call_or_refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.stateful:
            return call(self, *args, **kwargs)
        if current_trace() is not None:
            raise NeedsWholeBatch(
                f"layer {self.path!r} is stateful, with a state for each row of the batch, so the "
                "step is partitioned over the replicas by the compiler, not run once on each"
            )
        try:
            return call(self, *args, **kwargs)
        except ValueError as error:
            context = running_replica()
            if context is None or context.num_replicas_in_sync == 1:
                raise
            raise ValueError(  # not a note: Keras makes another exception of it
                f"{error}\nLayer {self.path!r} is stateful, and each of "
                f"{context.num_replicas_in_sync} replicas gets its share of the batch alone. Train "
                "it with `fit`, which runs such a model on whole batches, or under a strategy of "
                "one replica."
            ) from error

    return call_or_refuse


def with_a_context(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Layer.__call__``: a layer that reduces over the replicas may do so everywhere.

    In cross-replica context, as where a model is built or called in a scope, it is given all rows
    that there are: `get_replica_context` is a context that has nobody to meet, and not None.
    """

    def call_with_a_context(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not in_cross_replica_context() or merging_replica() is not None:
            return call(self, *args, **kwargs)
        with whole_batch(get_strategy()):
            return call(self, *args, **kwargs)

    return call_with_a_context
