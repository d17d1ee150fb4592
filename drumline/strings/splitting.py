"""Strings cut into parts."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

from drumline._core import split_strings
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.native.apply import apply
from drumline.data.native.flat import flat
from drumline.data.native.operation import Column, Rows
from drumline.data.native.string_chain import Cut, Link
from drumline.data.native.string_specs import as_text, expanded, one, require_strings


@dataclasses.dataclass(frozen=True)
class Split(Link):
    """Parts of each string."""

    separator: bytes
    most: int

    @property
    def name(self) -> str:
        return "strings.split"

    @property
    def cut(self) -> Cut | None:
        return self.separator, self.most

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (strings,) = arguments
        require_strings(self.name, strings)
        return one(expanded(strings, STRING))

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        given = flat(columns[0])
        return Rows([given.expand(*split_strings(given.values, self.separator, self.most))])


def split(
    input: Any, sep: str | bytes | None = None, maxsplit: int = -1, name: str | None = None
) -> Any:
    """Strings cut at a separator, as ``tf.strings.split``.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.
        sep: where to cut. ``None`` and ``""`` cut at runs of ASCII white space, which gives no
            empty parts.
        maxsplit: how often to cut each string at most, if it is 0 or more.

    Returns:
        Of a string an array (parts,); of arrays a ``RaggedArray`` with one more dimension.

    Raises:
        TypeError: ``input`` holds no strings.
    """
    separator = b"" if sep is None else as_text(sep, "strings.split", "sep")
    return apply(Split(separator, operator.index(maxsplit)), input)
