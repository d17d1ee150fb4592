"""Steps as users of TensorFlow write them, ``train_step(self, data)``, compiled by Keras on JAX.

Keras's JAX trainer compiles ``train_step(self, state, data)``, which takes the values of all
variables and returns the new ones. A user's step becomes such a one: it runs in a scope that holds
the values, and is given the whole batch under every strategy, so that its results are those of one
device. Before the first batch it is traced once for what it makes and for the variables it uses
that the model does not track (a second optimizer's, a metric's outside of the model), which then
are part of the state.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import jax
import keras
import numpy as np

from drumline.compat.values.boundary import unwrap, with_control_flow, wrap
from drumline.distribute.replica import whole_batch
from drumline.keras import data_adapter
from drumline.keras.resuming.fit_run import tell_run_of_input
from drumline.keras.state import set_step_variables, step_variables, strategy_of
from drumline.training import GradientTape
from drumline.training.state_scope import StateScope, initialize_created

_FUNCTIONS = {
    "train_step": "train_function",
    "test_step": "test_function",
    "predict_step": "predict_function",
}
STEPS = tuple(_FUNCTIONS)
"""The methods of a model that are its steps."""
_OF_DATA = "_takes_data_alone"

_step_in_use: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "drumline_compat_step", default=None
)


def takes_data_alone(method: Any) -> bool:
    """Whether a step is written as for TensorFlow: ``(self, data)``, without a state."""
    if not isinstance(method, FunctionType) or hasattr(method, _OF_DATA):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(method).parameters.values()
    needed = [p for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]
    return len(needed) == 2


def of_state(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A user's step of data as Keras's of a state and data; of data alone it remains callable.

    Args:
        name: which step it is.
        method: the user's.
    """
    target = with_control_flow(method)

    def step(self: keras.Model, *args: Any) -> Any:
        if len(args) == 1:
            return target(self, wrap(args[0]))
        state, data = args
        groups = _groups(self, name)
        variables = [variable for group in groups for variable in group]
        values = [value for group in state for value in group]
        with StateScope(variables, values) as scope:
            results = unwrap(target(self, wrap(data)))
        _require_known(name, scope)
        new = tuple([scope.value_of(variable) for variable in group] for group in groups)
        return results, (new[1] if name == "predict_step" else new)

    functools.update_wrapper(step, method)
    del step.__wrapped__  # type: ignore[attr-defined]  # its signature is another one
    setattr(step, _OF_DATA, True)
    return step


def _groups(model: keras.Model, name: str) -> list[list[Any]]:
    """The variables of the state of a step, in the groups in which Keras passes their values."""
    fixed = [*model.non_trainable_variables, *step_variables(model)]
    groups = [list(model.trainable_variables), fixed]
    if name == "train_step":
        groups.append(list(model.optimizer.variables) if model.optimizer is not None else [])
    if name != "predict_step":
        groups.append(list(model.metrics_variables))
    return groups


def _require_known(name: str, scope: StateScope) -> None:
    lost = [variable.path for variable in scope.discovered]
    if lost:
        raise ValueError(
            f"{name} uses the variable(s) {', '.join(map(repr, lost))}, which it did not use when "
            "it was first traced, or which do not belong to the model. Make them in the model's "
            "__init__ and use them in every call."
        )


def expand_targets(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``compute_loss``: targets of one number a row fit outputs of several columns.

    TensorFlow 2 makes a target of shape (n,) one of (n, 1) for an output of shape (n, m).
    """

    def call(
        self: Any, x: Any = None, y: Any = None, y_pred: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        of_rows = _is_floating(y, 1) and _is_floating(y_pred, 2) and y_pred.shape[-1] != 1
        return compute(self, x, y[:, None] if of_rows else y, y_pred, *args, **kwargs)

    return call


def _is_floating(value: Any, dimensions: int) -> bool:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return shape is not None and len(shape) == dimensions and "float" in str(dtype)


def own_step(model: keras.Model, name: str) -> bool:
    """Whether a step of the model was written as for TensorFlow."""
    return hasattr(getattr(type(model), name), _OF_DATA)


def using_step(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a wrapper of ``fit`` and the like, which note that they use this step."""

    def wrapper(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: keras.Model, *args: Any, **kwargs: Any) -> Any:
            token = _step_in_use.set(name)
            try:
                return method(self, *args, **kwargs)
            finally:
                _step_in_use.reset(token)

        return call

    return wrapper


def build_by_tracing(build: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the trainer's symbolic build: a user's step says itself what it needs."""

    def built(self: keras.Model, iterator: Any = None, data_batch: Any = None) -> Any:
        name = _step_in_use.get()
        if name is None or not own_step(self, name):
            return build(self, iterator=iterator, data_batch=data_batch)
        if getattr(self, _FUNCTIONS[name]) is None:
            _prepare(self, name, _batch(iterator) if data_batch is None else data_batch)
        optimizer = self.optimizer
        if optimizer is not None and not optimizer.built:
            optimizer.build(self.trainable_variables)
        tell_run_of_input(self, iterator)  # as the one that is not called does
        return None

    return built


def _batch(iterator: Any) -> Any:
    adapter = iterator.data_adapter
    if isinstance(adapter, data_adapter.DatasetAdapter):
        example = data_adapter.example_batch(adapter)
        if example is not None:
            return example
    for each in iterator:
        batches = each[-1]
        return batches[0] if isinstance(batches, (list, tuple)) else next(batches)
    raise ValueError("The input has no elements: there is nothing to fit, evaluate or predict.")


def _prepare(model: keras.Model, name: str, batch: Any) -> None:
    """Trace a step for the variables that it makes, and note those that are not the model's."""
    scope = StateScope()

    def trace(data: Any) -> None:
        with scope:
            getattr(model, name)(data)

    strategy = strategy_of(model)
    where = contextlib.nullcontext() if strategy is None else whole_batch(strategy)
    with where:
        jax.eval_shape(trace, jax.tree.map(_shape, batch))
    initialize_created()
    own = {id(v) for group in _groups(model, "train_step") for v in group}
    new = [variable for variable in scope.discovered if id(variable) not in own]
    set_step_variables(model, [*step_variables(model), *new])


def _shape(leaf: Any) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    return jax.ShapeDtypeStruct(array.shape, jax.dtypes.canonicalize_dtype(array.dtype))


def prefer_users_loss(results: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap what an epoch reports: the loss that a step returned, where it updated no tracker.

    Keras reports its own tracker's result under this name, which then is 0.
    """

    def of_users(self: keras.Model, logs: Any) -> Any:
        users = any(own_step(self, name) for name in ("train_step", "test_step"))
        unused = self._compile_metrics is not None and not self._compile_metrics.built
        if users and unused:
            return logs
        found = results(self, logs)
        if not users or found is logs or "loss" not in logs:
            return found
        tracker = self._loss_tracker
        if any(each is tracker for each in self.metrics) and not float(tracker.count):
            return {**found, "loss": logs["loss"]}
        return found

    return of_users


def accept_data_alone(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Keras's own step: ``super().train_step(data)`` of a user's does what TensorFlow's does.

    Args:
        name: which step it is.
        step: Keras's, of a state and data.
    """
    alone = {"train_step": _train_step, "test_step": _test_step, "predict_step": _predict_step}

    def either(self: keras.Model, *args: Any, **kwargs: Any) -> Any:
        if len(args) + len(kwargs) == 1:
            return wrap(alone[name](self, unwrap((*args, *kwargs.values())[0])))
        return step(self, *args, **kwargs)

    return either


def _called(model: keras.Model, x: Any, training: bool) -> Any:
    return model(x, training=training) if model._call_has_training_arg else model(x)


def _train_step(model: keras.Model, data: Any) -> Any:
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    with GradientTape() as tape:
        y_pred = _called(model, x, True)
        loss = unwrap(model._compute_loss(x, y, y_pred, sample_weight, training=True))
        scaled = loss if model.optimizer is None else model.optimizer.scale_loss(loss)
    _track_loss(model, loss, x)
    variables = model.trainable_variables
    if variables:
        gradients = tape.gradient(scaled, variables)
        model.optimizer.apply_gradients(zip(gradients, variables, strict=True))
    return model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)


def _test_step(model: keras.Model, data: Any) -> Any:
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    y_pred = _called(model, x, False)
    loss = unwrap(model._compute_loss(x, y, y_pred, sample_weight, training=False))
    _track_loss(model, loss, x)
    return model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)


def _predict_step(model: keras.Model, data: Any) -> Any:
    x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
    return _called(model, x, False)


def _track_loss(model: keras.Model, loss: Any, x: Any) -> None:
    rows = next(leaf for leaf in jax.tree.leaves(x)).shape[0]
    model._loss_tracker.update_state(loss, sample_weight=rows)


class CompiledLoss:
    """``model.compiled_loss`` of TensorFlow 2: the loss of `compile`, noted for the logs.

    Args:
        model: a compiled model.
    """

    def __init__(self, model: keras.Model):
        self._model = model

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None, regularization_losses: Any = None
    ) -> Any:
        """The loss of a batch and the sum of ``regularization_losses``."""
        given = unwrap((y_true, y_pred, sample_weight))
        loss = unwrap(self._model._compile_loss(*given))
        for added in regularization_losses or ():
            loss = loss + unwrap(added)
        _track_loss(self._model, loss, given[1])
        return wrap(loss)

    @property
    def metrics(self) -> list[Any]:
        """The metrics that report losses."""
        return [self._model._loss_tracker, *self._model._compile_loss.metrics]


class CompiledMetrics:
    """``model.compiled_metrics`` of TensorFlow 2: the metrics of `compile`.

    Args:
        model: a compiled model.
    """

    def __init__(self, model: keras.Model):
        self._model = model

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add a batch."""
        metrics = self._model._compile_metrics
        if metrics is not None:
            metrics.update_state(*unwrap((y_true, y_pred)), sample_weight=unwrap(sample_weight))

    def reset_state(self) -> None:
        """Forget all batches."""
        if self._model._compile_metrics is not None:
            self._model._compile_metrics.reset_state()

    @property
    def metrics(self) -> list[Any]:
        """The metrics."""
        found = self._model._compile_metrics
        return [] if found is None else list(found.metrics)
