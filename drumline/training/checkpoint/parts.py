"""What an object that is saved consists of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras

from drumline.training.keras_internals import (
    Variable,
    own_variables,
    seed_generators,
    sublayers,
    submetrics,
)


@dataclass
class Parts:
    """An object, taken apart.

    Attributes:
        variables: its own variables, in the order in which it made them.
        children: the objects it holds, by name.
        has_state: whether its position is saved, by ``state()`` and ``restore(state)``.
        grows: whether it makes variables when it is built, and is not built yet.
    """

    variables: list[Variable] = field(default_factory=list)
    children: dict[str, Any] = field(default_factory=dict)
    has_state: bool = False
    grows: bool = False


def parts_of(value: Any, path: str) -> Parts:
    """Take `value` apart.

    The order of variables and layers is that in which the program makes them, so that the same
    program finds them again whatever names Keras has given them.

    Raises:
        TypeError: if it is nothing that can be saved; the message names `path`.
    """
    if isinstance(value, Variable):
        return Parts([value])
    if isinstance(value, keras.random.SeedGenerator):
        return Parts([value.state])
    if isinstance(value, keras.optimizers.Optimizer):
        inner = _held(value, keras.optimizers.Optimizer)
        return Parts(own_variables(value), inner, grows=not value.built)
    if isinstance(value, keras.Layer):
        return Parts(own_variables(value), _of_layer(value), grows=not value.built)
    if isinstance(value, keras.metrics.Metric):
        return Parts(own_variables(value), _numbered("metrics", submetrics(value)))
    if isinstance(value, Mapping):
        return Parts(children={str(key): child for key, child in value.items()})
    if isinstance(value, (list, tuple)):
        return Parts(children={str(index): child for index, child in enumerate(value)})
    if hasattr(value, "checkpointed_objects"):
        return Parts(children=value.checkpointed_objects())
    if callable(getattr(value, "state", None)) and callable(getattr(value, "restore", None)):
        return Parts(has_state=True)
    raise TypeError(
        f"A checkpoint cannot save {path!r}: {type(value).__name__} is no Keras model, layer, "
        "optimizer, metric, variable, seed generator or iterator of a dataset, and no dict, list "
        "or Checkpoint of these. Keep a number in a variable: dl.Variable(0)."
    )


def _of_layer(layer: Any) -> dict[str, Any]:
    children = _numbered("layers", sublayers(layer))
    children |= _numbered("metrics", submetrics(layer))
    children |= _numbered("seed_generators", seed_generators(layer))
    optimizer = getattr(layer, "optimizer", None) if isinstance(layer, keras.Model) else None
    if isinstance(optimizer, keras.optimizers.Optimizer):
        children["optimizer"] = optimizer
    return children


def _numbered(name: str, values: Iterable[Any]) -> dict[str, Any]:
    return {f"{name}/{index}": value for index, value in enumerate(values)}


def _held(value: Any, kind: type) -> dict[str, Any]:
    """Its attributes of a type, by name."""
    return {name: held for name, held in vars(value).items() if isinstance(held, kind)}
