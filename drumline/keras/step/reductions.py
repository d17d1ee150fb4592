"""Losses, metrics and gradients in a per-replica step, with the values of one device.

`ReplicaTrace` is the state of one trace of such a step, for the hooks that act while it runs.

A loss that is the mean of its values over equal shards is computed per shard; for any other, the
predictions are gathered and every replica computes the loss of the global batch. Likewise a metric
that adds up over rows is updated with the replica's rows and its state summed; any other is updated
on every replica with the global batch: it need not add up, nor say how it does.

Neither helps where a model's outputs themselves look across rows, as scores of every row with every
other do. They are known by their shapes, and such a step is given the whole batch.

Gradients are reduced over the replicas once, before an optimizer applies them.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras

from drumline.distribute import ReduceOp, ReplicaContext, Strategy
from drumline.distribute.replica import enter_replica_context, running_replica, whole_batch
from drumline.keras import internals
from drumline.keras.internals import overrides, shadowed
from drumline.training.optimizer_hooks import gradient_marks, update_interceptor

_current: contextvars.ContextVar[ReplicaTrace | None] = contextvars.ContextVar(
    "drumline_replica_trace", default=None
)


class NeedsGlobalBatch(BaseException):
    """The step cannot be cut over the replicas with the same numbers; it must see whole batches.

    Raised while a step is traced and caught by the step. Not an ``Exception``, so that neither
    Keras nor a user's handler rewrites or swallows it on its way.
    """


class ReplicaTrace:
    """One trace of a step that runs per replica.

    Attributes:
        context: the replica's context.
        local: whether arrays hold this replica's share; False where they were gathered.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.context = ReplicaContext(strategy)
        self.local = True
        self._alike: set[int] = set()
        self._differing: set[int] = set()

    def wrote(self, variable: Any, *, alike: bool) -> None:
        """Note that the step writes `variable`, and whether the same on all replicas."""
        (self._alike if alike else self._differing).add(id(variable))

    def may_differ(self, variable: Any) -> bool:
        """Whether something was written to `variable` that may differ from replica to replica."""
        return id(variable) in self._differing

    def wrote_alike(self, variable: Any) -> bool:
        """Whether all that was written to `variable` is the same on all replicas."""
        return id(variable) in self._alike and not self.may_differ(variable)

    @contextlib.contextmanager
    def on_global_batch(self) -> Iterator[None]:
        """Within the block arrays hold the global batch, on every replica alike."""
        before, self.local = self.local, False
        try:
            yield
        finally:
            self.local = before


def current_trace() -> ReplicaTrace | None:
    """The trace of a per-replica step that is running; None outside of one."""
    return _current.get()


@contextlib.contextmanager
def tracing(strategy: Strategy) -> Iterator[ReplicaTrace]:
    """Trace a step of `strategy`'s replicas within the block."""
    trace = ReplicaTrace(strategy)
    token = _current.set(trace)
    try:
        with enter_replica_context(trace.context):
            yield trace
    finally:
        _current.reset(token)


def gather_batch(trace: ReplicaTrace, tree: Any) -> Any:
    """Concatenate every array of a tree over the replicas, along its first dimension.

    Scalars, None and Python numbers stay as they are. A Keras mask is gathered with its array.
    """
    return keras.tree.map_structure(lambda leaf: _gather_leaf(trace, leaf), tree)


def _gather_leaf(trace: ReplicaTrace, leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array) or leaf.ndim == 0:
        return leaf
    whole = trace.context.all_gather(leaf)
    mask = internals.get_keras_mask(leaf)
    if mask is not None:
        internals.set_keras_mask(whole, trace.context.all_gather(mask))
    return whole


ROWWISE = frozenset(
    {
        "binary_crossentropy",
        "binary_focal_crossentropy",
        "categorical_crossentropy",
        "categorical_focal_crossentropy",
        "categorical_generalized_cross_entropy",
        "categorical_hinge",
        "ctc",
        "hinge",
        "huber",
        "kl_divergence",
        "log_cosh",
        "mean_absolute_error",
        "mean_absolute_percentage_error",
        "mean_squared_error",
        "mean_squared_logarithmic_error",
        "poisson",
        "sparse_categorical_crossentropy",
        "squared_hinge",
    }
)
"""Keras's losses whose value for a row depends on that row alone."""


def is_rowwise(fn: Any, kwargs: dict[str, Any]) -> bool:
    """Whether `fn` is one of Keras's losses and computes each row from that row alone."""
    return (
        getattr(fn, "__module__", "") == "keras.src.losses.losses"
        and fn.__name__ in ROWWISE
        and kwargs.get("axis", -1) == -1
        and kwargs.get("ignore_class") is None
    )


def is_mean_of_shares(model: keras.Model, y_pred: Any) -> bool:
    """Whether the model's loss over a batch is the mean of its losses over equal shares of it.

    True only for what is known: Keras's own losses that compute row by row and average over the
    batch, without a mask. Averages over valid or weighted entries, sums and everything a user
    wrote are not known to be.
    """
    container = model._compile_loss
    if container is None:
        return True
    if not container.built:
        return False
    if not all(_has_rows(leaf) for leaf in keras.tree.flatten(y_pred)):
        return False
    return all(_averages_rows(part.loss) for part in container._flat_losses)


def _has_rows(y_pred: Any) -> bool:
    return y_pred.ndim >= 2 and internals.get_keras_mask(y_pred) is None


def _averages_rows(loss: Any) -> bool:
    if not isinstance(loss, internals.LossFunctionWrapper):
        return False
    if not type(loss).__module__.startswith("keras.src.losses"):
        return False
    mean = loss.reduction in ("sum_over_batch_size", "mean")
    return mean and is_rowwise(loss.fn, loss._fn_kwargs)


def whole_batch_outputs(model: keras.Model, strategy: Strategy, state: Any, batch: Any) -> Any:
    """Return the shapes and dtypes of the model's outputs for the whole batch, in their structure.

    Nothing is computed, and no variable or seed changes. None where the outputs cannot be had, as
    where the model takes only batches of a share's size.

    Args:
        model: the model, built.
        strategy: whose replicas the batch is for.
        state: that of Keras's training step, which begins with the values of the trainable and the
            non-trainable variables; only shapes and dtypes are read.
        batch: the global batch, likewise.
    """

    def outputs(trainables: Any, non_trainables: Any, x: Any) -> Any:
        training = {"training": True} if model._call_has_training_arg else {}
        return model.stateless_call(trainables, non_trainables, x, **training)[0]

    x, *_ = keras.utils.unpack_x_y_sample_weight(batch)
    try:
        with whole_batch(strategy):
            return jax.eval_shape(outputs, *state[:2], x)
    except Exception:  # what is wrong with the model is said where its step is traced
        return None


def require_shares_of(whole: Any, y_pred: Any, replicas: int) -> None:
    """Check that a replica's outputs are its share of the rows of the whole batch's outputs.

    Args:
        whole: what `whole_batch_outputs` returned.
        y_pred: the replica's outputs.
        replicas: how many replicas there are.

    Raises:
        NeedsGlobalBatch: naming the first output that is no share, with its shapes.
    """
    if whole is None:
        return
    shares = jax.tree.leaves(y_pred)
    for (path, spec), share in zip(jax.tree.leaves_with_path(whole), shares, strict=False):
        if not isinstance(share, jax.Array):
            continue
        if share.ndim == 0 or spec.shape != (replicas * share.shape[0], *share.shape[1:]):
            raise NeedsGlobalBatch(
                f"output{jax.tree_util.keystr(path)} has the shape {spec.shape} for the whole "
                f"batch and {share.shape} for the share of one of {replicas} replicas, so it is "
                "not computed row by row, and the step is partitioned over the replicas by the "
                "compiler, not run once on each. To run it on each, gather the other rows in the "
                "layer's call: `get_replica_context().all_gather`"
            )


@contextlib.contextmanager
def global_loss(model: keras.Model, trace: ReplicaTrace, whole: Any) -> Iterator[None]:
    """Within the block the model's loss is that of the global batch, if a share's is not enough.

    A loss that is the mean of the shares' losses is left alone: the mean of its gradients is the
    gradient. For any other the predictions, targets, inputs and weights are gathered and every
    replica computes the loss of the global batch. The gradient of a gather is a sum over the
    replicas, so that the mean over the replicas is again the gradient.

    Args:
        model: the model.
        trace: that of the replica's step.
        whole: what `whole_batch_outputs` returned.

    Raises:
        NeedsGlobalBatch: when a loss is computed of outputs that look across rows.
    """
    compute = model._compute_loss
    custom = overrides(model, "compute_loss", "_compute_loss", "stateless_compute_loss")

    def compute_loss(
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        require_shares_of(whole, y_pred, trace.context.num_replicas_in_sync)
        if not custom and is_mean_of_shares(model, y_pred):
            return compute(x, y, y_pred, sample_weight, training)
        batch = gather_batch(trace, (x, y, y_pred, sample_weight))
        with trace.on_global_batch():
            return compute(*batch, training)

    with shadowed(model, "_compute_loss", compute_loss):
        yield


_ROWWISE_WRAPPERS = (
    keras.metrics.Accuracy,
    keras.metrics.BinaryAccuracy,
    keras.metrics.CategoricalAccuracy,
    keras.metrics.SparseCategoricalAccuracy,
    keras.metrics.TopKCategoricalAccuracy,
    keras.metrics.SparseTopKCategoricalAccuracy,
)
_ADDITIVE = (
    *_ROWWISE_WRAPPERS,
    keras.metrics.AUC,
    keras.metrics.FalseNegatives,
    keras.metrics.FalsePositives,
    keras.metrics.MeanIoU,
    keras.metrics.Precision,
    keras.metrics.Recall,
    keras.metrics.TrueNegatives,
    keras.metrics.TruePositives,
)


def adds_up(metric: keras.Metric) -> bool:
    """Whether the metric's state over a batch is known to be the sum of those over its rows."""
    if "update_state" in vars(metric):
        return False
    if type(metric) is keras.metrics.MeanMetricWrapper:
        return is_rowwise(metric._fn, metric._fn_kwargs)
    return type(metric) in _ADDITIVE


class ReplicaMetrics:
    """The metrics of a model in one trace of a per-replica step."""

    def __init__(self, model: keras.Model, trace: ReplicaTrace) -> None:
        self._model = model
        self._trace = trace
        self._summed = {id(v) for metric in self._additive() for v in metric.variables}

    def _additive(self) -> list[keras.Metric]:
        container = self._model._compile_metrics
        if container is None or overrides(self._model, "compute_metrics"):
            return []
        return [metric for metric in container.metrics if adds_up(metric)]

    def start(self, values: Sequence[jax.Array]) -> list[jax.Array]:
        """The state from which this replica updates: for a sum, replica 0 carries the old one."""
        first = self._trace.context.replica_id_in_sync_group == 0
        return [
            jnp.where(first, value, jnp.zeros_like(value)) if self._is_summed(variable) else value
            for variable, value in zip(self._model.metrics_variables, values, strict=True)
        ]

    def merge(self, values: Sequence[jax.Array]) -> list[jax.Array]:
        """The state after the step, alike on every replica."""
        merged = list(values)
        summed = [
            index
            for index, variable in enumerate(self._model.metrics_variables)
            if self._is_summed(variable)
        ]
        totals = self._trace.context.all_reduce(ReduceOp.SUM, [merged[i] for i in summed])
        for index, total in zip(summed, totals, strict=True):
            merged[index] = total
        return merged

    def logs(self, logs: Any, values: Sequence[jax.Array]) -> Any:
        """The step's logs, with the results of summed metrics taken from the merged state."""
        if not self._summed or not isinstance(logs, dict):
            return logs
        mapping = list(zip(self._model.metrics_variables, values, strict=True))
        with internals.StatelessScope(state_mapping=mapping):
            results = self._model.get_metrics_result()
        return {name: results.get(name, value) for name, value in logs.items()}

    @contextlib.contextmanager
    def updated_globally(self) -> Iterator[None]:
        """Within the block metrics that are not summed are updated with the global batch."""
        model = self._model
        with contextlib.ExitStack() as stack:
            if overrides(model, "compute_metrics"):
                stack.enter_context(
                    shadowed(model, "compute_metrics", self._on_global(model.compute_metrics))
                )
            for metric in self._leaves():
                update = self._update(metric)
                if update is not None:
                    stack.enter_context(shadowed(metric, "update_state", update))
            yield

    def _leaves(self) -> list[keras.Metric]:
        leaves: list[keras.Metric] = []
        for metric in self._model.metrics:
            leaves += metric.metrics if metric is self._model._compile_metrics else [metric]
        return leaves

    def _update(self, metric: keras.Metric) -> Callable[..., Any] | None:
        model = self._model
        if any(self._is_summed(variable) for variable in metric.variables):
            return None
        means = [model._loss_tracker]
        if model._compile_loss is not None:
            means += model._compile_loss.metrics
        if any(metric is mean for mean in means):
            return self._mean_over_replicas(metric.update_state)
        return self._on_global(metric.update_state)

    def _is_summed(self, variable: keras.Variable) -> bool:
        return id(variable) in self._summed

    def _on_global(self, update: Callable[..., Any]) -> Callable[..., Any]:
        trace = self._trace

        def update_with_the_global_batch(*args: Any, **kwargs: Any) -> Any:
            if not trace.local:
                return update(*args, **kwargs)
            args, kwargs = gather_batch(trace, (args, kwargs))
            args, kwargs = _average_scalars(trace, (args, kwargs))
            with trace.on_global_batch():
                return update(*args, **kwargs)

        return update_with_the_global_batch

    def _mean_over_replicas(self, update: Callable[..., Any]) -> Callable[..., Any]:
        trace = self._trace

        def update_with_the_mean(value: Any, sample_weight: Any = None) -> Any:
            if not trace.local:
                return update(value, sample_weight=sample_weight)
            mean = trace.context.all_reduce(ReduceOp.MEAN, value)
            if sample_weight is not None:
                sample_weight = sample_weight * trace.context.num_replicas_in_sync
            return update(mean, sample_weight=sample_weight)

        return update_with_the_mean


def _average_scalars(trace: ReplicaTrace, tree: Any) -> Any:
    def average(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and leaf.ndim == 0:
            return trace.context.all_reduce(ReduceOp.MEAN, leaf)
        return leaf

    return keras.tree.map_structure(average, tree)


@contextlib.contextmanager
def averaged_gradients(model: keras.Model, trace: ReplicaTrace) -> Iterator[None]:
    """Within the block the model's optimizer is given the mean of the replicas' gradients.

    Whatever the optimizer does with them (clipping, accumulation, loss scaling, inner optimizers)
    comes after. Its own random draws are the same on every replica: it updates one model.
    """
    apply = model.optimizer.stateless_apply

    def stateless_apply(
        optimizer_variables: Any, grads: Sequence[Any], trainable_variables: Any
    ) -> Any:
        variables = model.optimizer._trainable_variables
        if len(grads) == len(variables):  # else Keras refuses: the model was changed
            grads = _reduce(trace.context, ReduceOp.MEAN, grads, variables)
        with trace.context.agreeing():
            return apply(optimizer_variables, grads, trainable_variables)

    with shadowed(model.optimizer, "stateless_apply", stateless_apply):
        yield


def sum_over_replicas(
    apply: Callable[..., Any], updates_rows: Callable[..., bool]
) -> Callable[..., Any]:
    """Wrap an optimizer's ``apply``: in a replica's step it sums gradients over the replicas.

    As ``tf.keras.optimizers.Optimizer.apply_gradients`` does under ``tf.distribute``. Only the
    outermost optimizer does it, once; an optimizer inside another is given the sums. In a step for
    parameter servers the gradients go to them, and nothing is updated here.

    Args:
        apply: the method.
        updates_rows: is asked first where the strategy cuts slots, see `row_update.updates_rows`.
    """

    def apply_summed(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        grads = list(grads)
        given = self._trainable_variables if trainable_variables is None else trainable_variables
        variables = list(given)
        if len(variables) != len(grads):
            return apply(self, grads, trainable_variables)  # Keras refuses it
        taker = update_interceptor()
        if taker is not None:
            taker(self, grads, variables)
            return None
        update = functools.partial(_apply, functools.partial(apply, self), self)
        context = running_replica()
        if context is None or context.agreed:
            return update(grads, variables)
        if context.traced_once and context.strategy._cuts_slots:
            named = None if trainable_variables is None else variables
            if updates_rows(apply, context, self, grads, named):
                return None
        if _aggregates.get():
            grads = _summed(context, grads, variables)
        with context.agreeing():
            return update(grads, variables)

    return apply_summed


def _summed(
    context: ReplicaContext, grads: list[Any], variables: Sequence[keras.Variable]
) -> list[Any]:
    """The sums over the replicas, marked where that is asked for."""
    marks = gradient_marks()
    if marks is None:
        return _reduce(context, ReduceOp.SUM, grads, variables)
    pairs = list(zip(grads, variables, strict=True))
    summed = [None if not marks.is_summed(variable) else grad for grad, variable in pairs]
    sums = _reduce(context, ReduceOp.SUM, summed, variables)
    return [
        grad if grad is None else marks.marked(variable, grad if total is None else total)
        for (grad, variable), total in zip(pairs, sums, strict=True)
    ]


_aggregates = contextvars.ContextVar("drumline_aggregates", default=True)


def aggregates() -> bool:
    """Whether the optimizer that is called sums gradients, as `aggregate_if_asked` notes."""
    return _aggregates.get()


def aggregate_if_asked(apply_gradients: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``apply_gradients``: let it take TensorFlow's switches for the aggregation.

    ``experimental_aggregate_gradients=False``, or ``skip_gradients_aggregation=True``, leaves
    the sum over the replicas to the user.
    """

    def apply_gradients_as_asked(
        self: Any,
        grads_and_vars: Any,
        name: str | None = None,
        *,
        skip_gradients_aggregation: bool = False,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        del name  # as in Keras 2, where it names an operation of a graph
        token = _aggregates.set(experimental_aggregate_gradients and not skip_gradients_aggregation)
        try:
            return apply_gradients(self, grads_and_vars)
        finally:
            _aggregates.reset(token)

    return apply_gradients_as_asked


def _apply(apply: Callable[..., Any], optimizer: Any, grads: list[Any], variables: Any) -> None:
    """Keras's update; that of loss scaling without side effects in branches that JAX traces."""
    if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        apply(grads, variables)
        return
    if not optimizer.built:
        optimizer.build(variables)
    own = optimizer.variables
    new, new_own = optimizer.stateless_apply(
        [variable.value for variable in own], grads, [variable.value for variable in variables]
    )
    for variable, value in zip([*variables, *own], [*new, *new_own], strict=True):
        optimizer.inner_optimizer.assign(variable, value)


def _reduce(
    context: ReplicaContext,
    op: ReduceOp,
    grads: Sequence[Any],
    variables: Sequence[keras.Variable],
) -> list[Any]:
    reduced = list(grads)
    real = [
        index
        for index, (grad, variable) in enumerate(zip(grads, variables, strict=True))
        if grad is not None and not overwrites(variable)
    ]
    totals = context.all_reduce(op, [jnp.asarray(grads[index]) for index in real])
    for index, total in zip(real, totals, strict=True):
        reduced[index] = total
    for index, (grad, variable) in enumerate(zip(grads, variables, strict=True)):
        if grad is not None and overwrites(variable):
            reduced[index] = jnp.max(context.all_gather(jnp.asarray(grad)[None]), 0)
    return reduced


def overwrites(variable: keras.Variable) -> bool:
    """Whether the "gradient" is the variable's next value: float8 scales, which take maxima."""
    return bool(getattr(variable, "overwrite_with_gradient", False))
