"""Steps of ``evaluate`` and ``predict`` of a model whose weights live on another device."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import keras

from drumline.distribute import Strategy
from drumline.distribute.replica import whole_batch
from drumline.distribute.step.central_programs import CentralPrograms
from drumline.distribute.step.looked_up_rows import StepForm
from drumline.keras.state import state_variables
from drumline.keras.step.train_step import GlobalBatchStep, splits_evenly
from drumline.training.jax_internals import current_trace, is_staged
from drumline.training.outbox import WithParcels, collecting

_log = logging.getLogger("drumline")


class WritesWeights(BaseException):
    """The step leaves other weights than it was given.

    Raised while a step is traced and caught by the step, as `NeedsGlobalBatch`.
    """


class CentralGlobalBatchStep(GlobalBatchStep):
    """A `GlobalBatchStep` of a state whose trainable variables lie where variables live.

    Copies of those that it reads stay on the replicas' devices from batch to batch. A table from
    which it looks rows up, and nothing else, is not copied: the rows of each batch are.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        model: keras.Model,
        groups: Sequence[str],
        strategy: Strategy,
        *,
        sharded_outputs: bool = False,
    ) -> None:
        super().__init__(step, model, groups, strategy, sharded_outputs=sharded_outputs)
        self._programs = CentralPrograms(strategy, lambda: model.name, keeps_copies=True)
        self._writes = False

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """Return the outputs `WithParcels`, and the new state, which lies as the old one did."""
        if is_staged(current_trace()):
            return super().__call__(state, batch)
        if not self._writes:
            try:
                return self._of_weights_at_home(state, batch)
            except WritesWeights:
                _log.warning(
                    "%s: all weights are copied to each compute device in each step of `evaluate` "
                    "or `predict`, because it changes weights",
                    self._model.name,
                )
                self._writes = True
        arrays = self._strategy._arrays
        weights = state_variables(self._model, self._groups)[0]
        copies = list(map(arrays.for_program, state[0]))
        results, new = super().__call__((copies, *state[1:]), batch)
        trainables = [arrays.from_program(*each) for each in zip(new[0], weights, strict=True)]
        return results, (trainables, *new[1:])

    def _of_weights_at_home(self, state: Any, batch: Any) -> tuple[Any, Any]:
        placed = self._strategy._arrays.program_sharding
        even = splits_evenly(batch, self._strategy.num_replicas_in_sync)

        def step(state: Any, batch: Any) -> Any:
            with whole_batch(self._strategy), collecting() as outbox:
                results, after = self._step(state, batch)
                for new, old in zip(after[0], state[0], strict=True):
                    if new is not old:
                        raise WritesWeights
                return results, after[1:], outbox.parcels(placed)

        def form() -> StepForm:
            by_rows = self._strategy.batch_sharding if even else placed
            return StepForm(
                self._strategy,
                lambda _: step,
                (state, batch),
                self._model.trainable_variables,
                (placed, by_rows),
                (None if self._leave_sharded else placed, placed, placed),
                on_replicas=False,
                has_gradients=False,
            )

        (results, after, parcels), _ = self._programs.compute(even, (state, batch), form)
        return WithParcels(results, parcels), (state[0], *after)
