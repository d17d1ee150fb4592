"""Keys for functions that draw random numbers."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from drumline.data.plan.node import Node
from drumline.data.spec import ElementSpec, TensorSpec
from drumline.data.structure import LEAF_STRUCTURE, tuple_of


@dataclasses.dataclass(frozen=True, eq=False)
class RandomKeys(Node):
    """Each element with a key: uint32 (4,), which depends on the epoch, the pass and the position,
    its second half on the seed, too.

    It stands below a map or filter whose function draws by ``dl.random``.
    """

    seed: int
    name: ClassVar[str] = "random_keys"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        key = TensorSpec((4,), np.uint32)
        return ElementSpec(tuple_of([inner.structure, LEAF_STRUCTURE]), (*inner.leaves, key))
