"""Plans whose elements need no stages: rows at hand, and one batch of them."""

from __future__ import annotations

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.operations.batch import Batch
from drumline.data.operations.sources import Slices
from drumline.data.plan.node import Node


def at_hand(plan: Node) -> Block | None:
    """All elements of a plan as one block of views, ``None`` if they have to be made.

    The datasets that functions make of windows are of these kinds mostly; starting stages for a
    few rows would cost more than the rows.
    """
    if isinstance(plan, Slices):
        return _views(plan)
    # Batches that pad, or that are ragged, are subclasses.
    if type(plan) is not Batch:
        return None
    rows = at_hand(plan.input)
    if rows is None or not 0 < rows.n <= plan.size or (plan.drop_remainder and rows.n < plan.size):
        return None
    return Block([column[None] for column in rows.columns], 1)


def _views(plan: Slices) -> Block | None:
    if not all(isinstance(column, np.ndarray) for column in plan.columns):
        return None
    columns = [column[:] for column in plan.columns]
    for column in columns:
        column.flags.writeable = False
    return Block(columns, plan.length)
