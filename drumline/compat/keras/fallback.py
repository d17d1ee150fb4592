"""Which of Keras's modules has the names of a namespace under ``tf.keras``, and its functions."""

from __future__ import annotations

import functools
import importlib
from types import FunctionType, ModuleType
from typing import Any

from drumline.compat.keras import boundaries

_ROOT = "keras._tf_keras.keras"
_OF_TENSORS = ("keras.activations", "keras.losses", "keras.metrics", "keras.ops", "keras.random")
_NEEDS_TENSORFLOW = "keras.src.legacy.backend"
_AS_THEY_ARE = ("get", "serialize", "deserialize")


@functools.cache
def keras_module(path: str) -> ModuleType | None:
    """Keras's module of a path, as ``"keras.layers"``; None if it has none.

    Keras has modules for those who know it as ``tf.keras``, which need no TensorFlow.
    """
    boundaries.install()
    name = _ROOT + path.removeprefix("keras")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
    found: Any = importlib.import_module(_ROOT)
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    return found if isinstance(found, ModuleType) else None


def keras_attribute(module: ModuleType, name: str) -> Any:
    """What a module of Keras's has under a name; functions of arrays as ones of tensors.

    Raises:
        AttributeError: it has no such name.
    """
    found = getattr(module, name)
    path = "keras" + module.__name__.removeprefix(_ROOT)
    if getattr(found, "__module__", "") == _NEEDS_TENSORFLOW:
        raise AttributeError(
            f"tf.{path}.{name} is not in the look-alike: Keras has it with TensorFlow only; use "
            "the function of tf, tf.math, tf.nn or keras.ops"
        )
    of_tensors = path.startswith(_OF_TENSORS) and name not in _AS_THEY_ARE
    if of_tensors and isinstance(found, FunctionType):
        return boundaries.function_of_tensors(found)
    return found
