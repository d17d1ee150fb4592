"""Layers of strings and vocabularies, which Keras has with TensorFlow only.

They compute on the host: no device holds strings. Called on tensors they compute at once; in a
dataset's `map` those that drumline has as native operations are such; in models `host_models`
computes them before the compiled step. `IntegerLookup` and `Hashing` of numbers may stand anywhere.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline import strings
from drumline.compat.keras import boundaries
from drumline.compat.values.boundary import map_structure, unwrap, wrap
from drumline.compat.values.convert import convert
from drumline.compat.values.errors import InvalidArgumentError
from drumline.data import Dataset
from drumline.data.elements.ragged import RaggedArray
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.strings import LookUp, Vocabulary
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython

boundaries.install()

_ONE_OF_MANY = ("one_hot", "multi_hot", "count", "tf_idf")
FORMER_MODES = {"binary": "multi_hot", "tf-idf": "tf_idf"}
"""Names of output modes in TensorFlow 2.3 to 2.5, which Keras still takes."""


class HostLayer(keras.Layer):
    """A layer that computes on the host.

    Args:
        name: of the layer.
        dtype: of its output.
        options: others of `keras.Layer`.
    """

    def __init__(self, name: str | None = None, dtype: Any = None, **options: Any):
        super().__init__(name=name, dtype=dtype, autocast=False, **options)
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.built = True

    @property
    def compute_dtype(self) -> str:
        """Of inputs: they are not cast."""
        return "string"

    @property
    def variable_dtype(self) -> str:
        """As `compute_dtype`: there are no variables to cast."""
        return self.compute_dtype

    def on_host(self, inputs: Any) -> Any:
        """The layer's output, of numpy's arrays, native symbols or traced numbers.

        Raises:
            ValueNeedsPython: it cannot be computed of symbols.
        """
        raise NotImplementedError

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The output: a tensor, or an array where an array of JAX's is given."""
        leaves: list[Any] = []
        map_structure(leaves.append, inputs)
        if any(isinstance(leaf, keras.KerasTensor) for leaf in leaves):
            return super().__call__(inputs, *args, **kwargs)
        if any(isinstance(leaf, jax.Array) for leaf in leaves):
            return self.on_host(inputs)
        return wrap(self.on_host(_arrays(inputs)))

    def call(self, inputs: Any) -> Any:
        """As `on_host`."""
        return self.on_host(inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape for inputs of a shape."""
        return tuple(self.compute_output_spec(keras.KerasTensor(input_shape, "string")).shape)


def _arrays(inputs: Any) -> Any:
    """Inputs as users give them as arrays, symbols and ragged arrays."""
    given = unwrap(inputs)
    if isinstance(given, (Symbol, RaggedArray)):
        return given
    if isinstance(given, (tuple, list)) and any(hasattr(each, "shape") for each in given):
        return [each if isinstance(each, Symbol) else convert(each) for each in given]
    return convert(given)


def serializable(cls: type, name: str) -> None:
    """Let a layer have the name of TensorFlow's, under which models are saved."""
    cls.__name__ = cls.__qualname__ = name
    keras.saving.register_keras_serializable("drumline")(cls)


def encoded(indices: Any, mode: str, depth: int, weights: Any = None, dtype: Any = None) -> Any:
    """Numbers of categories as arrays with a place for each, as ``output_mode`` says.

    Args:
        indices: integers of any shape; negative ones are no category.
        mode: ``"one_hot"``, ``"multi_hot"``, ``"count"`` or ``"tf_idf"``.
        depth: how many categories there are.
        weights: of each category, for ``"tf_idf"``.
        dtype: of the result.

    Returns:
        One-hot: a last dimension of 1 is replaced by one of ``depth``, else this is added. The
        others add up over the last dimension.
    """
    xp = jnp if isinstance(indices, jax.Array) else np
    if not indices.ndim:
        indices = indices[None]
    if mode == "one_hot":
        if len(indices) == 1 == indices.ndim:
            indices = indices[None]
        if indices.ndim and indices.shape[-1] == 1:
            indices = indices[..., 0]
        return (indices[..., None] == xp.arange(depth)).astype(dtype)
    each = indices[..., None] == xp.arange(depth)
    if mode == "multi_hot":
        return each.any(-2).astype(dtype)
    counts = each.sum(-2)
    return (counts * weights).astype(dtype) if mode == "tf_idf" else counts.astype(dtype)


def symbolic(shape: Any, dtype: str) -> Any:
    """A symbolic output of a layer, of the dtype that it has on devices."""
    on_device = dtype if dtype == "string" else jax.dtypes.canonicalize_dtype(dtype).name
    return keras.KerasTensor(shape, on_device)


def encoded_shape(shape: Any, mode: str, depth: int | None) -> tuple[Any, ...]:
    """The shape of what `encoded` gives; for ``"int"`` that of the numbers."""
    shape = tuple(shape)
    if mode == "int":
        return shape
    if mode == "one_hot" and (not shape or shape[-1] != 1):
        return (*shape, depth)
    return (*shape[:-1], depth)


def _batches(data: Any, steps: int | None) -> Iterator[Any]:
    """The arrays of what `adapt` is given: a dataset's elements, or one array."""
    given = unwrap(data)
    if not isinstance(given, Dataset):
        yield _arrays(given)
        return
    for number, batch in enumerate(given):
        if number == steps:
            return
        yield batch if isinstance(batch, RaggedArray) else convert(batch)


class _Lookup(HostLayer):
    """What `StringLookup` and `IntegerLookup` have in common.

    Tokens have their numbers in this order: the mask (of ``"int"``), unknown ones, the vocabulary.
    """

    _default_oov: Any
    _kind: str

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: Any = None,
        oov_token: Any = None,
        vocabulary: Any = None,
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: str = "int",
        pad_to_max_tokens: bool = False,
        sparse: bool = False,
        encoding: str = "utf-8",
        name: str | None = None,
        **options: Any,
    ):
        own = type(self).__name__
        if options.pop("vocabulary_dtype", "int64") not in ("int64", "string"):
            raise NotImplementedError(f"{own}: vocabulary_dtype must be 'int64'")
        options.pop("dtype", None)
        super().__init__(name=name, dtype="int64", **options)
        output_mode = FORMER_MODES.get(output_mode, output_mode)
        if output_mode not in ("int", *_ONE_OF_MANY):
            raise ValueError(
                f"Unknown value for `output_mode`: {output_mode!r}; use one of "
                f"{('int', *_ONE_OF_MANY)}"
            )
        if max_tokens is not None and max_tokens <= 1:
            raise ValueError(f"If set, `max_tokens` must be greater than 1, got {max_tokens}")
        if num_oov_indices < 0:
            raise ValueError(f"`num_oov_indices` must not be negative, got {num_oov_indices}")
        if invert and output_mode != "int":
            raise ValueError("`output_mode` must be 'int' when `invert` is true")
        if pad_to_max_tokens and max_tokens is None:
            raise ValueError("pad_to_max_tokens needs max_tokens")
        if sparse:
            raise NotImplementedError(f"{own}: sparse=True: Keras on JAX has no sparse outputs")
        self.max_tokens, self.num_oov_indices = max_tokens, num_oov_indices
        self.mask_token = mask_token
        self.oov_token = self._default_oov if oov_token is None else oov_token
        self.invert, self.output_mode = invert, output_mode
        self.pad_to_max_tokens, self.encoding = pad_to_max_tokens, encoding
        self.sparse = sparse
        self._tokens: tuple[Any, ...] = ()
        self._idf: np.ndarray | None = None
        self._look_up: Any = None
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)
        elif idf_weights is not None:
            raise ValueError("`idf_weights` go with a `vocabulary`")

    def _token(self, given: Any) -> Any:
        """A token in the form in which the vocabulary has it."""
        raise NotImplementedError

    def _of_file(self, path: Any) -> list[Any]:
        lines = Path(path).read_text(self.encoding).splitlines()
        return list(lines)

    def _shown(self, token: Any) -> Any:
        return token

    def _special(self) -> list[Any]:
        mask = self.mask_token is not None and self.output_mode == "int"
        unknown = [self._token(self.oov_token)] * self.num_oov_indices
        return [*([self._token(self.mask_token)] if mask else []), *unknown]

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Take a vocabulary: tokens in their order, or the path of a file with one a line.

        The special tokens of ``get_vocabulary()`` may stand at its start.

        Raises:
            ValueError: it is empty, too long, or has a token twice; the weights do not fit.
        """
        given = unwrap(vocabulary)
        if isinstance(given, (str, os.PathLike)):
            given = self._of_file(given)
        tokens = [self._token(each) for each in np.ravel(np.asarray(given, object)).tolist()]
        special = self._special()
        with_special = bool(special) and tokens[: len(special)] == special
        tokens = tokens[len(special) :] if with_special else tokens
        if not tokens:
            raise ValueError("Cannot set an empty vocabulary.")
        repeated = [token for token, n in collections.Counter(tokens).items() if n > 1]
        if repeated or set(special) & set(tokens):
            raise ValueError(
                "The passed vocabulary has at least one repeated or reserved term: "
                f"{[self._shown(each) for each in repeated or set(special) & set(tokens)]}"
            )
        if self.max_tokens is not None and len(tokens) + len(special) > self.max_tokens:
            raise ValueError(
                "Attempted to set a vocabulary larger than the maximum vocab size: "
                f"{len(tokens) + len(special)} > {self.max_tokens}"
            )
        if (idf_weights is not None) != (self.output_mode == "tf_idf"):
            raise ValueError(
                "`idf_weights` must be set if `output_mode` is 'tf_idf', and only then"
            )
        self._tokens = tuple(tokens)
        if idf_weights is not None:
            weights = np.asarray(unwrap(idf_weights), np.float32)
            weights = weights[len(special) :] if with_special else weights
            if weights.shape != (len(tokens),):
                raise ValueError("`idf_weights` must be as many as the vocabulary has tokens")
            self._idf = weights
        self._look_up = self._made()

    def _made(self) -> Any:
        raise NotImplementedError

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learn the vocabulary: the most frequent tokens first, of equal ones the greater first.

        Args:
            data: a dataset of batches or elements, or an array.
            batch_size: accepted; a dataset's elements are taken as they are.
            steps: the most elements of a dataset to look at.
        """
        counts: collections.Counter[Any] = collections.Counter()
        documents: collections.Counter[Any] = collections.Counter()
        rows = 0
        for batch in _batches(data, steps):
            values = batch if isinstance(batch, RaggedArray) else np.atleast_1d(np.asarray(batch))
            each_row = list(values) if self.output_mode == "tf_idf" else [values]
            for row in each_row:
                flat = row.flat_values if isinstance(row, RaggedArray) else row
                found = [self._token(token) for token in np.ravel(np.asarray(flat)).tolist()]
                counts.update(found)
                documents.update(set(found))
                rows += 1
        for token in self._special():
            counts.pop(token, None)
        if not counts:
            raise ValueError("adapt was given no tokens: the data is empty")
        learned = sorted(counts.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)
        room = None if self.max_tokens is None else self.max_tokens - len(self._special())
        tokens = [token for token, _ in learned[:room]]
        weights = None
        if self.output_mode == "tf_idf":
            weights = [np.log(1 + rows / (1 + documents[token])) for token in tokens]
        self._tokens = ()
        self.set_vocabulary([self._shown(token) for token in tokens], weights)

    def reset_state(self) -> None:
        """Forget the vocabulary."""
        self._tokens, self._look_up, self._idf = (), None, None

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """The tokens in the order of their numbers."""
        special = self._special() if include_special_tokens else []
        return [self._shown(token) for token in (*special, *self._tokens)]

    def vocabulary_size(self) -> int:
        """How many numbers there are."""
        return len(self._special()) + len(self._tokens)

    @property
    def _depth(self) -> int:
        padded = self.max_tokens if self.pad_to_max_tokens else None
        return self.vocabulary_size() if padded is None else padded

    def on_host(self, inputs: Any) -> Any:
        if self._look_up is None:
            raise ValueError(
                f"{type(self).__name__} has no vocabulary: pass `vocabulary=`, or call `adapt`"
            )
        if self.invert:
            return self._inverted(inputs)
        if self.output_mode == "int":
            return self._numbers(inputs)
        if isinstance(inputs, (Symbol, RaggedArray)):
            raise ValueNeedsPython("the lookup's output is an array with a place for each token")
        given = self._numbers(inputs)
        if self.mask_token is not None:
            masked = inputs == self._token(self.mask_token)
            xp = jnp if isinstance(given, jax.Array) else np
            given = xp.where(np.asarray(masked, bool) if xp is np else masked, -1, given)
        weights = None
        if self._idf is not None:
            unknown = np.full(len(self._special()), self._idf.mean(), np.float32)
            weights = np.concatenate([unknown, self._idf])
            weights = np.pad(weights, (0, self._depth - len(weights)))
        dtype = np.dtype(np.float32 if self.output_mode == "tf_idf" else np.int64)
        return encoded(given, self.output_mode, self._depth, weights, dtype)

    def _numbers(self, inputs: Any) -> Any:
        raise NotImplementedError

    def _inverted(self, inputs: Any) -> Any:
        raise NotImplementedError

    def _refuse_unknown(self, unknown: Sequence[Any]) -> None:
        if len(unknown):
            raise InvalidArgumentError(
                None,
                None,
                "When `num_oov_indices=0` all inputs should be in vocabulary, found OOV values "
                f"{[self._shown(each) for each in unknown[:5]]}, consider setting "
                "`num_oov_indices=1`.",
            )

    def compute_output_spec(self, inputs: Any) -> Any:
        if self.invert:
            return symbolic(inputs.shape, self._kind)
        depth = None if self.output_mode == "int" else self._depth
        dtype = "float32" if self.output_mode == "tf_idf" else "int64"
        return symbolic(encoded_shape(inputs.shape, self.output_mode, depth), dtype)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("dtype", None)
        names = (
            "max_tokens num_oov_indices mask_token oov_token invert output_mode pad_to_max_tokens "
            "sparse encoding"
        )
        config.update({name: getattr(self, name) for name in names.split()})
        config["vocabulary"] = [self._shown(token) for token in self._tokens] or None
        config["idf_weights"] = None if self._idf is None else self._idf.tolist()
        return config


class StringLookupLayer(_Lookup):
    """Strings to their numbers in a vocabulary, as ``tf.keras.layers.StringLookup``.

    Args:
        max_tokens: the most numbers there may be.
        num_oov_indices: how many numbers strings that are not in the vocabulary share.
        mask_token: a string that gets 0, of ``"int"``; others have no place for it.
        oov_token: the string for unknown ones.
        vocabulary: the strings, or the path of a file.
        idf_weights: of ``"tf_idf"``: the weight of each token.
        invert: numbers to strings.
        output_mode: ``"int"``, ``"one_hot"``, ``"multi_hot"``, ``"count"`` or ``"tf_idf"``.
        pad_to_max_tokens: whether such arrays have ``max_tokens`` places.
        encoding: of the strings, where they are given and shown as ``str``.

    Raises:
        ValueError: an argument is none of these, or the vocabulary has a string twice.
        InvalidArgumentError: from a call, for unknown strings where ``num_oov_indices`` is 0.
    """

    _default_oov = "[UNK]"
    _kind = "string"

    def _token(self, given: Any) -> bytes:
        return given if isinstance(given, bytes) else str(given).encode(self.encoding)

    def _shown(self, token: bytes) -> str:
        return token.decode(self.encoding, "replace")

    def _made(self) -> Any:
        special = list(dict.fromkeys(self._special()))
        tokens = [*special, *self._tokens]
        shift = len(self._special()) - len(special)
        unknown = tokens.index(self._token(self.oov_token)) if self.num_oov_indices else -1
        return LookUp(Vocabulary(tokens), absent=unknown, buckets=0), shift, unknown

    def _numbers(self, inputs: Any) -> Any:
        look_up, shift, unknown = self._look_up
        if self.num_oov_indices == 1:
            return apply(look_up, inputs)
        if isinstance(inputs, (Symbol, RaggedArray)):
            raise ValueNeedsPython("the lookup has other than one number for unknown strings")
        found = np.asarray(apply(look_up, inputs))
        given = np.asarray(inputs, object)
        if self.num_oov_indices == 0:
            self._refuse_unknown(np.ravel(given[found < 0]).tolist())
            return found
        buckets = np.asarray(strings.to_hash_bucket_fast(given, self.num_oov_indices))
        return np.where(found == unknown, unknown + buckets, found + shift * (found > unknown))

    def _inverted(self, inputs: Any) -> Any:
        if isinstance(inputs, (Symbol, RaggedArray, jax.core.Tracer)):
            raise ValueNeedsPython("numbers become strings")
        tokens = np.array([*self._special(), *self._tokens, self._token(self.oov_token)], object)
        numbers = np.asarray(inputs)
        inside = (numbers >= 0) & (numbers < len(tokens) - 1)
        return tokens[np.where(inside, numbers, len(tokens) - 1)]


class IntegerLookupLayer(_Lookup):
    """Integers to their numbers in a vocabulary, as ``tf.keras.layers.IntegerLookup``.

    Args: as of `StringLookup`; ``oov_token`` is -1.
    """

    _default_oov = -1
    _kind = "int64"

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: Any = None,
        oov_token: Any = -1,
        vocabulary: Any = None,
        vocabulary_dtype: str = "int64",
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: str = "int",
        sparse: bool = False,
        pad_to_max_tokens: bool = False,
        oov_method: str = "floormod",
        salt: Any = None,
        name: str | None = None,
        **options: Any,
    ):
        if oov_method != "floormod" or salt is not None:
            raise NotImplementedError(
                "IntegerLookup: unknown integers are numbered by oov_method='floormod' only; for "
                "hashed ones use tf.keras.layers.Hashing"
            )
        super().__init__(
            max_tokens,
            num_oov_indices,
            mask_token,
            oov_token,
            vocabulary,
            idf_weights,
            invert,
            output_mode,
            pad_to_max_tokens,
            sparse,
            name=name,
            vocabulary_dtype=vocabulary_dtype,
            **options,
        )

    @property
    def compute_dtype(self) -> str:
        """Of inputs."""
        return "int64"

    def _token(self, given: Any) -> int:
        return int(given)

    def _made(self) -> Any:
        tokens = np.array(self._tokens, np.int64)
        order = np.argsort(tokens, kind="stable")
        return tokens[order], order + len(self._special())

    def _numbers(self, inputs: Any) -> Any:
        if isinstance(inputs, (Symbol, RaggedArray)):
            raise ValueNeedsPython("the shape of what is looked up varies")
        known, numbers = self._look_up
        xp = jnp if isinstance(inputs, jax.Array) else np
        given = xp.asarray(inputs)
        places = xp.minimum(xp.searchsorted(xp.asarray(known), given), len(known) - 1)
        found = xp.asarray(known)[places] == given
        first = len(self._special()) - self.num_oov_indices
        if self.num_oov_indices == 0:
            if xp is jnp and not isinstance(given, jax.core.Tracer):
                return jnp.asarray(self._numbers(np.asarray(given)))
            if xp is jnp:
                raise ValueNeedsPython("unknown integers are errors, since num_oov_indices is 0")
            mask = self.mask_token is not None and self.output_mode == "int"
            is_mask = given == self.mask_token if mask else np.zeros(given.shape, bool)
            self._refuse_unknown(np.ravel(given[~found & ~is_mask]).tolist())
        unknown = first + given % max(self.num_oov_indices, 1)
        result = xp.where(found, xp.asarray(numbers)[places], unknown)
        if self.mask_token is not None and self.output_mode == "int":
            result = xp.where(given == self.mask_token, 0, result)
        return result.astype(np.int64)

    def _inverted(self, inputs: Any) -> Any:
        if isinstance(inputs, (Symbol, RaggedArray)):
            raise ValueNeedsPython("the shape of what is looked up varies")
        xp = jnp if isinstance(inputs, jax.Array) else np
        tokens = np.array([*self._special(), *self._tokens, self.oov_token], np.int64)
        inside = (inputs >= 0) & (inputs < len(tokens) - 1)
        return xp.asarray(tokens)[xp.where(inside, inputs, len(tokens) - 1)]


serializable(StringLookupLayer, "StringLookup")
serializable(IntegerLookupLayer, "IntegerLookup")
