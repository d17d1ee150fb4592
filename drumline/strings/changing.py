"""Strings changed alone: letters' case, white space at the ends."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from drumline._core import change_strings
from drumline.data.native import string_chain
from drumline.data.native.apply import apply
from drumline.data.native.string_elementwise import Bad, Elementwise


@dataclasses.dataclass(frozen=True)
class Change(Elementwise, string_chain.Link):
    """A change without arguments."""

    how: str

    @property
    def name(self) -> str:
        return f"strings.{self.how.split()[0]}"

    @property
    def changes(self) -> tuple[string_chain.Change, ...]:
        return (self.how,)

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        return change_strings(values, self.how), None


def lower(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Strings in lower case, as ``tf.strings.lower``.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.
        encoding: ``""`` changes ASCII letters only, ``"utf-8"`` all; bytes that are no UTF-8 then
            become U+FFFD.

    Returns:
        Strings, in the shape of ``input``.

    Raises:
        ValueError: the encoding is neither.
        TypeError: ``input`` holds no strings.
    """
    return apply(Change(_with("lower", encoding)), input)


def upper(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Strings in upper case, as ``tf.strings.upper``; arguments and errors are ``lower``'s."""
    return apply(Change(_with("upper", encoding)), input)


def strip(input: Any, name: str | None = None) -> Any:
    """Strings without white space (ASCII's) at their ends, as ``tf.strings.strip``.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.

    Raises:
        TypeError: ``input`` holds no strings.
    """
    return apply(Change("strip"), input)


def _with(how: str, encoding: str) -> str:
    if encoding not in ("", "utf-8"):
        raise ValueError(f"strings.{how}: encoding must be '' or 'utf-8', got {encoding!r}")
    return f"{how} {encoding}".rstrip()
