"""A function that carries a state from element to element."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from drumline.data.execute.block import Block
from drumline.data.execute.carrying import CountingStage
from drumline.data.execute.stage import Stage, State
from drumline.data.functions.recurrence import Recurrence
from drumline.data.spec import STRING, as_dtype


class ScanStage(CountingStage):
    """The function's results; its state is part of the stage's."""

    def __init__(self, source: Stage, function: Recurrence):
        super().__init__(source)
        self.function = function
        self.granule = max(source.granule, function.block_length)

    def next(self, limit: int) -> Block | None:
        limit = self.function.limit(min(limit, self.granule) if self.granule > 1 else limit)
        block = self._carry.peek(limit)
        if block is None:
            return None
        start = self._position
        out = self.function(block, lambda row: start + row)
        self._use(out.events)
        return out

    def state(self) -> State:
        return {"state": [packed(leaf) for leaf in self.function.state], **super().state()}

    def restore(self, state: State) -> None:
        super().restore(state)
        self.function.state = [unpacked(leaf) for leaf in state["state"]]

    def describe(self) -> str:
        return f"scan {self.function.describe()}"


def packed(array: np.ndarray) -> dict[str, Any]:
    """An array as JSON, to the bit."""
    array = np.asarray(array)
    strings = array.dtype == STRING
    data: Any = [_text(item) for item in array.reshape(-1)] if strings else _text(array.tobytes())
    name = "string" if strings else array.dtype.name
    return {"dtype": name, "shape": list(array.shape), "data": data}


def unpacked(value: dict[str, Any]) -> np.ndarray:
    """The array that ``packed`` took."""
    dtype, shape = as_dtype(value["dtype"]), tuple(value["shape"])
    if dtype == STRING:
        array = np.empty(len(value["data"]), object)
        array[:] = [base64.b64decode(item) for item in value["data"]]
        return array.reshape(shape)
    return np.frombuffer(base64.b64decode(value["data"]), dtype).reshape(shape)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
