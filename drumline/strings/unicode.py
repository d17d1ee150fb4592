"""Text in the encodings of Unicode."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import unicode_decode as decode_column
from drumline._core import unicode_encode as encode_column
from drumline._core import unicode_split as split_column
from drumline._core import unicode_transcode as transcode_column
from drumline.data.elements.ragged import RaggedTensorSpec
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec, flatten
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.flat import flat
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.strings import (
    Bad,
    Elementwise,
    expanded,
    failure,
    one,
    require_strings,
)
from drumline.strings.documents import runs

READ = (
    "UTF-8",
    "UTF-16-BE",
    "UTF-16-LE",
    "UTF-32-BE",
    "UTF-32-LE",
    "US-ASCII",
    "ISO-8859-1",
)
WRITTEN = ("UTF-8", "UTF-16-BE", "UTF-32-BE")
ERRORS = ("replace", "ignore", "strict")


@dataclasses.dataclass(frozen=True)
class Policy:
    """What to do with what is no character."""

    errors: str
    replacement: str
    controls: bool

    @property
    def given(self) -> tuple[str, str, bool]:
        """As the core takes it."""
        return self.errors, self.replacement, self.controls


@dataclasses.dataclass(frozen=True)
class DecodeUnicode(NativeOperation):
    """The characters of each string: their numbers, or strings of one."""

    encoding: str
    policy: Policy
    numbers: bool
    offsets: bool

    @property
    def name(self) -> str:
        what = "decode" if self.numbers else "split"
        return f"strings.unicode_{what}{'_with_offsets' if self.offsets else ''}"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (strings,) = arguments
        require_strings(self.name, strings)
        characters = expanded(strings, np.int32 if self.numbers else STRING)
        if not self.offsets:
            return one(characters)
        _, structure = flatten((0, 0))
        return ElementSpec(structure, (characters, expanded(strings, np.int64)))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        given = flat(columns[0])
        read = decode_column if self.numbers else split_column
        (values, offsets, splits), bad = read(given.values, self.encoding, self.policy.given)
        error = None
        if bad is not None:
            error = failure(self.name, _damaged(bad[1], self.encoding))
            given = given.head(given.row_of(bad[0]))
            splits = splits[: len(given.values) + 1]
        values, offsets = values[: splits[-1]], offsets[: splits[-1]]
        made: list[Column] = [given.expand(values, splits)]
        if self.offsets:
            made.append(given.expand(offsets, splits))
        return OperationResult(made, error)


@dataclasses.dataclass(frozen=True)
class Transcode(Elementwise):
    """Strings in another encoding."""

    source: str
    target: str
    policy: Policy

    @property
    def name(self) -> str:
        return "strings.unicode_transcode"

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        made, bad = transcode_column(values, self.source, self.target, self.policy.given)
        return made, None if bad is None else (bad[0], _damaged(bad[1], self.source))


@dataclasses.dataclass(frozen=True)
class Encode(NativeOperation):
    """Strings of characters along the last dimension."""

    encoding: str
    policy: Policy

    @property
    def name(self) -> str:
        return "strings.unicode_encode"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (numbers,) = arguments
        if numbers.dtype != np.int32 or not numbers.shape:
            raise TypeError(f"{self.name}: expected an int32 array of characters, got {numbers}")
        if isinstance(numbers, RaggedTensorSpec) and len(numbers.shape) > 2:
            raise ValueError(f"{self.name}: ragged arrays have two dimensions, got {numbers}")
        if None in numbers.shape[:-1] and len(numbers.shape) > 2:
            raise ValueError(f"{self.name}: only the last of several dimensions may vary")
        outer = numbers.shape[:-1]
        varies = isinstance(numbers, RaggedTensorSpec) or None in numbers.shape
        return one(TensorSpec([None] * len(outer) if varies else outer, STRING))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        (column,) = columns
        documents = runs(column)
        values = documents.given.values
        made, bad = encode_column(values, documents.splits, self.encoding, self.policy.given)
        if bad is None:
            return OperationResult([documents.put(made)])
        row = documents.given.row_of(int(documents.splits[bad]))
        before = runs(column[:row])
        reason = "a number is no character of Unicode"
        return OperationResult(
            [before.put(made[: len(before.splits) - 1])], failure(self.name, reason)
        )


def _damaged(byte: int, encoding: str) -> str:
    return f"byte {byte} begins no character of {encoding}"


def _policy(name: str, errors: str, replacement: int, controls: bool) -> Policy:
    if errors not in ERRORS:
        raise ValueError(f"{name}: errors must be one of {ERRORS}, got {errors!r}")
    if not 0 <= replacement < 0x110000 or 0xD800 <= replacement < 0xE000:
        raise ValueError(f"{name}: replacement_char {replacement} is no character of Unicode")
    return Policy(errors, chr(replacement), bool(controls))


def _encoding(name: str, argument: str, encoding: str, known: Sequence[str]) -> str:
    if encoding not in known:
        raise ValueError(f"{name}: {argument} must be one of {', '.join(known)}, got {encoding!r}")
    return encoding


def unicode_decode(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """The characters of strings as numbers, as ``tf.strings.unicode_decode``.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.
        input_encoding: UTF-8, UTF-16-BE, UTF-16-LE, UTF-32-BE, UTF-32-LE, US-ASCII or ISO-8859-1.
        errors: what to do with bytes that are no character: ``"replace"`` them, ``"ignore"`` them,
            or (``"strict"``) raise.
        replacement_char: the number of the character that replaces them.
        replace_control_characters: whether it replaces those below 32 as well.

    Returns:
        int32: of a string an array (characters,), of arrays a ``RaggedArray`` with one more
        dimension.

    Raises:
        ValueError: an argument is none of these; or bytes are no character.
        TypeError: ``input`` holds no strings.
    """
    name = "strings.unicode_decode"
    encoding = _encoding(name, "input_encoding", input_encoding, READ)
    policy = _policy(name, errors, replacement_char, replace_control_characters)
    return apply(DecodeUnicode(encoding, policy, True, False), input)


def unicode_decode_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """The characters of strings and the bytes where they begin.

    As ``tf.strings.unicode_decode_with_offsets``. Arguments and errors are ``unicode_decode``'s.

    Returns:
        Numbers of characters, int32, and offsets, int64, both in the shape that ``unicode_decode``
        gives.
    """
    name = "strings.unicode_decode_with_offsets"
    encoding = _encoding(name, "input_encoding", input_encoding, READ)
    policy = _policy(name, errors, replacement_char, replace_control_characters)
    return apply(DecodeUnicode(encoding, policy, True, True), input)


def unicode_split(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> Any:
    """The characters of strings as strings, as ``tf.strings.unicode_split``.

    Arguments and errors are ``unicode_decode``'s, but for ``input_encoding``, which is UTF-8,
    UTF-16-BE or UTF-32-BE, and the encoding of the characters too.

    Returns:
        Strings of one character, in the shape that ``unicode_decode`` gives.
    """
    name = "strings.unicode_split"
    encoding = _encoding(name, "input_encoding", input_encoding, WRITTEN)
    policy = _policy(name, errors, replacement_char, False)
    return apply(DecodeUnicode(encoding, policy, False, False), input)


def unicode_transcode(
    input: Any,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Strings in another encoding, as ``tf.strings.unicode_transcode``.

    Arguments and errors are ``unicode_decode``'s; ``output_encoding`` is UTF-8, UTF-16-BE or
    UTF-32-BE.
    """
    name = "strings.unicode_transcode"
    source = _encoding(name, "input_encoding", input_encoding, READ)
    target = _encoding(name, "output_encoding", output_encoding, WRITTEN)
    policy = _policy(name, errors, replacement_char, replace_control_characters)
    return apply(Transcode(source, target, policy), input)


def unicode_encode(
    input: Any,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> Any:
    """Characters given as numbers, as strings, as ``tf.strings.unicode_encode``.

    Args:
        input: int32 (..., characters), or a ``RaggedArray`` of two dimensions.
        output_encoding: UTF-8, UTF-16-BE or UTF-32-BE.
        errors: what to do with numbers that are no character, as of ``unicode_decode``.
        replacement_char: as of ``unicode_decode``.

    Returns:
        Strings, without the last dimension of ``input``.

    Raises:
        ValueError: an argument is none of these; or a number is no character.
        TypeError: ``input`` is no such array.
    """
    name = "strings.unicode_encode"
    encoding = _encoding(name, "output_encoding", output_encoding, WRITTEN)
    return apply(Encode(encoding, _policy(name, errors, replacement_char, False)), input)
