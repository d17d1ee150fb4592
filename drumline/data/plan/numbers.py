"""Numbers without end: ``counter`` and ``random``."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from drumline.data.cardinality import INFINITE
from drumline.data.plan.node import Node
from drumline.data.spec import ElementSpec, TensorSpec
from drumline.data.structure import LEAF_STRUCTURE


@dataclasses.dataclass(frozen=True, eq=False)
class Counter(Node):
    """``start``, ``start + step``, ..."""

    start: float
    step: float
    dtype: np.dtype
    name: ClassVar[str] = "counter"

    @property
    def spec(self) -> ElementSpec:
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec((), self.dtype),))

    @property
    def cardinality(self) -> int:
        return INFINITE

    def arguments(self) -> str:
        return f"start={self.start}, step={self.step}, dtype={self.dtype.name}"


@dataclasses.dataclass(frozen=True, eq=False)
class Random(Node):
    """Random integers; ``seed`` is always set here, drawn when the user gave none."""

    seed: int
    rerandomize: bool
    name: ClassVar[str] = "random"

    @property
    def spec(self) -> ElementSpec:
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec((), np.int64),))

    @property
    def cardinality(self) -> int:
        return INFINITE

    def arguments(self) -> str:
        return f"rerandomize_each_iteration={self.rerandomize}"
