"""Text to numbers in one native operation, and learning its vocabulary."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from drumline._core import TextTokenizer, TokenCounts
from drumline.data.dataset import Dataset
from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec, splits_of
from drumline.data.elements.spec import (
    INFINITE,
    STRING,
    ElementSpec,
    TensorSpec,
    as_array,
)
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.strings import (
    Bad,
    Elementwise,
    Vocabulary,
    one,
    require_strings,
)
from drumline.strings.documents import Documents, runs, texts

NAME = "strings.TextVectorization"

_NUMBERING = (0, 1, 2)
"""What empty tokens, unknown ones and the vocabulary's first count as."""

_PLACES = (-1, 0, 1)
"""The same where tokens are counted: empty ones are not."""


@dataclasses.dataclass(frozen=True)
class Tokens:
    """How text becomes tokens.

    Attributes:
        lower: whether ASCII letters become small.
        strip_punctuation: whether ASCII's punctuation is left out.
        split: ``"whitespace"`` or ``"character"``; ``""`` for strings that are tokens.
        ngrams: widths of the n-grams that stand for tokens, if they do.
    """

    lower: bool
    strip_punctuation: bool
    split: str
    ngrams: tuple[int, ...] | None

    @property
    def tokenizer(self) -> TextTokenizer:
        """As the core makes them."""
        return _tokenizer(self)

    def documents(self, column: Column) -> Documents:
        """The documents that are to be cut, each by itself."""
        return texts(column) if self.split else runs(column)

    def outer(self, spec: TensorSpec) -> tuple[int | None, ...]:
        """The dimensions of an array of documents.

        Raises:
            ValueError: strings to split are no array of documents.
        """
        require_strings(NAME, spec)
        shape = spec.shape
        if self.split:
            if len(shape) > 1 and (shape[-1] != 1 or None in shape[1:]):
                raise ValueError(
                    f"{NAME}: text to split has one dimension, or a last one of 1; got {spec}"
                )
            return shape[:-1] if len(shape) > 1 else shape
        if not shape and self.ngrams:
            raise ValueError(f"{NAME}: tokens for n-grams have at least one dimension")
        if len(shape) > 2 and None in shape[:-1]:
            raise ValueError(f"{NAME}: only the last of several dimensions may vary, got {spec}")
        varies = isinstance(spec, RaggedTensorSpec) or None in shape
        return (None,) * (len(shape) - 1) if varies else shape[:-1]


@functools.lru_cache(64)
def _tokenizer(tokens: Tokens) -> TextTokenizer:
    widths = None if tokens.ngrams is None else list(tokens.ngrams)
    return TextTokenizer(tokens.lower, tokens.strip_punctuation, tokens.split, widths)


@dataclasses.dataclass(frozen=True)
class EachToken(Elementwise):
    """The number of each string, which is a token."""

    tokens: Tokens
    vocabulary: Vocabulary

    @property
    def name(self) -> str:
        return NAME

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int64)

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        splits = np.arange(len(values) + 1, dtype=np.int64)
        table = self.vocabulary.table
        return self.tokens.tokenizer.numbers(values, splits, table, _NUMBERING)[0], None


@dataclasses.dataclass(frozen=True)
class Vectorize(NativeOperation):
    """Numbers of each document's tokens, in order.

    Attributes:
        length: how many there are: zeros are added, the rest is cut off. ``None``: as many as
            the longest document of an element has.
        ragged: whether documents of an element may have different numbers of them.
    """

    tokens: Tokens
    vocabulary: Vocabulary
    length: int | None
    ragged: bool

    @property
    def name(self) -> str:
        return NAME

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (spec,) = arguments
        outer = self.tokens.outer(spec)
        if not outer:
            inner = None if self.ragged else self.length
            return one(TensorSpec((inner,), np.int64))
        if self.ragged:
            shape = (outer[0], *[None] * len(outer))
            return one(RaggedTensorSpec(shape, np.int64, len(outer)))
        return one(TensorSpec((*outer, self.length), np.int64))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        documents = self.tokens.documents(columns[0])
        given = (documents.given.values, documents.splits, self.vocabulary.table, _NUMBERING)
        tokenizer = self.tokens.tokenizer
        if self.length is not None and not self.ragged:
            return OperationResult([documents.put(tokenizer.padded(*given, self.length))])
        rows = RaggedArray(*tokenizer.numbers(*given))
        if self.length is not None:
            rows = _cut(rows, self.length)
        return OperationResult([documents.put_rows(rows, not self.ragged)])


@dataclasses.dataclass(frozen=True)
class Count(NativeOperation):
    """How often each number stands for a token of a document.

    Attributes:
        depth: how many numbers there are.
        once: whether they count once at most.
        weights: what counts are multiplied by, if they are; bytes of float32.
    """

    tokens: Tokens
    vocabulary: Vocabulary
    depth: int
    once: bool
    weights: bytes | None

    @property
    def name(self) -> str:
        return NAME

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (spec,) = arguments
        outer = self.tokens.outer(spec)
        dtype = np.int64 if self.weights is None else np.float32
        return one(TensorSpec((*outer, self.depth), dtype))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        documents = self.tokens.documents(columns[0])
        counts = self.tokens.tokenizer.counted(
            documents.given.values,
            documents.splits,
            self.vocabulary.table,
            _PLACES,
            self.depth,
            self.once,
        )
        if self.weights is not None:
            weights = np.frombuffer(self.weights, np.float32)
            return OperationResult([documents.put(counts.astype(np.float32) * weights)])
        return OperationResult([documents.put(counts)])


def _cut(rows: RaggedArray, length: int) -> RaggedArray:
    """Rows without what comes after their first ``length`` values."""
    lengths = np.minimum(rows.row_lengths(), length)
    starts = rows.row_splits[:-1]
    steps = np.arange(int(lengths.sum()), dtype=np.int64)
    splits = splits_of(lengths)
    return RaggedArray(rows.values[steps + np.repeat(starts - splits[:-1], lengths)], splits)


AT_ONCE = 1024


def documents_of(
    data: Any, batch_size: int | None, steps: int | None, tokens: bool
) -> Iterator[np.ndarray]:
    """Batches of strings: (n,) or (n, 1).

    Args:
        data: a dataset, an array or a list, or an iterable of batches.
        batch_size: how many single strings of a dataset to take at once.
        steps: the most elements to take of it.
        tokens: whether the strings of a batch (n,) are the tokens of one document.
    """
    if isinstance(data, Dataset):
        yield from _of_dataset(data, batch_size, steps, tokens)
    elif isinstance(data, list | tuple | np.ndarray):
        strings = as_array(data)
        yield strings[:, None] if tokens and strings.ndim == 1 else strings
    else:
        yield from map(as_array, itertools.islice(data, steps))


def _of_dataset(
    data: Dataset, batch_size: int | None, steps: int | None, tokens: bool
) -> Iterator[np.ndarray]:
    if steps is None and data.cardinality() == INFINITE:
        raise ValueError(
            f"{NAME}: adapt would never come to the end of this dataset (its cardinality is "
            "infinite): give steps=, or a part of it, dataset.take(n)"
        )
    spec = data.element_spec
    if getattr(spec, "dtype", None) != STRING:
        raise TypeError(
            f"strings.TextVectorization: adapt takes a dataset of strings, this one has {spec}; "
            "map it to its text first"
        )
    taken = data if steps is None else data.take(steps)
    if spec.shape:
        yield from taken
        return
    for batch in taken.batch(batch_size or AT_ONCE):
        yield batch[:, None] if tokens else batch


@dataclasses.dataclass(frozen=True)
class Learned:
    """Tokens in order, in how many documents each was, and how many documents there were."""

    tokens: list[bytes]
    rows: np.ndarray
    documents: int

    def weights(self) -> np.ndarray:
        """The inverse document frequencies of unknown tokens and of these, float32."""
        return with_unknown(np.log(1 + self.documents / (1 + self.rows)).astype(np.float32))


def learned_tokens(counts: TokenCounts, most: int | None) -> Learned:
    """The most frequent tokens, at most so many; of equally frequent ones the greatest first."""
    tokens, times, rows, documents = counts.counts()
    order = np.lexsort((np.argsort(np.argsort(tokens)), times))[::-1]
    special = (b"", b"[UNK]")
    kept = [place for place in order.tolist() if tokens[place] not in special][:most]
    return Learned([tokens[place] for place in kept], rows[kept], documents)


def with_unknown(weights: np.ndarray) -> np.ndarray:
    """Weights with their mean in front, for unknown tokens."""
    mean = np.mean(weights, dtype=np.float32) if len(weights) else np.float32(0)
    return np.concatenate([[mean], weights]).astype(np.float32)
