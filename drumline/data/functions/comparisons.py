"""Comparisons of strings that Python would decide otherwise than the traced program."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from drumline.data.functions.raw_trace import NotTraceable
from drumline.data.functions.user_function import UserFunction
from drumline.data.native.symbol import compared_texts


@contextlib.contextmanager
def same_in_python(user: UserFunction) -> Iterator[None]:
    """Around the tracing of a function that runs as Python if it cannot be traced.

    Raises:
        TypeError: it cannot, and compares strings with ``str``: these would be unequal to all.
    """
    with compared_texts() as texts:
        try:
            yield
        except NotTraceable as reason:
            if not texts:
                raise
            text = texts[0]
            raise TypeError(
                f"{user.where} compares strings with the str {text!r}, and runs as Python, since "
                f"{reason}. Strings are bytes there, which are equal to no str: compare them with "
                f"{text.encode()!r}, or by dl.strings.equal"
            ) from reason
