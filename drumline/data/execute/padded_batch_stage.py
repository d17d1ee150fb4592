"""Elements filled up to a common shape and stacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.execute.stack_stage import StackStage
from drumline.data.execute.stage import Stage
from drumline.data.plan.padding import PaddedBatch
from drumline.data.ragged import RaggedArray


class PaddedBatchStage(StackStage):
    """A dimension without a given size is as long as the longest in the batch."""

    def __init__(self, source: Stage, node: PaddedBatch):
        super().__init__(source, node.spec, node.size, node.drop_remainder)
        self.shapes = node.shapes
        self.values = node.values

    def stacked(self, leaf: int, pieces: Sequence[Any], rows: int) -> np.ndarray:
        extents = [_extent(piece) for piece in pieces]
        longest = tuple(map(max, zip(*extents, strict=True)))
        dims = [m if d is None else d for d, m in zip(self.shapes[leaf], longest, strict=True)]
        if any(m > d for m, d in zip(longest, dims, strict=True)):
            raise self._too_long(leaf, longest, rows)
        out = np.full((rows, *dims), self.values[leaf], pieces[0].dtype)
        start = 0
        for piece, extent in zip(pieces, extents, strict=True):
            _write(piece, extent, out[start : start + len(piece)])
            start += len(piece)
        return out

    def _too_long(self, leaf: int, longest: tuple[int, ...], rows: int) -> ValueError:
        first = self._position - rows
        return ValueError(
            f"padded_batch({self.size}): leaf {leaf} of elements {first} to {self._position - 1} "
            f"is up to {longest} long, more than its padded shape {self.shapes[leaf]}; cut it "
            "in a map before, or give None for dimensions that may be of any length"
        )

    def describe(self) -> str:
        return f"padded batch {self.size}{', remainder dropped' if self.drop_remainder else ''}"


def _extent(piece: Any) -> tuple[int, ...]:
    return piece.bounding_shape()[1:] if isinstance(piece, RaggedArray) else piece.shape[1:]


def _write(piece: Any, extent: tuple[int, ...], out: np.ndarray) -> None:
    if isinstance(piece, RaggedArray) and extent[1:] == out.shape[2:]:
        piece.write_to(out)
        return
    rows = piece.to_tensor(out.flat[0]) if isinstance(piece, RaggedArray) and out.size else piece
    out[(slice(None), *map(slice, extent))] = rows
