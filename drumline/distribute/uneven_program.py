"""A step whose replicas have shares of different sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from drumline.distribute.arguments import for_replica, is_apart
from drumline.distribute.lockstep import run_in_turn
from drumline.distribute.outputs import joined, unwrap, wrap
from drumline.distribute.per_replica import PerReplica
from drumline.distribute.replica_scope import has_copies
from drumline.distribute.whole_program import WholeProgram
from drumline.training.bank import Bank
from drumline.training.state_scope import assign_values


class UnevenProgram(WholeProgram):
    """The replicas' steps one after another in one program, which every device computes.

    No replica computes with padding, and the sums over the replicas are those of the shares as
    they are. Replicas without a row take no part: they contribute to no sum and no mean, and
    return nothing. It is meant for the last batch of an epoch.
    """

    _present: tuple[int, ...] | None = None

    def place(self, arrays: Sequence[Any]) -> list[Any]:
        placed: list[Any] = self.strategy.place_everywhere(list(arrays))
        return placed

    def spanning(self) -> None:
        """None: each process computes all of it, on its own devices."""

    def place_read(self, values: list[Any]) -> list[Any]:
        return [self.strategy.known_everywhere(value) for value in values]

    def new_bank(self) -> Bank:
        if not self.strategy.spans_processes:
            return super().new_bank()
        strategy = self.strategy
        return Bank(
            self.written,
            enter=lambda variable, value: strategy.known_everywhere(value),
            leave=lambda variable, value: (
                strategy.place_copies(value) if has_copies(variable) else value
            ),
        )

    def finish(self, outputs: Any) -> Any:
        results = [unwrap(output, lambda leaf: leaf) for output in outputs]
        return joined("the results", results, self._present)

    def call(self, arrays: Sequence[Any]) -> Any:
        calls = calls_of(self.form.arguments(arrays), self.strategy.num_replicas_in_sync)
        self._present = present(calls, self.strategy.num_replicas_in_sync)
        outputs, variables, values = run_in_turn(self.strategy, self.fn, calls, eager=False)
        assign_values(variables, values)
        return [wrap(output, lambda leaf: leaf) for output in outputs]


def present(calls: Mapping[int, Any], replicas: int) -> tuple[int, ...] | None:
    """The numbers of the replicas that take part; None if all do."""
    return None if len(calls) == replicas else tuple(calls)


def calls_of(tree: Any, replicas: int) -> Mapping[int, Any]:
    """The arguments of each replica that has rows, by its number.

    Raises:
        ValueError: if none has.
    """
    nodes = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, PerReplica))
    apart = [node.values for node in nodes if is_apart(node)]
    present = [
        index
        for index in range(replicas)
        if not apart or any(_has_rows(values[index : index + 1]) for values in apart)
    ]
    if not present:
        raise ValueError("The batch given to `run` is empty: no replica has a row of it.")
    return {index: for_replica(tree, index) for index in present}


def _has_rows(values: Sequence[Any]) -> bool:
    return any(not np.shape(value) or np.shape(value)[0] > 0 for value in values)
