"""Which of Keras's modules has the names of a namespace under ``tf.keras``."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any

from drumline.compat.keras import boundaries

_ROOT = "keras._tf_keras.keras"


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
