"""How packing, global shuffles and copies to devices run."""

from __future__ import annotations

from drumline._core import mix64
from drumline.data.execute.device_stage import DeviceStage
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.lowering.lower import Lowering
from drumline.data.execute.lowering.rules import Pass, Trail, indexed_as, runs_as
from drumline.data.execute.pack_stage import PackStage
from drumline.data.execute.permuted import Permuted
from drumline.data.execute.prefetch_stage import PrefetchStage
from drumline.data.execute.stage import Stage
from drumline.data.plan import ordering, packing, placing


@indexed_as(ordering.GlobalShuffle)
def permuted(
    lowering: Lowering, node: ordering.GlobalShuffle, trail: Trail, run: Pass
) -> Indexed | None:
    inner = lowering.by_position().indexed_input(node, trail, run)
    if inner is None:
        return None
    key = mix64(node.seed, lowering.occurrences[trail])
    for part in run if node.reshuffle else ():
        key = mix64(key, part)
    return Permuted(inner, key)


@runs_as(packing.Pack)
def pack(lowering: Lowering, node: packing.Pack, trail: Trail, run: Pass) -> Stage:
    return PackStage(lowering.input(node, trail, run, ragged=True), node)


@runs_as(placing.PrefetchToDevice)
def to_device(lowering: Lowering, node: placing.PrefetchToDevice, trail: Trail, run: Pass) -> Stage:
    source = DeviceStage(lowering.input(node, trail, run), node.device)
    return PrefetchStage(source, node.size, node.spec.row_nbytes())
