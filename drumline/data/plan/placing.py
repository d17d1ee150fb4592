"""``prefetch_to_device``."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax

from drumline.data.plan.node import Node
from drumline.data.spec import ElementSpec, TensorSpec


@dataclasses.dataclass(frozen=True, eq=False)
class PrefetchToDevice(Node):
    """Elements copied to a device, ``size`` of them ahead; the last operation of a plan.

    Attributes:
        device: a ``jax.Device`` or ``jax.sharding.Sharding``.
        size: how many elements are on their way at most.
    """

    device: Any
    size: int
    name: ClassVar[str] = "prefetch_to_device"

    @property
    def spec(self) -> ElementSpec:
        inner = self.input.spec
        narrowed = jax.dtypes.canonicalize_dtype
        return inner.with_leaves(
            [TensorSpec(leaf.shape, narrowed(leaf.dtype), leaf.name) for leaf in inner.leaves]
        )

    def arguments(self) -> str:
        return f"{self.device}, buffer_size={self.size}"
