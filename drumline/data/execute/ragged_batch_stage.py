"""Elements of different lengths stacked as ragged arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.execute.columns import concatenated
from drumline.data.execute.stack_stage import StackStage
from drumline.data.ragged import RaggedArray, splits_of, uniform
from drumline.data.ragged_spec import RaggedTensorSpec
from drumline.data.rows import single


class RaggedBatchStage(StackStage):
    """Leaves of one shape become dense arrays."""

    def stacked(self, leaf: int, pieces: Sequence[Any], rows: int) -> np.ndarray:
        spec = self.spec.leaves[leaf]
        if not isinstance(spec, RaggedTensorSpec):
            return np.asarray(concatenated(pieces))
        if spec.ragged_rank == 1:
            made = concatenated([p if isinstance(p, RaggedArray) else uniform(p) for p in pieces])
            return single(made.copy())
        return single(_nested([np.asarray(row) for p in pieces for row in p], spec.ragged_rank))

    def describe(self) -> str:
        return f"ragged batch {self.size}{', remainder dropped' if self.drop_remainder else ''}"


def _nested(rows: Sequence[np.ndarray], rank: int) -> RaggedArray:
    """Dense rows (a, b, ...) as one array whose first ``rank`` dimensions vary."""
    values: Any = np.concatenate([row.reshape(-1, *row.shape[rank:]) for row in rows])
    for depth in reversed(range(rank)):
        counts = [int(np.prod(row.shape[:depth], dtype=np.int64)) for row in rows]
        lengths = np.repeat([row.shape[depth] for row in rows], counts)
        values = RaggedArray._view(values, splits_of(lengths))
    return values
