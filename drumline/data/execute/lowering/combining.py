"""How several datasets run as one, and ``enumerate``."""

from __future__ import annotations

from drumline.data.execute import transforms
from drumline.data.execute.combine_stages import ConcatenateStage, ZipStage
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.lowering.lower import Lowering
from drumline.data.execute.lowering.rules import Pass, Trail, indexed_as, runs_as
from drumline.data.execute.numbering_stages import EnumerateStage
from drumline.data.execute.stage import Stage
from drumline.data.plan import combining
from drumline.data.plan.node import Node


@indexed_as(combining.Enumerate)
def enumerated(
    lowering: Lowering, node: combining.Enumerate, trail: Trail, run: Pass
) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    if inner is None:
        return None
    return transforms.Enumerated(inner, node.start)


@indexed_as(combining.Zip)
def zipped(lowering: Lowering, node: combining.Zip, trail: Trail, run: Pass) -> Indexed | None:
    parts = lowering.indexed_inputs(node, trail, run)
    return None if parts is None else transforms.Zipped(parts)


@indexed_as(combining.Concatenate)
def concatenated(
    lowering: Lowering, node: combining.Concatenate, trail: Trail, run: Pass
) -> Indexed | None:
    parts = lowering.indexed_inputs(node, trail, run)
    return None if parts is None else transforms.Concatenated(*parts)


@runs_as(combining.Enumerate)
def enumerate_stage(
    lowering: Lowering, node: combining.Enumerate, trail: Trail, run: Pass
) -> Stage:
    return EnumerateStage(lowering.input(node, trail, run, ragged=True), node.start)


@runs_as(combining.Zip)
def zip_stage(lowering: Lowering, node: combining.Zip, trail: Trail, run: Pass) -> Stage:
    return ZipStage(_inputs(lowering, node, trail, run))


@runs_as(combining.Concatenate)
def concatenate(lowering: Lowering, node: combining.Concatenate, trail: Trail, run: Pass) -> Stage:
    return ConcatenateStage(_inputs(lowering, node, trail, run))


def _inputs(lowering: Lowering, node: Node, trail: Trail, run: Pass) -> list[Stage]:
    return [lowering.input(node, trail, run, i, ragged=True) for i in range(len(node.inputs))]
