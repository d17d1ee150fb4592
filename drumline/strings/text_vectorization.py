"""Text to numbers, by a vocabulary that can be learned from a dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from drumline._core import TokenCounts
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.rows import single
from drumline.data.elements.spec import as_array
from drumline.data.functions.native.apply import apply, is_symbol
from drumline.data.functions.native.strings import Vocabulary
from drumline.strings.elementwise import lower
from drumline.strings.patterns import regex_replace
from drumline.strings.vectorizing import (
    NAME,
    Count,
    EachToken,
    Tokens,
    Vectorize,
    documents_of,
    learned_tokens,
    with_unknown,
)

_STANDARDIZE = ("lower_and_strip_punctuation", "lower", "strip_punctuation")
_SPLIT = ("whitespace", "character")
_MODES = ("int", "multi_hot", "count", "tf_idf")
_PUNCTUATION = "[[:punct:]]"

Function = Callable[[Any], Any]


class TextVectorization:
    """Turns text into numbers of a vocabulary, as ``keras.layers.TextVectorization``.

    Keras's own layer needs TensorFlow. Call this one on strings, or in a dataset's `map`: there it
    is one native operation. No device holds strings, so it cannot be part of a model.

    Args:
        max_tokens: the most numbers there may be, those of empty and unknown tokens included.
        standardize: ``"lower_and_strip_punctuation"``, ``"lower"``, ``"strip_punctuation"`` (of
            ASCII), ``None``, or a function of strings made of ``dl.strings``.
        split: ``"whitespace"``, ``"character"``, ``None`` for strings that are tokens, or such a
            function, which returns an array of tokens for a string.
        ngrams: widths of n-grams that stand for the tokens; a number means all widths up to it.
        output_mode: ``"int"`` for the numbers of the tokens: 0 for empty ones, 1 for unknown ones,
            then the vocabulary. ``"multi_hot"``, ``"count"`` and ``"tf_idf"`` for an array with a
            place for each number, 0 for unknown ones, then the vocabulary: whether it occurs, how
            often, and that times its weight.
        output_sequence_length: to how many numbers documents are cut or filled up; of ``"int"``.
        pad_to_max_tokens: whether these arrays have ``max_tokens`` places.
        vocabulary: the tokens in their order, or the path of a file with one a line.
        idf_weights: of ``"tf_idf"`` with a vocabulary: each token's weight.
        ragged: whether numbers of a batch are a ``RaggedArray``; of ``"int"``.
        encoding: of tokens given as ``str``.

    Raises:
        ValueError: an argument is none of these, or does not go with another.
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        standardize: str | Function | None = "lower_and_strip_punctuation",
        split: str | Function | None = "whitespace",
        ngrams: int | tuple[int, ...] | None = None,
        output_mode: Literal["int", "multi_hot", "count", "tf_idf"] = "int",
        output_sequence_length: int | None = None,
        pad_to_max_tokens: bool = False,
        vocabulary: Sequence[str | bytes] | np.ndarray | str | os.PathLike[str] | None = None,
        idf_weights: Sequence[float] | np.ndarray | None = None,
        ragged: bool = False,
        encoding: str = "utf-8",
    ) -> None:
        _one_of("standardize", standardize, _STANDARDIZE)
        _one_of("split", split, _SPLIT)
        if output_mode not in _MODES:
            raise ValueError(f"{NAME}: output_mode must be one of {_MODES}, got {output_mode!r}")
        if output_mode != "int" and (output_sequence_length is not None or ragged):
            raise ValueError(
                f"{NAME}: output_sequence_length and ragged are of output_mode 'int', not of "
                f"{output_mode!r}"
            )
        if max_tokens is not None and max_tokens <= 1:
            raise ValueError(f"{NAME}: max_tokens must be greater than 1, got {max_tokens}")
        if pad_to_max_tokens and max_tokens is None:
            raise ValueError(f"{NAME}: pad_to_max_tokens needs max_tokens")
        if vocabulary is None and idf_weights is not None:
            raise ValueError(f"{NAME}: idf_weights go with a vocabulary")
        self._max_tokens = max_tokens
        self._standardize = standardize
        self._split = split
        self._ngrams = tuple(range(1, ngrams + 1)) if isinstance(ngrams, int) else ngrams
        if self._ngrams is not None and not all(width > 0 for width in self._ngrams):
            raise ValueError(f"{NAME}: ngrams must be positive, got {ngrams}")
        self._mode = output_mode
        self._length = output_sequence_length
        self._pad = pad_to_max_tokens
        self._ragged = ragged
        self._encoding = encoding
        self._vocabulary: Vocabulary | None = None
        self._weights: np.ndarray | None = None
        self._given = vocabulary is not None
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)

    def __call__(self, inputs: Any) -> Any:
        """The numbers of text's tokens, by ``output_mode``.

        Args:
            inputs: a string, an array of them (n,) or (n, 1); with ``split=None`` an array of
                tokens (..., length) or a ``RaggedArray`` of them.

        Returns:
            Of n strings, int64 (n, length) or a ``RaggedArray`` for ``"int"``; else (n, numbers),
            int64, or float32 for ``"tf_idf"``. Of one string without n.

        Raises:
            ValueError: there is no vocabulary yet, or the shape is another.
            TypeError: ``inputs`` holds no strings.
        """
        if self._vocabulary is None:
            raise ValueError(f"{NAME}: there is no vocabulary; call adapt, or pass one")
        prepared = self._prepared(inputs)
        tokens = self._tokens()
        if self._mode != "int":
            weights = None if self._weights is None else self._weights.tobytes()
            once = self._mode == "multi_hot"
            return apply(Count(tokens, self._vocabulary, self._depth(), once, weights), prepared)
        if self._split is None and self._ngrams is None and self._length is None:
            return apply(EachToken(tokens, self._vocabulary), prepared)
        return apply(Vectorize(tokens, self._vocabulary, self._length, self._ragged), prepared)

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learns the vocabulary, and weights for ``"tf_idf"``, in place of what there was.

        Tokens are numbered by how often they occur, the most frequent first; of equally frequent
        ones the greater comes first.

        Args:
            data: a dataset of strings or of batches of them; an array or a list of strings; or an
                iterable of batches.
            batch_size: how many strings to take at once from a dataset of single ones; it changes
                nothing but the speed.
            steps: the most elements or batches to look at; all unless given.

        Raises:
            ValueError: the vocabulary was passed when this was made.
        """
        if self._given:
            raise ValueError(f"{NAME}: a vocabulary was passed; adapt would replace it")
        counts = TokenCounts()
        tokens = self._tokens()
        for batch in documents_of(data, batch_size, steps, self._split is None):
            documents = tokens.documents(_column(self._prepared(batch)))
            counts.add(tokens.tokenizer, documents.given.values, documents.splits)
        learned = learned_tokens(counts, self._room())
        self._vocabulary = Vocabulary(learned.tokens)
        if self._mode == "tf_idf":
            self._weights = self._padded(learned.weights())

    def set_vocabulary(
        self,
        vocabulary: Sequence[str | bytes] | np.ndarray | str | os.PathLike[str],
        idf_weights: Sequence[float] | np.ndarray | None = None,
    ) -> None:
        """Takes a vocabulary, as the arguments of the same names.

        The special tokens of ``get_vocabulary()`` may stand at its start.

        Raises:
            ValueError: a token occurs twice, is empty, or there are too many; the weights are
                lacking, too many, or not for this mode.
        """
        given = self._as_tokens(vocabulary)
        special = self._special()
        with_special = given[: len(special)] == special
        tokens = given[len(special) :] if with_special else given
        if not tokens:
            raise ValueError(f"{NAME}: the vocabulary is empty")
        if b"" in tokens:
            raise ValueError(f"{NAME}: the vocabulary has an empty token, which stands for padding")
        room = self._room()
        if room is not None and len(tokens) > room:
            raise ValueError(
                f"{NAME}: the vocabulary has {len(tokens)} tokens; max_tokens={self._max_tokens} "
                f"leaves room for {room}"
            )
        if (idf_weights is not None) != (self._mode == "tf_idf"):
            raise ValueError(f"{NAME}: idf_weights go with output_mode 'tf_idf', and it with them")
        try:
            self._vocabulary = Vocabulary(tokens)
        except ValueError as error:
            raise ValueError(f"{NAME}: the vocabulary: {error}") from None
        if idf_weights is not None:
            self._weights = self._padded(self._checked_weights(idf_weights, given, with_special))

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        """The tokens in the order of their numbers, with those for empty and unknown ones."""
        tokens = () if self._vocabulary is None else self._vocabulary.tokens
        special = self._special() if include_special_tokens else []
        return [token.decode(self._encoding, "replace") for token in (*special, *tokens)]

    def vocabulary_size(self) -> int:
        """How many numbers there are."""
        return len(self.get_vocabulary())

    @property
    def idf_weights(self) -> np.ndarray | None:
        """Of ``"tf_idf"``: what counts are multiplied by, float32, a weight for each number."""
        return self._weights

    def _prepared(self, inputs: Any) -> Any:
        """The strings after the user's own functions, and what must come before these."""
        if callable(self._split):
            inputs = _without_last(inputs)
        if callable(self._standardize):
            inputs = self._standardize(inputs)
        if callable(self._split):
            if "lower" in self._builtin():
                inputs = lower(inputs)
            if "strip_punctuation" in self._builtin():
                inputs = regex_replace(inputs, _PUNCTUATION, "")
            inputs = self._split(inputs)
        return inputs

    def _builtin(self) -> str:
        return self._standardize if isinstance(self._standardize, str) else ""

    def _tokens(self) -> Tokens:
        if callable(self._split):
            return Tokens(False, False, "", self._ngrams)
        how = self._builtin()
        return Tokens(
            how.startswith("lower"), how.endswith("punctuation"), self._split or "", self._ngrams
        )

    def _special(self) -> list[bytes]:
        return [b"", b"[UNK]"] if self._mode == "int" else [b"[UNK]"]

    def _room(self) -> int | None:
        return None if self._max_tokens is None else self._max_tokens - len(self._special())

    def _depth(self) -> int:
        if self._pad and self._max_tokens is not None:
            return self._max_tokens
        return self.vocabulary_size()

    def _as_tokens(self, vocabulary: Any) -> list[bytes]:
        if isinstance(vocabulary, str | os.PathLike):
            vocabulary = Path(vocabulary).read_text(self._encoding).splitlines()
        other = next((each for each in vocabulary if not isinstance(each, str | bytes)), None)
        if other is not None:
            raise ValueError(
                f"{NAME}: the vocabulary has {type(other).__name__} values, such as {other!r}, "
                "where strings are wanted: make strings of them, [str(token) for token in "
                "vocabulary]"
            )
        return [
            token if isinstance(token, bytes) else str(token).encode(self._encoding)
            for token in vocabulary
        ]

    def _checked_weights(self, given: Any, tokens: Sequence[bytes], whole: bool) -> np.ndarray:
        weights = np.asarray(given, np.float32)
        if weights.shape != (len(tokens),):
            raise ValueError(
                f"{NAME}: idf_weights must be one for each of {len(tokens)} tokens, got an array "
                f"of {weights.shape}"
            )
        return weights if whole else with_unknown(weights)

    def _padded(self, weights: np.ndarray) -> np.ndarray:
        missing = self._depth() - len(weights)
        padded = np.pad(weights, (0, missing)).astype(np.float32)
        padded.flags.writeable = False
        return padded


def _column(value: Any) -> np.ndarray:
    """A column of one row."""
    return (single(value) if isinstance(value, RaggedArray) else as_array(value))[None]


def _without_last(inputs: Any) -> Any:
    """Strings without a last dimension of 1, if they have others."""
    if is_symbol(inputs) or isinstance(inputs, RaggedArray):
        return inputs
    array = as_array(inputs)
    return array[..., 0] if array.ndim > 1 and array.shape[-1] == 1 else array


def _one_of(argument: str, given: Any, known: Sequence[str]) -> None:
    if given is not None and not callable(given) and given not in known:
        raise ValueError(
            f"{NAME}: {argument} must be None, a function or one of {tuple(known)}, got {given!r}"
        )
