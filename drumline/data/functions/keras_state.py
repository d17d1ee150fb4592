"""Keras variables that a function writes while it is traced."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def keras_writes_held() -> Iterator[list[str]]:
    """Keeps Keras variables as they are, and lists on exit that some would have been written.

    A layer with a seed, such as ``RandomFlip``, advances it whenever it is called; a traced value
    assigned to it would make the layer unusable.
    """
    written: list[str] = []
    keras = sys.modules.get("keras")
    if keras is None or not hasattr(keras, "StatelessScope"):
        yield written
        return
    with keras.StatelessScope() as scope:
        yield written
    if scope.state_mapping:
        written.append("it updates Keras variables, such as a layer's seed")
