"""What a model_fn's values are: drumline's arrays, or the tensors of what stands upon it.

`Estimator` asks its `ModelValues` for all in which the two differ. The look-alike of TensorFlow
derives one from it, and nothing else of this room knows of tensors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from drumline import data, distribute
from drumline.distribute import VariableAggregation

if TYPE_CHECKING:
    from drumline.estimator.graph import ModelCall


@jax.tree_util.register_pytree_node_class
class ClassNames:
    """Strings of a vocabulary, by their numbers: what a compiled step gives in place of strings.

    Args:
        ids: numbers, an array of any shape.
        names: the vocabulary.
    """

    def __init__(self, ids: Any, names: tuple[str, ...]):
        self.ids, self.names = ids, names

    def numpy(self) -> np.ndarray:
        """The strings, bytes as objects; ``b"UNKNOWN"`` for numbers that there are not."""
        words = np.array([*(name.encode() for name in self.names), b"UNKNOWN"], object)
        ids = np.asarray(self.ids)
        found = words[np.where((ids >= 0) & (ids < len(self.names)), ids, -1)]
        return np.asarray(found, object)

    def tree_flatten(self) -> tuple[tuple[Any], tuple[str, ...]]:
        """The numbers, and the vocabulary, for JAX."""
        return (self.ids,), self.names

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], parts: Any) -> ClassNames:
        """The strings again, of `tree_flatten`'s results."""
        (ids,) = parts
        return cls(ids, names)


class ModelValues:
    """How arrays of drumline's come into a model_fn, and out of it; a base class for others.

    Attributes:
        counts_steps: whether the step adds 1 to the global step, as here; else ``train_op`` does.
        traces_first_call: whether, with parameter servers, the first call is traced as the others;
            else it runs, and may compute what variables begin with.
        module: the name of the module for messages.
    """

    counts_steps = True
    traces_first_call = True
    module = "dl.estimator"

    def check_strategy(self, strategy: Any) -> None:
        """Check that steps of this kind run on a strategy.

        Raises:
            TypeError: they do not.
        """
        if not isinstance(strategy, distribute.Strategy):
            raise TypeError(f"RunConfig: {strategy!r} is no strategy of dl.distribute")

    def called_input(self, input_fn: Callable[[], Any]) -> Any:
        """What an input_fn returns, whose arguments are bound."""
        return input_fn()

    def dataset(self, made: Any) -> Any:
        """The dataset that an input_fn returned; None if it returned something else.

        What is no dataset are the features and labels of every step.
        """
        if isinstance(made, data.Dataset):
            return made
        parts = made if isinstance(made, tuple) else (made,)
        if not all(
            isinstance(part, (np.ndarray, jax.Array, Mapping, type(None))) for part in parts
        ):
            return None
        return data.Dataset.from_tensors(made).repeat()

    def map(self, function: Callable[[Any], Any], nested: Any) -> Any:
        """The function's results for the leaves of nested values."""
        return jax.tree.map(function, nested, is_leaf=lambda leaf: isinstance(leaf, ClassNames))

    def array(self, leaf: Any) -> Any:
        """A value of model_fn's as an array of JAX's."""
        return leaf

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of users' as one of JAX's arrays."""
        return function

    def on_host(self, leaf: Any) -> Any:
        """A value of one replica, as model_fn gets it in its first call."""
        return np.asarray(leaf)

    def as_numpy(self, leaf: Any) -> np.ndarray:
        """A variable, or a value of a step's, as an array of numpy's."""
        if isinstance(leaf, ClassNames):
            return leaf.numpy()
        return np.asarray(getattr(leaf, "value", leaf))

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A step without a strategy, compiled."""
        return distribute.function(function)

    def arrays(self, nested: Any) -> Any:
        """Nested values with arrays in their place, as workers of parameter servers get them."""
        return nested

    def of_arrays(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of arrays that calls one of these values."""
        return function

    def parameter_servers(self, resolver: Any) -> Any:
        """A `ParameterServerStrategy` for steps of this kind, over a resolver's cluster."""
        return distribute.ParameterServerStrategy(resolver)

    def global_step(self) -> Any:
        """A new variable that counts steps."""
        return distribute.Variable(
            np.int32(0),
            trainable=False,
            name="global_step",
            dtype="int32",
            aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
        )

    def called(self, call: ModelCall) -> contextlib.AbstractContextManager[Any]:
        """A block in which model_fn is called."""
        return contextlib.nullcontext()


ARRAYS = ModelValues()
"""Those of ``dl.estimator``."""
