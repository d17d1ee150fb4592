"""Starting one epoch of a plan."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from drumline.data.execute.elements import splitter
from drumline.data.execute.lowering import Lowering, fill
from drumline.data.execute.runtime import Runtime
from drumline.data.execute.stage import Stage
from drumline.data.observe.observation import Observation
from drumline.data.options import Options
from drumline.data.plan.buffering import Cache
from drumline.data.plan.node import Node
from drumline.data.plan.ordering import Shuffle
from drumline.data.rewrite.optimize import optimize
from drumline.data.rewrite.shard_hints import resolve_shard_hints
from drumline.data.spec import STRING


class Epochs:
    """A plan, rewritten once, ready to be started for any epoch."""

    def __init__(self, plan: Node, options: Options, observation: Observation | None = None):
        self.plan = plan
        self.runtime = Runtime(options, observation)
        self.optimized = optimize(resolve_shard_hints(plan, 1, 0), options)

    def fingerprint(self) -> str:
        """A digest of the operations, their arguments and seeds."""
        seeds = [node.seed for node in self.plan.walk() if isinstance(node, Shuffle)]
        text = f"{self.plan.describe()}\n{self.plan.spec}\n{seeds}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def start(self, epoch: int, caches: list[bool] | None) -> tuple[Stage, list[bool]]:
        """The stage of an epoch, and which caches it serves elements from.

        Args:
            epoch: shuffles differ between epochs.
            caches: for each cache of the plan, in order, whether to serve from it, filling it first
                if need be; ``None`` serves from those that are full.
        """
        stores = [node.store for node in self.optimized.walk() if isinstance(node, Cache)]
        if caches is None:
            caches = [store.blocks is not None for store in stores]
        filled = {store for store, serve in zip(stores, caches, strict=True) if serve}
        fill(self.optimized, filled)
        return Lowering(self.optimized, filled, self.runtime).stage(epoch), caches


def first_element(plan: Node) -> Any:
    """An element of the plan's first epoch; zeros of its spec if it has none.

    Raises:
        Exception: what making the element raised.
    """
    stage = Lowering(resolve_shard_hints(plan, 1, 0), set()).stage(0)
    block = stage.next(1)
    stage.close()
    spec = plan.spec
    if block is None:
        zeros = [_zero(leaf.shape, leaf.dtype) for leaf in spec.leaves]
        return splitter(spec.structure)(zeros)[0]
    if block.error is not None:
        raise block.error
    for column in block.columns:
        column.flags.writeable = False
    return splitter(spec.structure)(block.columns)[0]


def _zero(shape: tuple[int | None, ...], dtype: np.dtype) -> np.ndarray:
    dims = tuple(dim or 0 for dim in shape)
    return np.full((1, *dims), b"", dtype) if dtype == STRING else np.zeros((1, *dims), dtype)
