"""``tf.strings``: functions of byte strings, native in the functions of a ``map``."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline import strings
from drumline.compat.values.boundary import of_tensors, wrap
from drumline.compat.values.convert import convert, static
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


def unicode_split_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: Any = None,
) -> tuple[Any, Any]:
    """Split strings into characters, as ``tf.strings.unicode_split_with_offsets``.

    Args:
        input: strings of any shape.
        input_encoding: ``"UTF-8"``, ``"UTF-16-BE"`` or ``"UTF-32-BE"``.
        errors: ``"replace"``, ``"ignore"`` or ``"strict"``.
        replacement_char: for what is no character.
        name: ignored.

    Returns:
        The characters, and the byte of its string at which each begins, int64.

    Example:
        >>> unicode_split_with_offsets("\u00e9t", "UTF-8")[1].numpy().tolist()
        [0, 2]
    """
    options = {"errors": errors, "replacement_char": replacement_char}
    offsets = unicode_decode_with_offsets(input, input_encoding, **options)[1]
    return unicode_split(input, input_encoding, **options), offsets


def unsorted_segment_join(
    inputs: Any, segment_ids: Any, num_segments: Any, separator: str = "", name: Any = None
) -> Tensor:
    """Join the strings of each segment, as ``tf.strings.unsorted_segment_join``.

    Args:
        inputs: strings (n, ...), or with more dimensions that `segment_ids` has, too.
        segment_ids: the number of the segment of each.
        num_segments: how many segments there are.
        separator: between strings, but not behind empty ones at the beginning.
        name: ignored.

    Returns:
        Strings (num_segments, ...), empty for segments without any.

    Raises:
        InvalidArgumentError: the shapes do not fit, or a number is not in
            [0, num_segments).
        ValueNeedsPython: within a map that is traced, which then runs as Python.

    Example:
        >>> unsorted_segment_join(["a", "b", "c"], [1, 0, 1], 2, ":").numpy().tolist()
        [b'b', b'a:c']
    """
    given = convert(inputs)
    if isinstance(given, Symbol):
        raise ValueNeedsPython("the function joins strings of segments")
    data, ids = np.asarray(given, object), np.asarray(static(segment_ids))
    count = int(static(num_segments))
    if not ids.ndim or data.shape[: ids.ndim] != ids.shape:
        message = f"segment_ids of the shape {ids.shape} do not fit inputs of {data.shape}"
        raise InvalidArgumentError(None, None, message)
    outside = ids[(ids < 0) | (ids >= count)]
    if outside.size:
        message = f"segment_ids: {outside[0]} is not in [0, {count})"
        raise InvalidArgumentError(None, None, message)
    inner = data.shape[ids.ndim :]
    size = int(np.prod(inner))
    between = separator.encode()
    joined = np.full(count * size, b"", object)
    for number, row in zip(ids.ravel().tolist(), data.reshape(ids.size, size), strict=True):
        for at, item in enumerate(row.tolist(), number * size):
            string = item if isinstance(item, bytes) else item.encode()
            joined[at] = joined[at] + between + string if joined[at] else string
    return Tensor(joined.reshape(count, *inner))
