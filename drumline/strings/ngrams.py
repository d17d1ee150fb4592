"""Runs of neighbouring strings, joined."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import string_ngrams
from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.native.apply import apply
from drumline.data.native.flat import holds_ragged
from drumline.data.native.operation import Column, NativeOperation, Rows
from drumline.data.native.string_specs import as_text, one, require_strings
from drumline.data.plan.arguments import count_of
from drumline.strings.documents import runs


@dataclasses.dataclass(frozen=True)
class Ngrams(NativeOperation):
    """N-grams along the last dimension."""

    widths: tuple[int, ...]
    separator: bytes
    pads: tuple[bytes, bytes]
    padding: int
    preserve_short: bool

    @property
    def name(self) -> str:
        return "strings.ngrams"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (strings,) = arguments
        require_strings(self.name, strings)
        rank = len(strings.shape)
        if not rank:
            raise ValueError(f"{self.name}: data must have at least one dimension")
        if isinstance(strings, RaggedTensorSpec):
            if rank > 2:
                raise ValueError(f"{self.name}: ragged data has two dimensions, got {strings}")
            return one(RaggedTensorSpec(strings.shape, STRING))
        if rank > 1 and None in strings.shape:
            raise ValueError(f"{self.name}: of arrays only one dimension may vary, got {strings}")
        return one(TensorSpec((*strings.shape[:-1], None), STRING))

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        (column,) = columns
        documents = runs(column)
        given = documents.given
        # TensorFlow does not pad elements without any string.
        skipped = np.repeat(given.sizes() == 0, documents.counts)
        joining = (self.separator, *self.pads, self.padding)
        values, splits = string_ngrams(
            given.values,
            documents.splits,
            list(self.widths),
            joining,
            self.preserve_short,
            skipped,
        )
        ragged = isinstance(column, np.ndarray) and holds_ragged(column)
        return Rows([documents.put_rows(RaggedArray(values, splits), not ragged)])


def ngrams(
    data: Any,
    ngram_width: int | Sequence[int],
    separator: str | bytes = " ",
    pad_values: str | bytes | tuple[str | bytes, str | bytes] | None = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Any:
    """Runs of neighbouring strings joined, as ``tf.strings.ngrams``.

    Args:
        data: strings (..., length), or a ``RaggedArray`` of two dimensions.
        ngram_width: how many strings to join; of several widths, all n-grams of the first come
            first.
        separator: what stands between strings.
        pad_values: what stands for strings before the first and after the last, one or a pair;
            ``None``: no n-gram goes beyond them.
        padding_width: how many of these there are at most, always fewer than the width.
        preserve_short_sequences: whether a row too short for all widths gives one n-gram of all
            its strings instead of none.

    Returns:
        Strings (..., number); a ``RaggedArray`` if ``data`` is one.

    Raises:
        ValueError: a width is less than 1; there is a ``padding_width`` without ``pad_values``.
        TypeError: ``data`` holds no strings.
    """
    name = "strings.ngrams"
    widths = (ngram_width,) if isinstance(ngram_width, int) else tuple(ngram_width)
    checked = tuple(count_of(width, name, "ngram_width", least=1) for width in widths)
    if padding_width is not None and pad_values is None:
        raise ValueError(f"{name}: pad_values must be given if padding_width is")
    pads = pad_values if isinstance(pad_values, tuple | list) else (pad_values, pad_values)
    left, right = (b"" if pad is None else as_text(pad, name, "pad_values") for pad in pads)
    padding = 0 if pad_values is None else max(checked) - 1
    if padding_width is not None:
        padding = min(padding, count_of(padding_width, name, "padding_width", least=1))
    operation = Ngrams(
        checked,
        as_text(separator, name, "separator"),
        (left, right),
        padding,
        bool(preserve_short_sequences),
    )
    return apply(operation, data)
