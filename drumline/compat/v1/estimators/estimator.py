"""``tf.estimator.Estimator``: that of `drumline.estimator`, of tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from drumline import distribute, estimator
from drumline.compat.data.dataset import TensorDataset
from drumline.compat.distribute.strategies import OfTensors, ParameterServersOfTensors, step_of
from drumline.compat.training.function import TensorFunction
from drumline.compat.training.scopes import in_scope
from drumline.compat.training.tape import TensorTape
from drumline.compat.training.variable import TensorVariable, variable_creator_scope
from drumline.compat.v1.data import elements_of
from drumline.compat.v1.variables import fresh_scopes
from drumline.compat.values.boundary import from_core, map_structure, unwrap
from drumline.compat.values.convert import convert
from drumline.compat.values.tensor import Tensor
from drumline.distribute import VariableAggregation
from drumline.estimator.graph import ModelCall
from drumline.estimator.spec import ModeKeys
from drumline.estimator.values import ClassNames, ModelValues


class TensorValues(ModelValues):
    """How tensors come into a model_fn: it makes ``tf.Variable``, and is on a tape."""

    counts_steps = False
    traces_first_call = False
    module = "tf.estimator"

    def check_strategy(self, strategy: Any) -> None:
        if not isinstance(strategy, OfTensors) or not isinstance(strategy, distribute.Strategy):
            raise TypeError(f"RunConfig: {strategy!r} is no strategy of tf.distribute")

    def called_input(self, input_fn: Callable[[], Any]) -> Any:
        return elements_of(input_fn)

    def dataset(self, made: Any) -> Any:
        if isinstance(made, TensorDataset):
            return made
        parts = made if isinstance(made, tuple) else (made,)
        if not all(isinstance(part, (Tensor, Mapping)) or part is None for part in parts):
            return None
        every: Any = TensorDataset.from_tensors(made)
        return every.repeat()

    def map(self, function: Callable[[Any], Any], nested: Any) -> Any:
        return map_structure(function, nested)

    def array(self, leaf: Any) -> Any:
        return unwrap(leaf)

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return from_core(function)

    def on_host(self, leaf: Any) -> Any:
        return Tensor(leaf.numpy())

    def as_numpy(self, leaf: Any) -> np.ndarray:
        if isinstance(leaf, ClassNames):
            return leaf.numpy()
        return np.asarray(convert(leaf))

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return TensorFunction(function)

    def arrays(self, nested: Any) -> Any:
        return unwrap(nested)

    def of_arrays(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return step_of(function)

    def parameter_servers(self, resolver: Any) -> Any:
        return ParameterServersOfTensors(resolver)

    def global_step(self) -> Any:
        return TensorVariable(
            np.int64(0),
            trainable=False,
            name="global_step",
            dtype="int64",
            aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
        )

    @contextlib.contextmanager
    def called(self, call: ModelCall) -> Iterator[None]:
        def create(next_creator: Any, **kwargs: Any) -> Any:
            name = in_scope(kwargs.get("name") or "Variable")
            return call.create(name, lambda: next_creator(**kwargs))

        call.tape = TensorTape(persistent=True)
        with fresh_scopes(), variable_creator_scope(create), call.tape:
            yield


class TensorEstimator(estimator.Estimator):
    """A model as a function of tensors, which is trained from checkpoint to checkpoint.

    As ``tf.estimator.Estimator``; see `drumline.estimator.Estimator`.
    """

    values = TensorValues()

    def export_saved_model(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Any = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Write a model for serving into a new directory, which ``tf.saved_model.load`` reads.

        Args:
            export_dir_base: in which the directory is made, named by the time.
            serving_input_receiver_fn: one of those that ``tf.estimator.export`` builds.
            assets_extra: files to copy, by their paths in ``assets.extra``.
            as_text: must be False.
            checkpoint_path: of which checkpoint; by default the latest.
            experimental_mode: must be ``ModeKeys.PREDICT``.

        Returns:
            The directory.

        Raises:
            ValueError: there is no checkpoint.
            NotImplementedError: the model cannot be saved so.
        """
        from drumline.compat.v1.estimators import export

        return export.export_saved_model(
            self,
            export_dir_base,
            serving_input_receiver_fn,
            assets_extra,
            as_text,
            checkpoint_path,
            experimental_mode,
        )

    def experimental_export_all_saved_models(
        self,
        export_dir_base: Any,
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        assets_extra: Any = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
    ) -> bytes:
        """As `export_saved_model`, of the functions by mode: of ``ModeKeys.PREDICT`` alone."""
        others = sorted(input_receiver_fn_map.keys() - {ModeKeys.PREDICT})
        if others:
            raise NotImplementedError(
                f"A saved model is for {ModeKeys.PREDICT!r} alone, not {others}: train and "
                "evaluate with the Estimator, from its checkpoints."
            )
        if not input_receiver_fn_map:
            raise ValueError("No valid modes for exporting found. Got None.")
        (receiver_fn,) = input_receiver_fn_map.values()
        return self.export_saved_model(
            export_dir_base, receiver_fn, assets_extra, as_text, checkpoint_path
        )

    def model_run(self, input_fn: Callable[..., Any]) -> Any:
        """The model_fn with variables, for predictions."""
        return self._run(input_fn, ModeKeys.PREDICT, None)


TensorEstimator.__name__ = TensorEstimator.__qualname__ = "Estimator"
