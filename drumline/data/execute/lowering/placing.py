"""How packing, global shuffles and copies to devices run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline._core import mix64
from drumline.data.execute.device_stage import DeviceStage
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.pack_stage import PackStage
from drumline.data.execute.permuted import Permuted
from drumline.data.execute.prefetch_stage import PrefetchStage
from drumline.data.execute.stage import Stage
from drumline.data.plan.node import Pass, Trail
from drumline.data.plan.ordering import GlobalShuffle
from drumline.data.plan.packing import Pack
from drumline.data.plan.placing import PrefetchToDevice

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


def index_global_shuffle(
    lowering: Lowering, node: GlobalShuffle, trail: Trail, run: Pass
) -> Indexed | None:
    inner = lowering.by_position().indexed_input(node, trail, run)
    if inner is None:
        return None
    key = mix64(node.seed, lowering.occurrences[trail])
    for part in run if node.reshuffle else ():
        key = mix64(key, part)
    return Permuted(inner, key)


def lower_pack(lowering: Lowering, node: Pack, trail: Trail, run: Pass) -> Stage:
    return PackStage(lowering.input(node, trail, run, ragged=True), node)


def lower_prefetch_to_device(
    lowering: Lowering, node: PrefetchToDevice, trail: Trail, run: Pass
) -> Stage:
    source = DeviceStage(lowering.input(node, trail, run), node.device)
    return PrefetchStage(source, node.size, node.spec.row_nbytes())
