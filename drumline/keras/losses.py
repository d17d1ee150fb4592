"""Which losses are the mean of the replicas' losses, and what is done with the others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras

from drumline.keras import internals
from drumline.keras.gather import gather_batch
from drumline.keras.overrides import overrides
from drumline.keras.patching import shadowed
from drumline.keras.step.replica_trace import ReplicaTrace

ROWWISE = frozenset(
    {
        "binary_crossentropy",
        "binary_focal_crossentropy",
        "categorical_crossentropy",
        "categorical_focal_crossentropy",
        "categorical_generalized_cross_entropy",
        "categorical_hinge",
        "ctc",
        "hinge",
        "huber",
        "kl_divergence",
        "log_cosh",
        "mean_absolute_error",
        "mean_absolute_percentage_error",
        "mean_squared_error",
        "mean_squared_logarithmic_error",
        "poisson",
        "sparse_categorical_crossentropy",
        "squared_hinge",
    }
)
"""Keras's losses whose value for a row depends on that row alone."""


def is_rowwise(fn: Any, kwargs: dict[str, Any]) -> bool:
    """Whether `fn` is one of Keras's losses and computes each row from that row alone."""
    return (
        getattr(fn, "__module__", "") == "keras.src.losses.losses"
        and fn.__name__ in ROWWISE
        and kwargs.get("axis", -1) == -1
        and kwargs.get("ignore_class") is None
    )


def is_mean_of_shares(model: keras.Model, y_pred: Any) -> bool:
    """Whether the model's loss over a batch is the mean of its losses over equal shares of it.

    True only for what is known: Keras's own losses that compute row by row and average over the
    batch, without a mask. Averages over valid or weighted entries, sums and everything a user
    wrote are not known to be.
    """
    container = model._compile_loss
    if container is None:
        return True
    if not container.built:
        return False
    if not all(_has_rows(leaf) for leaf in keras.tree.flatten(y_pred)):
        return False
    return all(_averages_rows(part.loss) for part in container._flat_losses)


def _has_rows(y_pred: Any) -> bool:
    return y_pred.ndim >= 2 and internals.get_keras_mask(y_pred) is None


def _averages_rows(loss: Any) -> bool:
    if not isinstance(loss, internals.LossFunctionWrapper):
        return False
    if not type(loss).__module__.startswith("keras.src.losses"):
        return False
    mean = loss.reduction in ("sum_over_batch_size", "mean")
    return mean and is_rowwise(loss.fn, loss._fn_kwargs)


@contextlib.contextmanager
def global_loss(model: keras.Model, trace: ReplicaTrace) -> Iterator[None]:
    """Within the block the model's loss is that of the global batch, if a share's is not enough.

    A loss that is the mean of the shares' losses is left alone: the mean of its gradients is the
    gradient. For any other the predictions, targets, inputs and weights are gathered and every
    replica computes the loss of the global batch. The gradient of a gather is a sum over the
    replicas, so that the mean over the replicas is again the gradient.
    """
    compute = model._compute_loss
    custom = overrides(model, "compute_loss", "_compute_loss", "stateless_compute_loss")

    def compute_loss(
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        if not custom and is_mean_of_shares(model, y_pred):
            return compute(x, y, y_pred, sample_weight, training)
        batch = gather_batch(trace, (x, y, y_pred, sample_weight))
        with trace.gathered():
            return compute(*batch, training)

    with shadowed(model, "_compute_loss", compute_loss):
        yield
