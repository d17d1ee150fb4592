"""A step of training: its loss, its gradients, and how weights come to their next values.

Under a strategy that reduces gradients, the optimizer does; `independent` replicas have weights of
their own and exchange nothing; a `delayed` step applies the gradients of the step before, so that
they travel while this step computes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
from keras import ops

import drumline as dl

GRADIENTS = "gradients"
"""The name of a step's gradients among its results, where they were asked for."""


@dataclasses.dataclass(frozen=True)
class LossOptions:
    """What a loss is made of.

    Attributes:
        batch_size: the rows of all replicas' batches together.
        weight_decay: the factor of the weights' squares, of which each counts half; those of batch
            normalization do not count.
        loss_scale: gradients are computed of the loss times this, and divided by it, so that
            float16 holds them.
        accuracies: whether top-1 and top-5 are computed as well.
        travels_in: the dtype in which gradients are summed; None for their own.
    """

    batch_size: int
    weight_decay: float = 0.0
    loss_scale: float = 1.0
    accuracies: bool = False
    travels_in: str | None = None


def report_of(logits: Any, labels: Any, batch_size: int) -> dict[str, Any]:
    """This replica's shares of top-1 and top-5 of the batch: their sums over replicas count."""
    top = min(5, logits.shape[-1])
    shares = {"top_1_accuracy": 1, "top_5_accuracy": top}
    return {
        name: ops.sum(ops.cast(ops.in_top_k(labels, logits, k), "float32")) / batch_size
        for name, k in shares.items()
    }


def decayed_weights(model: keras.Model) -> list[int]:
    """The places among a model's trained weights of those that weight decay is for.

    They are all but batch normalization's, as the original's ``filter_l2_loss_vars`` has it.
    """
    normalizing = {
        id(weight)
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
        for weight in layer.trainable_variables
    }
    weights = model.trainable_variables
    return [place for place, weight in enumerate(weights) if id(weight) not in normalizing]


class TrainingStep:
    """One step on a batch, for `strategy.run`'s replicas.

    Args:
        strategy: its replicas each take their part of a batch.
        model: from images to logits.
        optimizer: applies gradients; None where nothing is trained.
        options: see `LossOptions`.
        independent: replicas have weights of their own, which start alike, and exchange nothing.
        delayed: apply the gradients of the step before.
    """

    def __init__(
        self,
        strategy: dl.distribute.Strategy,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer | None,
        options: LossOptions,
        *,
        independent: bool = False,
        delayed: bool = False,
    ) -> None:
        self.strategy = strategy
        self.model = model
        self._optimizer = optimizer
        self._options = options
        self._replicas = strategy.num_replicas_in_sync
        self._run: Callable[..., tuple[Sequence[Any], dict[str, Any]]] = self._forward
        self._programs: dict[Any, Callable[..., dict[str, Any]]] = {}
        self._independent: _IndependentWeights | None = None
        self._pending: list[dl.Variable] = []
        self._decayed = decayed_weights(model)
        if optimizer is None:
            return
        with strategy.scope():
            optimizer.build(model.trainable_variables)
            if independent:
                self._independent = _IndependentWeights(model, optimizer)
            if delayed:
                self._pending = [
                    _own(jnp.zeros(variable.shape, options.travels_in or variable.dtype))
                    for variable in model.trainable_variables
                ]
        if independent:
            self._run = self._train_independently
        elif delayed:
            self._run = self._fill
        else:
            self._run = self._train

    def __call__(self, batch: Sequence[Any], with_gradients: bool = False) -> dict[str, Any]:
        """Run a step.

        Args:
            batch: images and labels, of each replica.
            with_gradients: return them as well; that is a program of its own.

        Returns:
            Each replica's shares of what is reported, which `report` sums (losses, accuracies
            where asked for, and the loss scale where there is one), and of the gradients that this
            step computes, which `gradients` sums.
        """
        results = self.strategy.run(self._program(with_gradients), args=tuple(batch))
        if self._run == self._fill:
            self._run = self._train_delayed
        return dict(results)

    def _program(self, with_gradients: bool) -> Callable[..., dict[str, Any]]:
        """Return what a replica runs now; the same function for the same step."""
        run = self._run

        def program(images: Any, labels: Any) -> dict[str, Any]:
            gradients, report = run(images, labels)
            return report | ({GRADIENTS: gradients} if with_gradients else {})

        return self._programs.setdefault((run, with_gradients), program)

    def wait(self, results: dict[str, Any]) -> None:
        """Wait for a step's end."""
        jax.block_until_ready(results)

    def barrier(self) -> None:
        """Wait for all processes to come here."""
        self.strategy.barrier()

    def close(self) -> None:
        """End what the steps began beyond this process: nothing."""

    def report(self, results: dict[str, Any]) -> dict[str, float]:
        """Sum the replicas' shares, and wait for them."""
        return {
            name: float(self.strategy.reduce("SUM", value))
            for name, value in results.items()
            if name != GRADIENTS
        }

    def gradients(self, results: dict[str, Any]) -> list[Any]:
        """Return the gradients of a step's batch, one for each trained weight.

        Of independent replicas they are the first's.
        """
        parts = results[GRADIENTS]
        if self._independent is not None:
            return [self.strategy.experimental_local_results(part)[0] for part in parts]
        return list(self.strategy.reduce("SUM", parts))

    def collect(self) -> None:
        """Give the model the weights of the first of independent replicas."""
        if self._independent is not None:
            self._independent.collect()

    def _forward(self, images: Any, labels: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        logits = self.model(images, training=False)
        report = report_of(logits, labels, self._options.batch_size)
        return (), {"total_loss": jnp.zeros(()), "base_loss": jnp.zeros(())} | report

    def _train(self, images: Any, labels: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        gradients, report = self._gradients(images, labels)
        shown = self._shown(gradients)
        self._apply(gradients)
        return shown, report

    def _fill(self, images: Any, labels: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """The first delayed step, which has no gradients to apply yet."""
        gradients, report = self._gradients(images, labels)
        for pending, gradient in zip(self._pending, gradients, strict=True):
            pending.assign(gradient)
        return self._shown(gradients), report

    def _train_delayed(self, images: Any, labels: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        gradients, report = self._gradients(images, labels)
        due = [pending.value for pending in self._pending]
        for pending, gradient in zip(self._pending, gradients, strict=True):
            pending.assign(gradient)
        shown = self._shown(gradients)
        self._apply(due)
        return shown, report

    def _gradients(self, images: Any, labels: Any) -> tuple[list[Any], dict[str, Any]]:
        weights = self.model.trainable_variables
        with dl.GradientTape() as tape:
            logits = self.model(images, training=True)
            scaled, report = self._loss(logits, labels, [v.value for v in weights])
        gradients = tape.gradient(scaled, weights)
        return [self._unscaled(gradient) for gradient in gradients], report

    def _apply(self, gradients: Sequence[Any]) -> None:
        assert self._optimizer is not None
        self._optimizer.apply(gradients, self.model.trainable_variables)

    def _train_independently(
        self, images: Any, labels: Any
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        own = self._independent
        assert own is not None and self._optimizer is not None

        trainable, others, slots = own.values()
        weights, kept = self.model.trainable_variables, self._optimizer.variables

        def loss(trainable: list[Any], others: list[Any]) -> tuple[Any, Any]:
            logits, others = self.model.stateless_call(trainable, others, images, training=True)
            # Each replica is alone: its loss is the mean over its own rows, and a loss scale that
            # changes is its own as well.
            with keras.StatelessScope(state_mapping=list(zip(kept, slots, strict=True))):
                scaled, report = self._loss(logits, labels, trainable)
            return scaled * self._replicas, (report, others)

        (_, (report, others)), gradients = jax.value_and_grad(loss, has_aux=True)(trainable, others)
        values = zip([*weights, *kept], [*trainable, *slots], strict=True)
        gradients = [self._unscaled(gradient) for gradient in gradients]
        pairs = zip(gradients, weights, strict=True)
        with keras.StatelessScope(state_mapping=list(values)) as scope:
            shown = self._shown(gradients)
            self._optimizer.apply_gradients(list(pairs), skip_gradients_aggregation=True)
        own.assign(
            [scope.get_current_value(variable) for variable in weights],
            others,
            [scope.get_current_value(variable) for variable in kept],
        )
        return shown, report

    def _loss(self, logits: Any, labels: Any, weights: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
        """This replica's share of the batch's loss, scaled; and what is reported."""
        options = self._options
        base = ops.sum(_cross_entropy(logits, labels)) / options.batch_size
        total = base
        if options.weight_decay:
            decayed = [weights[place] for place in self._decayed]
            squares = sum(ops.sum(ops.square(ops.cast(w, "float32"))) for w in decayed)
            total = base + options.weight_decay * squares / 2 / self._replicas
        report = {"total_loss": total, "base_loss": base}
        if options.accuracies:
            report |= report_of(logits, labels, options.batch_size)
        scaled = total * options.loss_scale
        scales = {"loss_scale": options.loss_scale} if options.loss_scale != 1 else {}
        if isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer):
            scaled = self._optimizer.scale_loss(total)
            scales = {
                "loss_scale": self._optimizer.scale_loss(jnp.ones(())),
                "loss_scale_normal_steps": self._optimizer.step_counter.value,
            }
        report |= {
            name: jnp.asarray(value, "float32") / self._replicas for name, value in scales.items()
        }
        return scaled, jax.lax.stop_gradient(report)

    def _shown(self, gradients: Sequence[Any]) -> list[Any]:
        """Gradients to look at, without the scale that the optimizer has before it applies them."""
        scale: Any = 1
        if isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer):
            scale = self._optimizer.scale_loss(jnp.ones(()))
        return [each.astype("float32") / scale for each in gradients]

    def _unscaled(self, gradient: Any) -> Any:
        options = self._options
        if options.loss_scale != 1:
            gradient = gradient / jnp.asarray(options.loss_scale, gradient.dtype)
        return gradient if options.travels_in is None else gradient.astype(options.travels_in)


def _cross_entropy(logits: Any, labels: Any) -> Any:
    return keras.losses.sparse_categorical_crossentropy(
        labels, ops.cast(logits, "float32"), from_logits=True
    )


def _own(value: Any) -> dl.Variable:
    """A variable of which each replica has its own value; outside of steps it is the first's."""
    return dl.Variable(value, synchronization="ON_READ", aggregation="ONLY_FIRST_REPLICA")


class _IndependentWeights:
    """A model's variables and an optimizer's slots, a value of each for every replica."""

    def __init__(self, model: keras.Model, optimizer: keras.optimizers.Optimizer) -> None:
        self._of_model = [*model.trainable_variables, *model.non_trainable_variables]
        self._trained = len(model.trainable_variables)
        self._own = [_own(variable.value) for variable in self._of_model]
        self._of_optimizer = list(optimizer.variables)
        self._slots = [_own(variable.value) for variable in self._of_optimizer]

    def values(self) -> tuple[list[Any], list[Any], list[Any]]:
        """This replica's trained weights, its other variables and its slots."""
        own = [variable.value for variable in self._own]
        return own[: self._trained], own[self._trained :], [slot.value for slot in self._slots]

    def assign(self, trainable: list[Any], others: list[Any], slots: list[Any]) -> None:
        """Set them, on this replica."""
        for variable, value in zip(
            [*self._own, *self._slots], [*trainable, *others, *slots], strict=True
        ):
            variable.assign(value)

    def collect(self) -> None:
        """Set the model's and the optimizer's to those of the first replica."""
        variables = [*self._of_model, *self._of_optimizer]
        for variable, own in zip(variables, [*self._own, *self._slots], strict=True):
            variable.assign(own.value)
