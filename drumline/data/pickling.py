"""Datasets as bytes, with the functions in them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from drumline.data.options import Options
from drumline.data.plan.node import Node
from drumline.data.workers.remote.packing import Packed, packed

_REFUSAL = (
    "the dataset cannot be pickled: {what} cannot be ({why}). Make it inside the function, or make "
    "the dataset in the process that reads it."
)


def reduced(
    make: Callable[..., Any], plan: Node, options: Options | None, epoch: int
) -> tuple[Any, ...]:
    """What ``__reduce__`` returns.

    Args:
        make: a class, called with plan and options.
        plan: the dataset's.
        options: those it was given.
        epoch: the number of its next epoch.

    Raises:
        TypeError: a part of it cannot be pickled; the message names the operation and the part.
    """
    return _restored, (make, packed((plan, options), plan, _REFUSAL), epoch)


def _restored(make: Callable[..., Any], sent: Packed, epoch: int) -> Any:
    plan, options = pickle.loads(sent.content, buffers=sent.buffers)
    dataset = make(plan, options)
    dataset._next_epoch = epoch
    return dataset
