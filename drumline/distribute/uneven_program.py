"""A step whose replicas have shares of different sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from drumline.distribute.arguments import stack_if_alike, taking_part
from drumline.distribute.compiled_step import WholeProgram
from drumline.distribute.eager_replicas import run_replicas_sequentially
from drumline.distribute.replica_scope import has_copies
from drumline.distribute.step_outputs import joined, unwrap, wrap
from drumline.training.state_scope import assign_values
from drumline.training.variable_buffer import VariableBuffer


class UnevenProgram(WholeProgram):
    """The replicas' steps one after another in one program, which every device computes.

    No replica computes with padding, and the sums over the replicas are those of the shares as
    they are. Replicas without a row take no part: they contribute to no sum and no mean, and
    return nothing, but follow (`run_replicas_sequentially`). It is meant for the last batch of an
    epoch.
    """

    def place(self, arrays: Sequence[Any]) -> list[Any]:
        known = map(self.strategy._arrays.known_everywhere, arrays)
        placed: list[Any] = self.strategy._arrays.place_everywhere(list(known))
        return placed

    def spanning(self) -> None:
        """None: each process computes all of it, on its own devices."""

    def place_read(self, values: list[Any]) -> list[Any]:
        return [self.strategy._arrays.known_everywhere(value) for value in values]

    def new_bank(self) -> VariableBuffer:
        if not self.strategy.spans_processes:
            return super().new_bank()
        strategy = self.strategy
        return VariableBuffer(
            self.written,
            enter=lambda variable, value: strategy._arrays.known_everywhere(value),
            leave=lambda variable, value: (
                strategy._arrays.place_copies(value) if has_copies(variable) else value
            ),
        )

    def finish(self, outputs: _Results) -> Any:
        results = {n: unwrap(tree, _itself) for n, tree in outputs.results.items()}
        carried = {n: unwrap(tree, _itself) for n, tree in outputs.carried.items()}
        replicas = self.strategy.num_replicas_in_sync
        numbers = None if len(results) == replicas else tuple(results)
        together = joined("the results", list(results.values()), numbers, carried, outputs.unknown)
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(together))
        if self.strategy.spans_processes and not traced:
            return together
        return stack_if_alike(together, self.strategy._arrays.stack, replicas)

    def call(self, arrays: Sequence[Any]) -> Any:
        tree = self.form.arguments(arrays)
        present = taking_part(tree, self.strategy.num_replicas_in_sync)
        outcome = run_replicas_sequentially(self.strategy, self.fn, tree, present, eager=False)
        assign_values(outcome.variables, outcome.values)
        return _Results(
            {number: wrap(tree, _itself) for number, tree in outcome.results.items()},
            {number: wrap(tree, _itself) for number, tree in outcome.carried.items()},
            outcome.unknown,
        )


@jax.tree_util.register_pytree_node_class
@dataclass
class _Results:
    """What the replicas return, on its way out of the program: whose it is depends on the shapes
    that it was traced for.
    """

    results: dict[int, Any]
    carried: dict[int, Any]
    unknown: str

    def tree_flatten(self) -> tuple[tuple[Any, ...], str]:
        return (self.results, self.carried), self.unknown

    @classmethod
    def tree_unflatten(cls, unknown: str, children: Sequence[Any]) -> _Results:
        results, carried = children
        return cls(results, carried, unknown)


def _itself(leaf: Any) -> Any:
    return leaf
