"""How operations that look at each element run, and endless numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline.data.execute.checking_stages import AssertCardinalityStage, IgnoreErrorsStage
from drumline.data.execute.lowering.functions import own_input
from drumline.data.execute.scan_stage import ScanStage
from drumline.data.execute.stage import Stage
from drumline.data.execute.take_while_stage import TakeWhileStage
from drumline.data.execute.unique_stage import UniqueStage
from drumline.data.operations.checks import AssertCardinality, IgnoreErrors, TakeWhile, Unique
from drumline.data.plan.node import Pass, Trail
from drumline.data.plan.recurring import Scan

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


def lower_take_while(lowering: Lowering, node: TakeWhile, trail: Trail, run: Pass) -> Stage:
    source = own_input(lowering, node, trail, run)
    return TakeWhileStage(source, node.function.run)


def lower_unique(lowering: Lowering, node: Unique, trail: Trail, run: Pass) -> Stage:
    return UniqueStage(lowering.input(node, trail, run))


def lower_ignore_errors(lowering: Lowering, node: IgnoreErrors, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=True)
    return IgnoreErrorsStage(source, node.count, node.log_warning)


def lower_assert_cardinality(
    lowering: Lowering, node: AssertCardinality, trail: Trail, run: Pass
) -> Stage:
    source = lowering.input(node, trail, run, ragged=True)
    return AssertCardinalityStage(source, node.expected, node.spec)


def lower_scan(lowering: Lowering, node: Scan, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=node.function.is_python)
    return ScanStage(source, node.function.start())
