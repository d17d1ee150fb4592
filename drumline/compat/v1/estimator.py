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
from drumline.compat.v1.variables import fresh_scopes
from drumline.compat.values.boundary import map_structure, unwrap
from drumline.compat.values.convert import convert
from drumline.compat.values.tensor import Tensor
from drumline.distribute import VariableAggregation
from drumline.estimator.graph import ModelCall
from drumline.estimator.values import ModelValues


class TensorValues(ModelValues):
    """How tensors come into a model_fn: it makes ``tf.Variable``, and is on a tape."""

    counts_steps = False
    traces_first_call = False
    module = "tf.estimator"

    def check_strategy(self, strategy: Any) -> None:
        if not isinstance(strategy, OfTensors) or not isinstance(strategy, distribute.Strategy):
            raise TypeError(f"RunConfig: {strategy!r} is no strategy of tf.distribute")

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

    def on_host(self, leaf: Any) -> Any:
        return Tensor(leaf.numpy())

    def as_numpy(self, leaf: Any) -> np.ndarray:
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


TensorEstimator.__name__ = TensorEstimator.__qualname__ = "Estimator"
