"""``tf.compat.v1.get_collection``: what a model_fn has collected.

There is no graph, but a call of an Estimator's model_fn makes variables, losses and what it adds
itself; collections are of that call. Outside of one they are refused, as in eager TensorFlow 2.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from drumline.compat.composite.sparse import IndexedSlices
from drumline.compat.ops.arrays import zeros
from drumline.compat.ops.elementwise import add_n
from drumline.compat.values.tensor import Tensor
from drumline.estimator.graph import ModelCall, running


class GraphKeys:
    """Names of collections, as ``tf.compat.v1.GraphKeys``."""

    GLOBAL_VARIABLES = VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    METRIC_VARIABLES = "metric_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    SUMMARIES = "summaries"
    QUEUE_RUNNERS = "queue_runners"
    TABLE_INITIALIZERS = "table_initializer"
    ASSET_FILEPATHS = "asset_filepaths"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    REGULARIZATION_LOSSES = "regularization_losses"
    CONCATENATED_VARIABLES = "concatenated_variables"
    SAVERS = "savers"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    UPDATE_OPS = "update_ops"
    LOSSES = "losses"
    SAVEABLE_OBJECTS = "saveable_objects"
    RESOURCES = "resources"
    LOCAL_RESOURCES = "local_resources"
    TRAINABLE_RESOURCE_VARIABLES = "trainable_resource_variables"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    READY_FOR_LOCAL_INIT_OP = "ready_for_local_init_op"
    SUMMARY_OP = "summary_op"
    GLOBAL_STEP = "global_step"
    EVAL_STEP = "eval_step"
    TRAIN_OP = "train_op"
    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"


_collected: WeakKeyDictionary[ModelCall, dict[Any, list[Any]]] = WeakKeyDictionary()
"""What calls of model_fns have collected, by the collection's name."""


def _require_call(function: str) -> ModelCall:
    call = running()
    if call is None:
        raise RuntimeError(
            f"tf.compat.v1.{function} needs an Estimator's model_fn, which collects variables and "
            "losses: outside of one there is no graph. Keep them in a list of yours, or use the "
            "attributes of tf.Module and of Keras's models."
        )
    return call


def _variables(call: ModelCall, trainable: bool) -> list[Any]:
    found = call.graph.variables.values()
    return [each for each in found if not trainable or each.trainable]


def _of_name(values: list[Any], scope: str | None) -> list[Any]:
    if scope is None:
        return values
    pattern = re.compile(scope)
    return [each for each in values if pattern.match(str(getattr(each, "name", "")))]


def collect(key: str, value: Any) -> None:
    """Add to a collection of the model_fn that this code is in, if it is in one."""
    call = running()
    if call is not None:
        _collected.setdefault(call, defaultdict(list))[key].append(value)


def add_to_collection(name: Any, value: Any) -> None:
    """Add a value to a collection of the model_fn that this code is in.

    Raises:
        RuntimeError: it is in none.
    """
    _require_call("add_to_collection")
    collect(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    """Add a value to several collections; see `add_to_collection`."""
    for name in dict.fromkeys([names] if isinstance(names, str) else names):
        add_to_collection(name, value)


def get_collection(key: Any, scope: str | None = None) -> list[Any]:
    """What a collection of the model_fn has, that this code is in.

    ``UPDATE_OPS`` is empty: ``tf.compat.v1.layers.batch_normalization`` updates its averages when
    it is called with ``training=True``.

    Args:
        key: the collection's name, such as one of `GraphKeys`.
        scope: a regular expression that names must match from their beginning; by default all.

    Raises:
        RuntimeError: this code is in no model_fn.

    Example:
        >>> import drumline.compat.tf.compat.v1 as tf
        >>> def weight_decay():  # in a model_fn
        ...     kernels = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
        ...     return tf.add_n([tf.nn.l2_loss(each) for each in kernels])
    """
    call = _require_call("get_collection")
    own = list(_collected.get(call, {}).get(key, ()))
    if key in (GraphKeys.TRAINABLE_VARIABLES, GraphKeys.GLOBAL_VARIABLES):
        made = _variables(call, key == GraphKeys.TRAINABLE_VARIABLES)
        own = made + [each for each in own if all(each is not other for other in made)]
    return _of_name(own, scope)


def get_collection_ref(key: Any) -> list[Any]:
    """The list of a collection itself: what is added to it is in the collection.

    Raises:
        RuntimeError: this code is in no model_fn.
        NotImplementedError: of variables, whose list follows from those that are made.
    """
    call = _require_call("get_collection_ref")
    if key in (GraphKeys.TRAINABLE_VARIABLES, GraphKeys.GLOBAL_VARIABLES):
        raise NotImplementedError(f"get_collection_ref({key!r}): use get_collection, a copy")
    return _collected.setdefault(call, defaultdict(list))[key]


def _variables_of(name: str, key: str) -> Callable[..., list[Any]]:
    def found(scope: str | None = None) -> list[Any]:
        _require_call(name)
        return get_collection(key, scope)

    found.__name__ = found.__qualname__ = name
    found.__doc__ = f"``get_collection({key!r}, scope)``."
    return found


trainable_variables = _variables_of("trainable_variables", GraphKeys.TRAINABLE_VARIABLES)
global_variables = _variables_of("global_variables", GraphKeys.GLOBAL_VARIABLES)
all_variables = _variables_of("all_variables", GraphKeys.GLOBAL_VARIABLES)
local_variables = _variables_of("local_variables", GraphKeys.LOCAL_VARIABLES)
model_variables = _variables_of("model_variables", GraphKeys.MODEL_VARIABLES)
moving_average_variables = _variables_of(
    "moving_average_variables", GraphKeys.MOVING_AVERAGE_VARIABLES
)


def add_loss(loss: Any, loss_collection: Any = GraphKeys.LOSSES) -> None:
    """Add a loss to a collection, for `get_total_loss`; nothing outside of model_fns."""
    if loss_collection:
        collect(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES) -> list[Any]:
    """The losses that ``tf.compat.v1.losses`` computed in this model_fn; see `get_collection`."""
    _require_call("losses.get_losses")
    return get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """Those of the regularizers of ``tf.compat.v1.layers`` in this model_fn."""
    _require_call("losses.get_regularization_losses")
    return get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(
    scope: str | None = None, name: str = "total_regularization_loss"
) -> Any:
    """The sum of `get_regularization_losses`: 0 if there is none."""
    found = get_regularization_losses(scope)
    return add_n(found) if found else zeros([])


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Any:
    """The sum of this model_fn's losses.

    Args:
        add_regularization_losses: whether those of regularizers count.
        name: no effect.
        scope: see `get_collection`.

    Raises:
        ValueError: there is none.
    """
    found = get_losses(scope)
    if add_regularization_losses:
        found = found + get_regularization_losses(scope)
    if not found:
        raise ValueError("get_total_loss: this model_fn has computed no loss")
    return add_n(found)


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = None,
) -> list[Any]:
    """Gradients of the sum of ``ys``, in an Estimator's model_fn.

    Args:
        ys: a tensor, or several.
        xs: variables, or one.
        grad_ys: factors of ``ys``.
        name: and the options of graphs: no effect.
        stop_gradients: must be None: use ``tf.stop_gradient``.
        unconnected_gradients: see ``tf.GradientTape.gradient``.

    Returns:
        For each of ``xs`` its gradient, or None.

    Raises:
        RuntimeError: this code is in no model_fn.
        NotImplementedError: with respect to what is no variable, or with ``stop_gradients``.
    """
    call = running()
    if call is None:
        raise RuntimeError(
            "tf.gradients is not supported when eager execution is enabled. Use tf.GradientTape "
            "instead."
        )
    if stop_gradients is not None:
        raise NotImplementedError("gradients(stop_gradients=): use tf.stop_gradient")
    chosen = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    if any(isinstance(each, (Tensor, IndexedSlices)) for each in chosen):
        raise NotImplementedError(
            "tf.gradients with respect to a tensor: watch it with a tf.GradientTape, before it is "
            "used"
        )
    if call.building:
        return [zeros(tuple(each.shape), each.dtype) for each in chosen]
    options = (
        {} if unconnected_gradients is None else {"unconnected_gradients": unconnected_gradients}
    )
    with call.tape.stop_recording():
        found = call.tape.gradient(ys, chosen, output_gradients=grad_ys, **options)
    return list(found)
