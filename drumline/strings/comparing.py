"""Strings compared."""

from __future__ import annotations

from typing import Any

from drumline.data.native.apply import apply
from drumline.data.native.comparing import Equal


def equal(x: Any, y: Any) -> Any:
    """Whether strings are the same, as ``tf.equal`` of strings.

    Args:
        x: strings of any shape, ``bytes`` or ``str``.
        y: strings of the same shape, or one, which may also be ``x``; arrays are broadcast.

    Returns:
        bool, in their shape.

    Raises:
        ValueError: the shapes do not go together.
        TypeError: they are no strings.
    """
    return apply(Equal(False), x, y)


def not_equal(x: Any, y: Any) -> Any:
    """Whether strings differ, as ``tf.not_equal``; arguments and errors are ``equal``'s."""
    return apply(Equal(True), x, y)
