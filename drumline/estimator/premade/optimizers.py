"""The optimizers of premade Estimators: by name, as objects, or as functions that make one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras


class SparseFtrl(keras.optimizers.Ftrl):
    """FTRL that leaves what has no gradient: rows of embeddings that are in no batch.

    Keras's sets a weight without a gradient to 0 until it has had one, whatever its initial value;
    TensorFlow updates a table's rows only where it was read.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        before = variable.value
        super().update_step(gradient, variable, learning_rate)
        self.assign(variable, keras.ops.where(gradient == 0, before, variable.value))


_NAMES = {
    "Adagrad": keras.optimizers.Adagrad,
    "Adam": keras.optimizers.Adam,
    "Ftrl": SparseFtrl,
    "RMSProp": keras.optimizers.RMSprop,
    "SGD": keras.optimizers.SGD,
}


def maker_of(given: Any) -> Callable[[float | None], Any]:
    """A function of the learning rate of one that is named: it gives a new optimizer.

    It is to be called in a model_fn, in which the optimizer's variables are made.

    Args:
        given: a name, an optimizer of Keras's, which is copied, or a function that makes one.

    Raises:
        ValueError: it is none of these.
    """
    if isinstance(given, str):
        if given not in _NAMES:
            raise ValueError(
                f"Unsupported optimizer name: {given}. Supported names are: {tuple(sorted(_NAMES))}"
            )
        kind = _NAMES[given]
        options = {"name": given.lower()}
        return lambda rate: kind(**options, **({} if rate is None else {"learning_rate": rate}))
    if isinstance(given, keras.optimizers.Optimizer):
        # Before a step is traced, in which the values of the user's variables are not known.
        copy = _copier(given)
        return lambda rate: copy()
    if callable(given):
        return lambda rate: _checked(given())
    raise _refused(given)


def _copier(optimizer: Any) -> Callable[[], Any]:
    """A function that makes an optimizer like the user's, which may have variables already.

    Its name is that of its class: the user's counts those that were made before it.
    """
    options = {**optimizer.get_config(), "name": type(optimizer).__name__.lower()}
    kind = SparseFtrl if type(optimizer) is keras.optimizers.Ftrl else type(optimizer)
    return lambda: kind.from_config(dict(options))


def _checked(made: Any) -> Any:
    if not isinstance(made, keras.optimizers.Optimizer):
        raise _refused(made)
    return made


def _refused(given: Any) -> ValueError:
    return ValueError(
        f"The given object is not a tf.keras.optimizers.Optimizer instance. Given: {given!r}"
    )
