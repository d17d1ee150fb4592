"""TensorFlow 2's functions with the arguments that TensorFlow 1 had for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline.compat.symbols import table

KEPT_DIMENSIONS = {"reduction_indices": "axis", "keep_dims": "keepdims"}
"""What reductions called their arguments."""


def former(
    name: str, target: str, parameters: str, renamed: dict[str, str], hints: str = "name"
) -> Callable[..., Any]:
    """A function of TensorFlow 1.

    Args:
        name: its own.
        target: the name of TensorFlow 2's.
        parameters: the names of its parameters, in their order.
        renamed: what TensorFlow 2 calls some of them.
        hints: those that have no effect.
    """
    names, ignored = parameters.split(), hints.split()

    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names):
            raise TypeError(f"{name}() takes {len(names)} arguments, but {len(args)} were given")
        for key, value in kwargs.items():
            if key not in names or key in given:
                problem = "got an unexpected" if key not in names else "got twice the"
                raise TypeError(f"{name}() {problem} argument {key!r}")
            given[key] = value
        chosen: dict[str, Any] = {}
        for key, value in given.items():
            new = renamed.get(key, key)
            if key in ignored or (value is None and key != new):
                continue
            if chosen.get(new) is not None and value is not None:
                raise ValueError(f"Cannot specify both {new!r} and {key!r} of {name}()")
            if value is not None or new not in chosen:
                chosen[new] = value
        found = table.find(target)
        if found is None:
            raise NotImplementedError(table.missing(target))
        return found.load()(**chosen)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"As ``tf.{target}``, with TensorFlow 1's arguments: {', '.join(names)}."
    return call
