"""What a model_fn is called for, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import keras


class ModeKeys:
    """What a model_fn is called for, as ``tf.estimator.ModeKeys``."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


@runtime_checkable
class ModelSaver(Protocol):
    """What saves and restores a model: ``dl.train.Checkpoint``, or ``tf.train.Checkpoint``."""

    def save_numbered(self, file_prefix: str) -> tuple[str, bool]:
        """Save a checkpoint; its path, and whether this process has written it."""

    def restore(self, save_path: str) -> Any:
        """Restore what was saved; the status of that."""

    def checkpointed_objects(self) -> dict[str, Any]:
        """The objects by name."""


_OF_GRAPHS = {
    "init_op": "an operation of model_fn runs in every step: give init_fn, which is called once, "
    "when there is no checkpoint yet, and may assign to variables",
    "local_init_op": "an operation of model_fn runs in every step: assign in init_fn, or in a "
    "hook's after_create_session, which is called after restoring, too",
    "ready_op": "variables have their values once they are made; look at them in init_fn, or in a "
    "hook's after_create_session",
    "ready_for_local_init_op": "variables have their values once they are made; look at them in "
    "init_fn, or in a hook's after_create_session",
    "summary_op": "summaries are written where they are computed; RunConfig(save_summary_steps=) "
    "says when the loss is",
    "init_feed_dict": "there are no feeds: let init_fn read what it assigns",
    "local_init_feed_dict": "there are no feeds: let init_fn read what it assigns",
}


class Scaffold:
    """How a model begins and is saved, as ``tf.compat.v1.train.Scaffold``, for an `EstimatorSpec`.

    That of model_fn's first call counts.

    Args:
        init_op: must be None, as are initializers' results: variables are made with their values.
        init_feed_dict: must be None.
        init_fn: ``init_fn(scaffold, session)``, called before the first step of a model that has
            no checkpoint yet, after a warm start; the session is None. It may assign to variables,
            or restore some from another checkpoint.
        ready_op: must be None.
        ready_for_local_init_op: must be None.
        local_init_op: must be None, as are initializers' results.
        summary_op: must be None.
        saver: a ``tf.train.Checkpoint``, or ``dl.train.Checkpoint``, of objects of model_fn, the
            global step among them. Checkpoints are its own in place of those of all variables by
            name, and such a one restores them without an Estimator. How many are kept is
            `RunConfig`'s.
        copy_from_scaffold: one whose arguments hold where these are None.
        local_init_feed_dict: must be None.

    Raises:
        NotImplementedError: for operations of graphs.
        TypeError: the saver is something else, or ``copy_from_scaffold`` is no Scaffold.

    Example:
        >>> start = dl.Variable(0.0)
        >>> scaffold = dl.estimator.Scaffold(init_fn=lambda scaffold, session: start.assign(2.0))
        >>> scaffold.init_fn(None)
        >>> float(start.value)
        2.0
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Scaffold, Any], Any] | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Any = None,
    ):
        for name, value in (
            ("init_op", init_op),
            ("init_feed_dict", init_feed_dict),
            ("ready_op", ready_op),
            ("ready_for_local_init_op", ready_for_local_init_op),
            ("local_init_op", local_init_op),
            ("summary_op", summary_op),
            ("local_init_feed_dict", local_init_feed_dict),
        ):
            if value is not None:
                raise NotImplementedError(f"Scaffold({name}=): {_OF_GRAPHS[name]}.")
        if copy_from_scaffold is not None:
            if not isinstance(copy_from_scaffold, Scaffold):
                raise TypeError("copy_from_scaffold is not a Scaffold instance.")
            init_fn = copy_from_scaffold._users if init_fn is None else init_fn
            saver = copy_from_scaffold.saver if saver is None else saver
        self.init_op = self.local_init_op = self.summary_op = None
        self.ready_op = self.ready_for_local_init_op = None
        self.init_feed_dict = self.local_init_feed_dict = None
        self._users: Callable[[Scaffold, Any], Any] | None = init_fn
        self._saver = checked_saver(saver, "Scaffold")

    @property
    def saver(self) -> ModelSaver | None:
        """What saves the model; None for all its variables, by name."""
        return self._saver

    @property
    def init_fn(self) -> Callable[[Any], None] | None:
        """The function as one of the session alone; None if none was given."""
        return None if self._users is None else self._call

    def _call(self, session: Any) -> None:
        assert self._users is not None
        self._users(self, session)

    def finalize(self) -> Scaffold:
        """Return this: there is no graph to finalize."""
        return self

    @staticmethod
    def default_local_init_op() -> None:
        """Do nothing: variables and tables have their values once they are made."""


def checked_saver(saver: Any, of: str) -> ModelSaver | None:
    """The saver, if it is one, or None.

    Raises:
        TypeError: it is something else.
    """
    if saver is None or isinstance(saver, ModelSaver):
        return saver
    raise TypeError(
        f"{of}(saver=): {type(saver).__name__} is no tf.train.Checkpoint of the look-alike, and no "
        "dl.train.Checkpoint: give one of the objects of model_fn, with its global step."
    )


class _Fields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Any
    export_outputs: Any
    training_chief_hooks: tuple[Any, ...]
    training_hooks: tuple[Any, ...]
    scaffold: Scaffold
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class EstimatorSpec(_Fields):
    """What a model_fn returns, as ``tf.estimator.EstimatorSpec``.

    Args:
        mode: one of `ModeKeys`.
        predictions: a tensor, or a dictionary of tensors.
        loss: a scalar tensor.
        train_op: what an optimizer's ``minimize`` returned.
        eval_metric_ops: metrics of Keras by name, which were updated, or those of
            ``tf.compat.v1.metrics``.
        export_outputs: what models for serving give; kept.
        training_chief_hooks: hooks of the first worker.
        training_hooks: hooks of all workers.
        scaffold: a `Scaffold`; by default one without arguments.
        evaluation_hooks: hooks of `Estimator.evaluate`.
        prediction_hooks: hooks of `Estimator.predict`.

    Raises:
        ValueError: what the mode needs is missing, or the loss is no scalar.
        TypeError: a metric is none of Keras's, or something else has a wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Any = None,
        export_outputs: Any = None,
        training_chief_hooks: Any = None,
        training_hooks: Any = None,
        scaffold: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> EstimatorSpec:
        if mode not in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT):
            raise ValueError(f"EstimatorSpec: mode {mode!r} is none of tf.estimator.ModeKeys")
        if mode == ModeKeys.TRAIN and train_op is None:
            raise ValueError(
                "Missing train_op: in ModeKeys.TRAIN give what updates the variables: "
                "optimizer.apply_gradients(...) of a Keras optimizer, or, with tf.estimator, "
                "optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())."
            )
        if mode != ModeKeys.PREDICT and loss is None:
            raise ValueError(f"Missing loss: the mode {mode!r} needs one.")
        if mode == ModeKeys.PREDICT and predictions is None:
            raise ValueError("Missing predictions: ModeKeys.PREDICT needs them.")
        if loss is not None:
            loss = _scalar(loss)
        scaffold = Scaffold() if scaffold is None else scaffold
        if not isinstance(scaffold, Scaffold):
            raise TypeError(
                f"scaffold must be tf.compat.v1.train.Scaffold. Given: {scaffold!r}; of "
                "dl.estimator it is dl.estimator.Scaffold."
            )
        given = dict(eval_metric_ops or {})
        metrics = {name: getattr(each, "metric", each) for name, each in given.items()}
        for name, metric in metrics.items():
            if not isinstance(metric, keras.Metric):
                raise TypeError(
                    f"EstimatorSpec: eval_metric_ops[{name!r}] must be a metric of "
                    "tf.keras.metrics whose update_state was called, or the pair that a function "
                    f"of tf.compat.v1.metrics gives, not {type(metric).__name__}"
                )
        hooks = (training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks)
        chief, train, evaluation, prediction = (tuple(each or ()) for each in hooks)
        return super().__new__(
            cls,
            mode,
            predictions,
            loss,
            train_op,
            metrics,
            export_outputs,
            chief,
            train,
            scaffold,
            evaluation,
            prediction,
        )


def hooks_of(spec: EstimatorSpec) -> tuple[Any, ...]:
    """The hooks that a model_fn returned for its mode."""
    if spec.mode == ModeKeys.TRAIN:
        return (*spec.training_hooks, *spec.training_chief_hooks)
    return spec.evaluation_hooks if spec.mode == ModeKeys.EVAL else spec.prediction_hooks


def _scalar(loss: Any) -> Any:
    if not hasattr(loss, "shape") or not hasattr(loss, "dtype"):
        raise TypeError(f"EstimatorSpec: loss must be a tensor, not {type(loss).__name__}")
    if tuple(loss.shape) == (1,):
        return loss[0]
    if tuple(loss.shape) != ():
        raise ValueError(f"Loss must be scalar, given: {loss}")
    return loss


def prediction_rows(predictions: Any, keys: Any) -> Any:
    """Predictions without those that were not asked for.

    Raises:
        ValueError: none of the keys is there, or there are no keys.
    """
    if not keys:
        return predictions
    wanted = [keys] if isinstance(keys, str) else list(keys)
    if not isinstance(predictions, Mapping):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    found = {key: value for key, value in predictions.items() if key in wanted}
    if not found:
        raise ValueError(f"Expected to run at least one output from {list(predictions)}: {wanted}.")
    return found
