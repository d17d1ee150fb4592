"""Premade Estimators of ``tf.compat.v1.estimator``, with TensorFlow 1's defaults.

Losses are summed over a batch, an optimizer's name means that of TensorFlow 1, and one of
``tf.compat.v1.train`` can be given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras

from drumline.compat.v1.estimators import premade
from drumline.compat.v1.losses import WeightedReduction
from drumline.compat.v1.optimizers import (
    AdagradOptimizer,
    AdamOptimizer,
    FormerOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    RMSPropOptimizer,
)
from drumline.estimator.graph import GraphOp, running
from drumline.estimator.premade.heads.base import minimize
from drumline.estimator.premade.model import PremadeEstimator, Updates
from drumline.estimator.premade.optimizers import maker_of

SUM = WeightedReduction.SUM
_RATE = 0.05
_NAMES: dict[str, Callable[..., FormerOptimizer]] = {
    "Adagrad": AdagradOptimizer,
    "Adam": AdamOptimizer,
    "Ftrl": FtrlOptimizer,
    "RMSProp": RMSPropOptimizer,
    "SGD": GradientDescentOptimizer,
}


class FormerEstimator(PremadeEstimator):
    """A premade Estimator that takes the optimizers of ``tf.compat.v1.train``, too."""

    def _maker(self, optimizer: Any) -> Callable[[float | None], Any]:
        if isinstance(optimizer, str) and optimizer in _NAMES:
            kind = _NAMES[optimizer]
            return lambda rate: kind(_RATE if rate is None else rate)
        if isinstance(optimizer, FormerOptimizer):
            return lambda rate: optimizer.fresh()
        if callable(optimizer) and not isinstance(optimizer, keras.optimizers.Optimizer):
            return lambda rate: _checked(optimizer())
        return maker_of(optimizer)

    def _update(self, loss: Any, updates: Updates) -> GraphOp:
        call = running()
        assert call is not None
        of_keras = [each for each in updates if not isinstance(each[0], FormerOptimizer)]
        op = minimize(loss, of_keras, self._head.loss_reduction)
        call.sums_loss = self._head.loss_reduction == "sum"
        for optimizer, variables in updates:
            if isinstance(optimizer, FormerOptimizer):
                optimizer.minimize(loss, var_list=variables)
        return op


def _checked(made: Any) -> Any:
    if not isinstance(made, (FormerOptimizer, keras.optimizers.Optimizer)):
        raise ValueError(f"The given object is not an Optimizer instance. Given: {made!r}")
    return made


def _refuse(partitioner: Any) -> None:
    if partitioner is not None:
        raise NotImplementedError(
            "Premade Estimators do not divide variables; leave the partitioner out, or give it to "
            "a ParameterServerStrategy."
        )


def _signature(core: type[Any], partitioner: str) -> inspect.Signature:
    """That of a class of ``tf.estimator``, with TensorFlow 1's defaults and its partitioner."""
    found = [
        each.replace(default=SUM) if each.name == "loss_reduction" else each
        for each in inspect.signature(core.__init__).parameters.values()
    ]
    if partitioner:
        config = [each.name for each in found].index("config")
        # That of linear models stands behind the config, those of others before it.
        added = inspect.Parameter(
            partitioner, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Any
        )
        found.insert(config + (partitioner == "partitioner"), added)
    return inspect.Signature(found, return_annotation=None)


def _former(core: type[Any], partitioner: str = "") -> type[Any]:
    """A class of ``tf.estimator`` as TensorFlow 1 has it."""
    signature = _signature(core, partitioner)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            given = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{core.__name__}: {error}") from None
        given.apply_defaults()
        _refuse(given.arguments.pop(partitioner, None))
        core.__init__(**given.arguments)

    about = {
        "__doc__": f"`{core.__name__}` of ``tf.estimator``, with TensorFlow 1's defaults.",
        "__module__": __name__,
        "__init__": __init__,
    }
    vars(__init__)["__signature__"] = signature
    return type(core.__name__, (core, FormerEstimator), about)


LinearClassifier = _former(premade.LinearClassifier, "partitioner")
LinearRegressor = _former(premade.LinearRegressor, "partitioner")
LinearEstimator = _former(premade.LinearEstimator, "partitioner")
DNNClassifier = _former(premade.DNNClassifier, "input_layer_partitioner")
DNNRegressor = _former(premade.DNNRegressor, "input_layer_partitioner")
DNNEstimator = _former(premade.DNNEstimator, "input_layer_partitioner")
DNNLinearCombinedClassifier = _former(
    premade.DNNLinearCombinedClassifier, "input_layer_partitioner"
)
DNNLinearCombinedRegressor = _former(premade.DNNLinearCombinedRegressor, "input_layer_partitioner")
DNNLinearCombinedEstimator = _former(premade.DNNLinearCombinedEstimator, "input_layer_partitioner")
BaselineClassifier = _former(premade.BaselineClassifier)
BaselineRegressor = _former(premade.BaselineRegressor)
BaselineEstimator = _former(premade.BaselineEstimator)
