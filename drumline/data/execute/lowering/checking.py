"""How operations that look at each element run, and endless numbers."""

from __future__ import annotations

from drumline._core import mix64
from drumline.data.execute.checking_stages import AssertCardinalityStage, IgnoreErrorsStage
from drumline.data.execute.lowering.functions import own_input
from drumline.data.execute.lowering.lower import Lowering
from drumline.data.execute.lowering.rules import Pass, Trail, runs_as
from drumline.data.execute.number_stages import CounterStage, RandomStage
from drumline.data.execute.scan_stage import ScanStage
from drumline.data.execute.stage import Stage
from drumline.data.execute.take_while_stage import TakeWhileStage
from drumline.data.execute.unique_stage import UniqueStage
from drumline.data.plan import checking, numbers, recurring


@runs_as(checking.TakeWhile)
def take_while(lowering: Lowering, node: checking.TakeWhile, trail: Trail, run: Pass) -> Stage:
    source = own_input(lowering, node, trail, run)
    return TakeWhileStage(source, node.function.run)


@runs_as(checking.Unique)
def unique(lowering: Lowering, node: checking.Unique, trail: Trail, run: Pass) -> Stage:
    return UniqueStage(lowering.input(node, trail, run))


@runs_as(checking.IgnoreErrors)
def ignore(lowering: Lowering, node: checking.IgnoreErrors, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=True)
    return IgnoreErrorsStage(source, node.count, node.log_warning)


@runs_as(checking.AssertCardinality)
def expected(
    lowering: Lowering, node: checking.AssertCardinality, trail: Trail, run: Pass
) -> Stage:
    source = lowering.input(node, trail, run, ragged=True)
    return AssertCardinalityStage(source, node.expected, node.spec)


@runs_as(recurring.Scan)
def scan(lowering: Lowering, node: recurring.Scan, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=node.function.is_python)
    return ScanStage(source, node.function.start())


@runs_as(numbers.Counter)
def counter(lowering: Lowering, node: numbers.Counter, trail: Trail, run: Pass) -> Stage:
    return CounterStage(node.start, node.step, node.dtype)


@runs_as(numbers.Random)
def random(lowering: Lowering, node: numbers.Random, trail: Trail, run: Pass) -> Stage:
    key = mix64(node.seed, 0)
    for part in run if node.rerandomize else ():
        key = mix64(key, part)
    return RandomStage(key)
