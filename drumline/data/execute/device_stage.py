"""Elements copied to a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.stage import Stage, State
from drumline.data.narrowing import require_fits
from drumline.data.ragged import objects


class DeviceStage(Stage):
    """Starts the copies of elements' leaves; columns hold JAX arrays."""

    def __init__(self, source: Stage, device: Any):
        self.source = source
        self.device = device
        self.eager = source.eager

    def next(self, limit: int) -> Block | None:
        block = self.source.next(1)
        if block is None:
            return None
        columns = [self._placed(column) for column in block.columns]
        return Block(columns, block.n, block.error)

    def _placed(self, column: np.ndarray) -> np.ndarray:
        column.flags.writeable = False
        for row in column:
            require_fits(row, "An element of prefetch_to_device", "switch on `jax_enable_x64`")
        return objects([jax.device_put(np.asarray(row), self.device) for row in column])

    def state(self) -> State:
        return {"input": self.source.state()}

    def restore(self, state: State) -> None:
        self.source.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self.source]

    def describe(self) -> str:
        return f"copy to {self.device}"
