"""``tf.strings``: functions of byte strings, native in the functions of a ``map``."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline import strings
from drumline.compat.values.boundary import of_tensors, wrap
from drumline.compat.values.convert import convert
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor
from drumline.data.elements.ragged import RaggedArray
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython

as_string = of_tensors(strings.as_string)
join = of_tensors(strings.join)
length = of_tensors(strings.length)
lower = of_tensors(strings.lower)
ngrams = of_tensors(strings.ngrams)
reduce_join = of_tensors(strings.reduce_join)
regex_full_match = of_tensors(strings.regex_full_match)
regex_replace = of_tensors(strings.regex_replace)
split = of_tensors(strings.split)
strip = of_tensors(strings.strip)
substr = of_tensors(strings.substr)
to_hash_bucket_fast = of_tensors(strings.to_hash_bucket_fast)
to_hash_bucket_strong = of_tensors(strings.to_hash_bucket_strong)
to_number = of_tensors(strings.to_number)
unicode_decode = of_tensors(strings.unicode_decode)
unicode_decode_with_offsets = of_tensors(strings.unicode_decode_with_offsets)
unicode_encode = of_tensors(strings.unicode_encode)
unicode_split = of_tensors(strings.unicode_split)
unicode_transcode = of_tensors(strings.unicode_transcode)
upper = of_tensors(strings.upper)


def bytes_split(input: Any, name: Any = None) -> Any:
    """Split each string into its bytes, as ``tf.strings.bytes_split``.

    Args:
        input: a scalar or a vector of strings.
        name: ignored.

    Returns:
        A tensor of strings of one byte each; of a vector, ragged rows of them.

    Raises:
        InvalidArgumentError: it has more dimensions.
        ValueNeedsPython: within a map that is traced, which then runs as Python.
    """
    value = convert(input)
    if isinstance(value, Symbol):
        raise ValueNeedsPython("the function splits strings into bytes")
    if np.ndim(value) > 1:
        raise InvalidArgumentError(None, None, "bytes_split takes a scalar or a vector of strings")
    rows = [[bytes([byte]) for byte in row] for row in np.ravel(value).tolist()]
    flat = np.array([item for row in rows for item in row], object)
    if np.ndim(value) == 0:
        return Tensor(flat)
    return wrap(RaggedArray.from_row_lengths(flat, [len(row) for row in rows]))
