"""A training step over replicas."""

from __future__ import annotations

import logging
from typing import Any

import jax
import keras
from jax.sharding import PartitionSpec

from drumline.distribute import Strategy
from drumline.distribute.cross_device_ops.channels import First, Numbered, numbering
from drumline.distribute.strategy import REPLICA_AXIS
from drumline.keras.agreement import disagreement, require_agreement
from drumline.keras.losses import global_loss
from drumline.keras.non_trainables import merge_non_trainables
from drumline.keras.overrides import overrides
from drumline.keras.step.batch_sharding import UnevenReporter, splits_evenly
from drumline.keras.step.evaluate_step import WholeStep
from drumline.keras.step.gradients import averaged_gradients, overwrites
from drumline.keras.step.losses_and_metrics import ReplicaMetrics
from drumline.keras.step.replica_trace import NeedsWholeBatch, tracing
from drumline.training.jax_internals import current_trace, is_staged

_log = logging.getLogger("drumline")


class TrainStep:
    """Runs a model's ``train_step`` on a global batch.

    A batch that splits evenly is cut over the replicas and Keras's own step runs on each. A batch
    that does not split, and a step that must see whole batches to give the same numbers (a user's
    own ``train_step``, losses added on activations, float8, whose scales follow the largest
    gradients of the batch's mean loss), goes through `WholeStep`.
    """

    def __init__(self, model: keras.Model, strategy: Strategy) -> None:
        self._model = model
        self._strategy = strategy
        self._uneven = UnevenReporter(strategy.num_replicas_in_sync)
        self._whole = WholeStep(model.train_step, strategy)
        self._per_replica = self._compile(First())
        self._per_replica_inside = self._compile(None)
        self._must_see_whole = overrides(
            model, "train_step", "compute_loss_and_updates", "_update_metrics_variables"
        ) or any(overwrites(variable) for variable in model.trainable_variables)

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """Return the logs and the new state, which lie alike on every replica."""
        if not splits_evenly(batch, self._strategy.num_replicas_in_sync):
            self._uneven.saw_uneven(batch)
            return self._whole(state, batch)
        self._uneven.saw_even()
        if self._must_see_whole:
            return self._whole(state, batch)
        try:
            alone = not is_staged(current_trace())
            step = self._per_replica if alone else self._per_replica_inside
            logs, state, differs = step(state, batch)
        except NeedsWholeBatch as reason:
            _log.info("%s: %s", self._model.name, reason)
            self._must_see_whole = True
            return self._whole(state, batch)
        if differs is not None:
            self._require_agreement(state, differs)
        return logs, state

    def _compile(self, first: First | None) -> Any:
        whole, cut = PartitionSpec(), PartitionSpec(REPLICA_AXIS)
        body = jax.shard_map(
            self._replica_step,
            mesh=self._strategy.mesh,
            in_specs=(whole, cut),
            out_specs=whole,
            check_vma=False,
        )
        placed = self._strategy.program_sharding

        def train_step(state: Any, batch: Any) -> Any:
            return body(state, batch)

        return jax.jit(
            Numbered(train_step, first),
            donate_argnums=0,
            in_shardings=(placed, self._strategy.batch_sharding),
            out_shardings=placed,
        )

    def _replica_step(self, state: Any, batch: Any) -> Any:
        model = self._model
        with numbering(), tracing(self._strategy) as trace:
            metrics = ReplicaMetrics(model, trace)
            trainables, before, optimizer, old_metrics = state
            with (
                global_loss(model, trace),
                metrics.updated_globally(),
                averaged_gradients(model, trace),
            ):
                logs, (trainables, after, optimizer, new_metrics) = model.train_step(
                    (trainables, before, optimizer, metrics.start(old_metrics)), batch
                )
            variables = model.non_trainable_variables
            after = merge_non_trainables(trace, variables, before, after)
            new_metrics = metrics.merge(new_metrics)
            logs = metrics.logs(logs, new_metrics)
        state = (trainables, after, optimizer, new_metrics)
        if not self._strategy.check_agreement:
            return logs, state, None
        return logs, state, disagreement(jax.tree.leaves(state))

    def _require_agreement(self, state: Any, differs: jax.Array) -> None:
        model = self._model
        groups = (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
        names = (
            "trainable_variables",
            "non_trainable_variables",
            "optimizer_variables",
            "metrics_variables",
        )
        model._jax_state = dict(zip(names, state, strict=True))
        require_agreement(differs, [variable.path for group in groups for variable in group])
