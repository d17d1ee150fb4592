"""What is a tensor made of several: `CompositeTensor`, the base of ragged and sparse ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class CompositeTensor:
    """A tensor made of several.

    Attributes:
        handlers: the module that registers what functions of tensors do with it; imported when one
            first gets it.
        remedy: what to do where a function does not take it.
    """

    handlers: ClassVar[str] = ""
    remedy: ClassVar[str] = ""

    def elementwise(self, arity: int) -> Callable[..., Any] | None:
        """What applies functions of one or two tensors, element by element; None for nothing.

        It takes the function and its arguments.
        """
        return None
