"""How elements are drawn from several datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline._core import mix64
from drumline.data.execute.choices import Choices, Read, Weighted, WeightedAnew
from drumline.data.execute.choose_stage import ChooseStage
from drumline.data.execute.class_stages import OriginalShareStage, Shares, ThinStage
from drumline.data.execute.stage import Stage
from drumline.data.operations.choose import Choose, OriginalShare, Sample, Thin
from drumline.data.plan.node import Pass, Trail

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


_DRAWING = 0x53414D504C45
"""Tells the draws of these operations from shuffles of the same seed."""


def lower_sample(lowering: Lowering, node: Sample, trail: Trail, run: Pass) -> Stage:
    key = _key(node.seed, run if node.rerandomize else ())
    stages = [lowering.input(node, trail, run, i) for i in range(len(node.inputs))]
    choices: Choices
    if node.weights is None:
        choices = WeightedAnew(stages.pop(), key)
    else:
        choices = Weighted(node.weights, key)
    return ChooseStage(choices, stages, node.stop_on_empty, node.spec, lowering.pool, node.name)


def lower_choose(lowering: Lowering, node: Choose, trail: Trail, run: Pass) -> Stage:
    first, *others = (lowering.input(node, trail, run, i) for i in range(len(node.inputs)))
    return ChooseStage(Read(first), others, node.stop_on_empty, node.spec, lowering.pool, node.name)


def lower_thin(lowering: Lowering, node: Thin, trail: Trail, run: Pass) -> Stage:
    shares = Shares(node.target, node.initial)
    return ThinStage(lowering.input(node, trail, run), shares, _key(node.seed, (0, *run)))


def lower_original_share(lowering: Lowering, node: OriginalShare, trail: Trail, run: Pass) -> Stage:
    return OriginalShareStage(lowering.input(node, trail, run), Shares(node.target, node.initial))


def _key(seed: int, run: Pass) -> int:
    key = mix64(seed, _DRAWING)
    for part in run:
        key = mix64(key, part)
    return key
