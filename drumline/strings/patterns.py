"""Regular expressions."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from drumline._core import StringPattern
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.strings import Bad, Change, Elementwise, Link, as_text


@dataclasses.dataclass(frozen=True)
class RegexReplace(Elementwise, Link):
    """Matches replaced."""

    pattern: str
    rewrite: bytes
    replace_global: bool

    @property
    def name(self) -> str:
        return "strings.regex_replace"

    @property
    def changes(self) -> tuple[Change, ...]:
        return ((_compiled(self.pattern), self.rewrite, self.replace_global),)

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        return _compiled(self.pattern).replace(values, self.rewrite, self.replace_global), None


@dataclasses.dataclass(frozen=True)
class RegexFullMatch(Elementwise):
    """Whether strings match as a whole."""

    pattern: str

    @property
    def name(self) -> str:
        return "strings.regex_full_match"

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.bool_)

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        return _compiled(self.pattern).matches(values), None


def regex_replace(
    input: Any,
    pattern: str | bytes,
    rewrite: str | bytes,
    replace_global: bool = True,
    name: str | None = None,
) -> Any:
    r"""Strings with what matches a pattern replaced, as ``tf.strings.regex_replace``.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.
        pattern: a regular expression with RE2's syntax.
        rewrite: what matches are replaced by; ``\1`` to ``\9`` stand for what the pattern's groups
            matched, ``\0`` for the whole match, ``\\`` for a backslash.
        replace_global: whether all matches are replaced, or the first of each string.

    Raises:
        ValueError: the pattern or the rewrite is wrong.
        TypeError: ``input`` holds no strings.
    """
    name = "strings.regex_replace"
    text, by = _pattern(name, pattern), as_text(rewrite, name, "rewrite")
    try:
        _compiled(text).check(by)
    except ValueError as error:
        raise ValueError(f"{name}: rewrite {rewrite!r}: {error}") from None
    return apply(RegexReplace(text, by, bool(replace_global)), input)


def regex_full_match(input: Any, pattern: str | bytes, name: str | None = None) -> Any:
    """Whether strings match a pattern as a whole, as ``tf.strings.regex_full_match``.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.
        pattern: a regular expression with RE2's syntax.

    Returns:
        bool, in the shape of ``input``.

    Raises:
        ValueError: the pattern is wrong.
        TypeError: ``input`` holds no strings.
    """
    return apply(RegexFullMatch(_pattern("strings.regex_full_match", pattern)), input)


@functools.lru_cache(256)
def _compiled(pattern: str) -> StringPattern:
    return StringPattern(pattern)


def _pattern(name: str, pattern: str | bytes) -> str:
    text = as_text(pattern, name, "pattern").decode()
    try:
        _compiled(text)
    except ValueError as error:
        raise ValueError(f"{name}: pattern {text!r}: {error}") from None
    return text
