"""How several datasets run as one, and ``enumerate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline.data.execute.combine_stages import ConcatenateStage, ZipStage
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.stage import Stage
from drumline.data.execute.transforms import Concatenated, Zipped
from drumline.data.operations.combine import Concatenate, Zip
from drumline.data.plan.node import Node, Pass, Trail

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


def index_zip(lowering: Lowering, node: Zip, trail: Trail, run: Pass) -> Indexed | None:
    parts = lowering.indexed_inputs(node, trail, run)
    return None if parts is None else Zipped(parts)


def index_concatenate(
    lowering: Lowering, node: Concatenate, trail: Trail, run: Pass
) -> Indexed | None:
    parts = lowering.indexed_inputs(node, trail, run)
    return None if parts is None else Concatenated(*parts)


def lower_zip(lowering: Lowering, node: Zip, trail: Trail, run: Pass) -> Stage:
    return ZipStage(_inputs(lowering, node, trail, run))


def lower_concatenate(lowering: Lowering, node: Concatenate, trail: Trail, run: Pass) -> Stage:
    return ConcatenateStage(_inputs(lowering, node, trail, run))


def _inputs(lowering: Lowering, node: Node, trail: Trail, run: Pass) -> list[Stage]:
    return [lowering.input(node, trail, run, i, ragged=True) for i in range(len(node.inputs))]
