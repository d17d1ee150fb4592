"""How functions get the keys they draw by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumline._core import mix64
from drumline.data.execute.indexed import Indexed
from drumline.data.execute.numbering_stages import RandomKeysStage
from drumline.data.execute.random_keys import Keyed
from drumline.data.execute.stage import Stage
from drumline.data.operations.numbering import RandomKeys
from drumline.data.plan.node import Pass, Trail

if TYPE_CHECKING:
    from drumline.data.execute.lowering.lower import Lowering


def index_random_keys(
    lowering: Lowering, node: RandomKeys, trail: Trail, run: Pass
) -> Indexed | None:
    inner = lowering.indexed_input(node, trail, run)
    return None if inner is None else Keyed(inner, _keys(lowering, node, trail, run))


def lower_random_keys(lowering: Lowering, node: RandomKeys, trail: Trail, run: Pass) -> Stage:
    source = lowering.input(node, trail, run, ragged=True, varying=True)
    return RandomKeysStage(source, _keys(lowering, node, trail, run))


def _keys(lowering: Lowering, node: RandomKeys, trail: Trail, run: Pass) -> tuple[int, int]:
    """Without the operation's seed, for draws that are given another, and with it."""
    key = lowering.occurrences[trail]
    for part in run:
        key = mix64(key, part)
    return key, mix64(node.seed, key)
