"""``prefetch_to_device``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import jax

from drumline.data.execute.device_stage import DeviceStage
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.prefetch_stage import PrefetchStage
from drumline.data.execute.stage import Stage
from drumline.data.operations.batch import Batch
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.spec import ElementSpec, TensorSpec

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


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


@dataclasses.dataclass(frozen=True, eq=False)
class Prefetch(Node):
    """Up to ``size`` elements made ahead; ``None`` leaves the size to drumline."""

    size: int | None
    name: ClassVar[str] = "prefetch"

    def arguments(self) -> str:
        return "AUTOTUNE" if self.size is None else str(self.size)


def locate_prefetch(lowering: Lowering, node: Prefetch, trail: Trail, run: Pass) -> Indexed | None:
    return lowering.indexed_input(node, trail, run)


def lower_prefetch_to_device(
    lowering: Lowering, node: PrefetchToDevice, trail: Trail, run: Pass
) -> Stage:
    source = DeviceStage(lowering.input(node, trail, run), node.device)
    return PrefetchStage(source, node.size, node.spec.row_nbytes())


def lower_prefetch(lowering: Lowering, node: Prefetch, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=True)
    room = lowering.runtime.room(lowering.root) if node.size is None else None
    slack = bool(lowering.runtime.options.experimental_slack) and not trail
    row_nbytes, most = node.spec.row_nbytes(), lowering.runtime.nbytes // 2
    largest = _largest_nbytes(node.input)
    return PrefetchStage(source, node.size, row_nbytes, room, slack, None, most, largest)


def _largest_nbytes(node: Node) -> int | None:
    """What no element of a node is larger than, in bytes."""
    if type(node) is Batch:
        row = _largest_nbytes(node.input)
        return None if row is None else node.size * row
    sizes = [leaf.nbytes for leaf in node.spec.leaves]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
