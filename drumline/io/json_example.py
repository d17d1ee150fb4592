"""``tf.io.decode_json_example``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.elements.structure import LEAF_STRUCTURE
from drumline.data.messages.from_json import example_from_json
from drumline.data.native.apply import apply
from drumline.data.native.operation import Column, NativeOperation, Rows


@dataclasses.dataclass(frozen=True)
class DecodeJsonExample(NativeOperation):
    """From JSON to serialized messages; JSON is read by Python's library, one after the other."""

    row_by_row: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "io.decode_json_example"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (texts,) = arguments
        if not texts.is_string:
            raise TypeError(f"decode_json_example: takes strings, not {texts}")
        if None in texts.shape[1:]:
            raise ValueError(f"decode_json_example: takes arrays of a fixed shape, not {texts}")
        return ElementSpec(LEAF_STRUCTURE, (texts,))

    def run(self, columns: Sequence[Column], n: int) -> Rows:
        (texts,) = columns
        if isinstance(texts, RaggedArray):
            flat, ends = np.asarray(texts.values), texts.row_splits
        else:
            flat = np.asarray(texts)
            ends = np.arange(n + 1) * (flat.size // n if n else 0)
        decoded = np.empty(flat.size, STRING)
        rows, error = n, None
        for position, text in enumerate(flat.reshape(-1)):
            try:
                decoded[position] = example_from_json(text).SerializeToString()
            except ValueError as wrong:
                rows = int(np.searchsorted(ends, position, "right")) - 1
                error = ValueError(f"decode_json_example: {wrong}")
                break
        kept = decoded[: int(ends[rows])]
        if isinstance(texts, RaggedArray):
            return Rows([RaggedArray(kept, ends[: rows + 1])], error)
        return Rows([kept.reshape(rows, *flat.shape[1:])], error)


def decode_json_example(json_examples: Any, name: str | None = None) -> Any:
    """Serialized ``Example`` messages from their JSON, as ``tf.io.decode_json_example``.

    Args:
        json_examples: strings of any shape, in protocol buffers' JSON mapping: integers may be
            strings, ``bytes`` are base64.

    Returns:
        ``bytes`` in the same shape, for ``parse_example``.

    Raises:
        TypeError: the argument is no string.
        ValueError: a string is not such JSON; the message says where.
    """
    return apply(DecodeJsonExample(), json_examples)
