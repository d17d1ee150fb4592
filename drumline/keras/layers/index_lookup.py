"""What `StringLookup` and `IntegerLookup` have in common: a vocabulary, given or learned."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from drumline.data.elements.ragged import RaggedArray
from drumline.keras.layers.encoding import (
    OUTPUT_MODES,
    checked_mode,
    encoded,
    encoded_shape,
    refuse_sparse,
    symbolic,
)
from drumline.keras.layers.host_layer import (
    HostLayer,
    batches_of,
    host_values,
    is_string,
    require_trusted_file,
)

Learned = tuple[list[Any], np.ndarray, np.ndarray, int]
"""Tokens, how often each occurred, in how many rows, and how many rows there were."""


class UnknownTokenError(ValueError):
    """A token is not in the vocabulary, and there is no number for such ones."""


class IndexLookup(HostLayer):
    """Tokens to their numbers in a vocabulary, or back.

    Tokens have their numbers in this order: the mask (of ``"int"``), unknown ones, the vocabulary.

    Args:
        max_tokens: the most numbers there may be.
        num_oov_indices: how many numbers tokens that are not in the vocabulary share; with 0 they
            are an error.
        mask_token: a token that gets 0, of ``"int"``; others have no place for it.
        oov_token: what the numbers of unknown tokens become with ``invert``.
        vocabulary: the tokens, or the path of a file with one a line.
        idf_weights: of ``"tf_idf"``: the weight of each token.
        invert: numbers to tokens.
        output_mode: of `OUTPUT_MODES`.
        sparse: must be False.
        pad_to_max_tokens: whether arrays have ``max_tokens`` places.
        salt: one or two integers, the key of the hash by which unknown tokens share numbers.
        name: of the layer.
        options: others of `keras.Layer`.

    Raises:
        ValueError: an argument is none of these, or does not go with another.
        NotImplementedError: for ``sparse=True``.
    """

    kind: str
    """The dtype of tokens."""

    def __init__(
        self,
        max_tokens: int | None,
        num_oov_indices: int,
        mask_token: Any,
        oov_token: Any,
        vocabulary: Any,
        idf_weights: Any,
        invert: bool,
        output_mode: str,
        sparse: bool,
        pad_to_max_tokens: bool,
        salt: Any = None,
        name: str | None = None,
        **options: Any,
    ):
        own = type(self).__name__
        has_vocabulary = options.pop("has_input_vocabulary", vocabulary is not None)
        for ignored in ("dtype", "vocabulary_size"):
            options.pop(ignored, None)
        super().__init__(name=name, dtype="int64", **options)
        output_mode = checked_mode(own, output_mode, OUTPUT_MODES)
        if max_tokens is not None and not isinstance(max_tokens, (int, np.integer)):
            raise TypeError(
                f"{own}: the first argument is max_tokens, a number; pass the tokens by name, "
                f"vocabulary={max_tokens!r:.60}"
            )
        if max_tokens is not None and max_tokens <= 1:
            raise ValueError(f"If set, `max_tokens` must be greater than 1, got {max_tokens}")
        if num_oov_indices < 0:
            raise ValueError(f"`num_oov_indices` must not be negative, got {num_oov_indices}")
        if invert and output_mode != "int":
            raise ValueError("`output_mode` must be 'int' when `invert` is true")
        if pad_to_max_tokens and max_tokens is None:
            raise ValueError("pad_to_max_tokens needs max_tokens")
        refuse_sparse(own, sparse)
        self.max_tokens, self.num_oov_indices = max_tokens, num_oov_indices
        self.mask_token, self.oov_token = mask_token, oov_token
        self.invert, self.output_mode = invert, output_mode
        self.pad_to_max_tokens, self.sparse = pad_to_max_tokens, sparse
        self.salt = checked_salt(own, salt)
        self._tokens: tuple[Any, ...] = ()
        self._idf: np.ndarray | None = None
        self._has_input_vocabulary = bool(has_vocabulary)
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)
        elif idf_weights is not None:
            raise ValueError("`idf_weights` go with a `vocabulary`")

    def token(self, given: Any) -> Any:
        """A token in the form in which the vocabulary has it."""
        raise NotImplementedError

    def shown(self, token: Any) -> Any:
        """A token as users see it."""
        return token

    def checked_tokens(self, values: np.ndarray) -> list[Any]:
        """The tokens of a vocabulary that was given.

        Raises:
            ValueError: they are of another dtype; the message names it, and what to do.
        """
        raise NotImplementedError

    def tokens_in_file(self, path: str | os.PathLike[str]) -> list[Any]:
        """The tokens of a file with one a line."""
        raise NotImplementedError

    def learn(self, batches: Iterator[Any]) -> Learned:
        """Count the tokens of batches, each row a document."""
        raise NotImplementedError

    def numbers(self, inputs: Any) -> Any:
        """The number of each token; -1 for the mask token where it has no place."""
        raise NotImplementedError

    def tokens_of(self, numbers: Any) -> Any:
        """The token of each number."""
        raise NotImplementedError

    def prepare_tables(self) -> None:
        """Make what `numbers` and `tokens_of` need of a new vocabulary."""

    @property
    def special_tokens(self) -> list[Any]:
        """Those that have numbers before the vocabulary's."""
        mask = [self.mask_token] if self.mask_token is not None else []
        unknown = [self.oov_token] * self.num_oov_indices
        return [
            *map(self.token, mask if self.output_mode == "int" else []),
            *map(self.token, unknown),
        ]

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Take a vocabulary in place of what there was.

        The special tokens of ``get_vocabulary()`` may stand at its start.

        Args:
            vocabulary: tokens in their order, or the path of a file with one a line.
            idf_weights: the weight of each token, of ``"tf_idf"``.

        Raises:
            ValueError: it is empty, too long, of another dtype or has a token twice; the weights do
                not fit; or a model that is being loaded names a file outside of it.
        """
        if (idf_weights is not None) != (self.output_mode == "tf_idf"):
            raise ValueError(
                "`idf_weights` must be set if `output_mode` is 'tf_idf', and only then"
            )
        given = self._given_tokens(vocabulary)
        special = self.special_tokens
        with_special = bool(special) and given[: len(special)] == special
        tokens = given[len(special) :] if with_special else given
        if not tokens:
            raise ValueError(f"{type(self).__name__}: cannot set an empty vocabulary.")
        self._require_different(tokens)
        if self.max_tokens is not None and len(tokens) + len(special) > self.max_tokens:
            raise ValueError(
                "Attempted to set a vocabulary larger than the maximum vocab size: "
                f"{len(tokens) + len(special)} > {self.max_tokens}"
            )
        weights = None
        if idf_weights is not None:
            weights = np.asarray(idf_weights, np.float32)
            if weights.shape != (len(given),):
                raise ValueError(
                    f"`idf_weights` must be as many as the vocabulary has tokens, {len(given)}, "
                    f"got an array of {weights.shape}"
                )
            if not with_special:
                weights = np.concatenate([np.full(len(special), weights.mean()), weights])
        self._take(tokens, weights)

    def _given_tokens(self, vocabulary: Any) -> list[Any]:
        if not isinstance(vocabulary, (str, os.PathLike)):
            return self.checked_tokens(np.ravel(np.asarray(host_values(vocabulary))))
        require_trusted_file(type(self).__name__, vocabulary)
        return self.tokens_in_file(vocabulary)

    def _require_different(self, tokens: Sequence[Any]) -> None:
        repeated = [token for token, n in collections.Counter(tokens).items() if n > 1]
        reserved = [] if self.mask_token is None else [self.token(self.mask_token)]
        # Of numbers that become tokens again the unknown one must be no other.
        reserved += [self.token(self.oov_token)] if self.invert else []
        repeated += sorted(set(reserved) & set(tokens))
        if repeated:
            raise ValueError(
                "The passed vocabulary has at least one repeated or reserved term: "
                f"{[self.shown(each) for each in repeated[:5]]}"
            )

    def _take(self, tokens: Sequence[Any], weights: np.ndarray | None) -> None:
        self._tokens, self._idf = tuple(tokens), None
        if weights is not None:
            missing = max(self._depth - len(weights), 0)
            self._idf = np.pad(weights.astype(np.float32), (0, missing))
        self.prepare_tables()

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learn the vocabulary: the most frequent tokens first, of equal ones the greater first.

        For ``"tf_idf"`` a row of a batch is a document; of a dataset a batch of single tokens is
        one, as in Keras.

        Args:
            data: a dataset of batches or single elements (of tuples the first), an array, a list,
                or an iterable of batches.
            batch_size: how many single elements of a dataset to take at once.
            steps: the most batches, or single elements of a dataset, to read.

        Raises:
            ValueError: the vocabulary was passed when the layer was made, the data is empty or of
                another dtype, or a dataset never ends.
        """
        if self._has_input_vocabulary:
            raise ValueError(
                f"Cannot adapt layer {self.name!r} after setting a static vocabulary via the "
                "`vocabulary` argument: leave it out, or use set_vocabulary()"
            )
        own = type(self).__name__
        plain = isinstance(data, (list, tuple, np.ndarray)) or hasattr(data, "shape")

        def documents() -> Iterator[Any]:
            for batch in batches_of(own, data, steps, batch_size):
                self._require_kind(batch, "adapt")
                if isinstance(batch, RaggedArray) or batch.ndim > 1:
                    yield batch
                else:
                    yield batch.reshape((-1, 1) if plain else (1, -1))

        tokens, counts, rows, total = self.learn(documents())
        special = {
            self.token(each) for each in (self.mask_token, self.oov_token) if each is not None
        }
        order = sorted(range(len(tokens)), key=lambda i: (counts[i], tokens[i]), reverse=True)
        kept = [i for i in order if tokens[i] not in special]
        if not kept:
            raise ValueError(f"{own}.adapt: the data has no tokens to learn: it is empty")
        if self.max_tokens is not None:
            kept = kept[: self.max_tokens - len(self.special_tokens)]
        weights = None
        if self.output_mode == "tf_idf":
            learned = np.log(1 + total / (1 + rows[kept])).astype(np.float32)
            front = np.full(len(self.special_tokens), learned.mean(dtype=np.float32))
            weights = np.concatenate([front, learned])
        self._take([tokens[i] for i in kept], weights)

    def _require_kind(self, values: Any, where: str) -> None:
        """Refuse strings where integers are wanted, and the reverse.

        Raises:
            ValueError: naming the dtype and the layer that takes it.
        """
        integers = not is_string(values) and np.dtype(values.dtype).kind in "iu"
        if is_string(values) == (self.kind == "string") and (is_string(values) or integers):
            return
        found = "strings" if is_string(values) else f"{values.dtype} values"
        remedy = {
            "strings": "use StringLookup, or dl.strings.to_number first",
        }.get(found, "use IntegerLookup, or dl.strings.as_string first")
        if not is_string(values) and not integers:
            remedy = "use Discretization, or cast them first"
        wanted = "strings" if self.kind == "string" else "integers"
        where = f"{type(self).__name__}.{where}" if where else type(self).__name__
        raise ValueError(f"{where}: expected {wanted}, got {found}; {remedy}")

    def reset_state(self) -> None:
        """Forget a vocabulary that was learned."""
        if not self._has_input_vocabulary:
            self._tokens, self._idf = (), None

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """The tokens in the order of their numbers."""
        special = self.special_tokens if include_special_tokens else []
        return [self.shown(token) for token in (*special, *self._tokens)]

    def vocabulary_size(self) -> int:
        """How many numbers there are."""
        return len(self.special_tokens) + len(self._tokens)

    @property
    def idf_weights(self) -> np.ndarray | None:
        """Of ``"tf_idf"``: what counts are multiplied by, float32, a weight for each number."""
        return self._idf

    @property
    def _depth(self) -> int:
        padded = self.max_tokens if self.pad_to_max_tokens else None
        return self.vocabulary_size() if padded is None else padded

    def on_host(self, inputs: Any) -> Any:
        if not self._tokens:
            raise ValueError(
                f"{type(self).__name__} has no vocabulary: pass `vocabulary=`, or call `adapt`"
            )
        if self.invert:
            return self.tokens_of(inputs)
        self._require_kind(inputs, "")
        numbers = self.numbers(inputs)
        if self.output_mode == "int":
            return numbers
        dtype = "float32" if self.output_mode == "tf_idf" else "int64"
        return encoded(numbers, self.output_mode, self._depth, self._idf, dtype)

    @property
    def mask_number(self) -> int | None:
        """What the mask token counts as, if there is one."""
        if self.mask_token is None:
            return None
        return 0 if self.output_mode == "int" else -1

    @property
    def hash_key(self) -> tuple[int, int] | None:
        """The salt as the core takes it."""
        return None if self.salt is None else (self.salt[0] % 2**64, self.salt[1] % 2**64)

    def compute_output_spec(self, inputs: Any) -> Any:
        if self.invert:
            return symbolic(inputs.shape, self.kind)
        depth = None if self.output_mode == "int" else self._depth
        dtype = "float32" if self.output_mode == "tf_idf" else "int64"
        return symbolic(encoded_shape(inputs.shape, self.output_mode, depth), dtype)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("dtype", None)
        names = (
            "max_tokens num_oov_indices mask_token oov_token invert output_mode pad_to_max_tokens "
            "sparse salt"
        )
        config.update({name: getattr(self, name) for name in names.split()})
        config["vocabulary"] = self.get_vocabulary() if self._tokens else None
        idf = None if self._idf is None else self._idf[: self.vocabulary_size()].tolist()
        config["idf_weights"] = idf
        config["has_input_vocabulary"] = self._has_input_vocabulary
        return config


def checked_salt(layer: str, salt: Any) -> list[int] | None:
    """A hash's key, two integers, of what the argument ``salt`` was given.

    Raises:
        ValueError: it is neither one nor two integers.
    """
    if salt is None:
        return None
    if isinstance(salt, int):
        return [salt, salt]
    if isinstance(salt, (tuple, list)) and len(salt) == 2:
        return [int(each) for each in salt]
    raise ValueError(f"{layer}: `salt` must be one integer or two, got {salt!r}")
