"""Variables that come into being while a step is traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from drumline.training.keras_internals import (
    Variable,
    initialize_all_variables,
    uninitialized_variables,
)


def initialize_created() -> list[Variable]:
    """Give the variables that a trace created their initial values, and return them."""
    created = list(uninitialized_variables())
    if created:
        initialize_all_variables()
    return created


def refuse_created(fn: Callable[..., Any], created: Sequence[Variable]) -> NoReturn:
    """Raise because a step created variables other than in its first trace.

    Raises:
        ValueError: always, as ``tf.function`` does.
    """
    names = ", ".join(repr(variable.path) for variable in created)
    raise ValueError(
        f"{getattr(fn, '__qualname__', fn)!s} created the variable(s) {names} when it was traced "
        "again. A step may create variables the first time it is traced only. Create them outside "
        "of it, or keep them: `if self.v is None: self.v = dl.Variable(...)`."
    )
