"""`TextVectorization`, `Hashing` and `HashedCrossing`: layers of strings without lookup tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np

from drumline import strings
from drumline.compat.data.features.inputs import HASH_KEY, fingerprints, joined
from drumline.compat.keras.lookups import (
    FORMER_MODES,
    HostLayer,
    encoded,
    encoded_shape,
    serializable,
    symbolic,
)
from drumline.compat.values.boundary import from_core, unwrap
from drumline.data.elements.ragged import RaggedArray
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython


class TextVectorizationLayer(HostLayer):
    """Text to numbers of a vocabulary, as ``tf.keras.layers.TextVectorization``.

    It is `drumline.strings.TextVectorization` as a layer: in a dataset's `map` it is one native
    operation.

    Args:
        max_tokens: the most numbers there may be.
        standardize: how, or a function of tensors of strings.
        split: at what, or a function of tensors of strings.
        ngrams: widths of n-grams.
        output_mode: ``"int"``, ``"multi_hot"``, ``"count"`` or ``"tf_idf"``.
        output_sequence_length: to how many numbers texts are cut or filled up.
        pad_to_max_tokens: whether arrays have ``max_tokens`` places.
        vocabulary: the tokens, or the path of a file.
        idf_weights: of ``"tf_idf"``.
        sparse: must be False.
        ragged: whether numbers are a ``RaggedTensor``.
        encoding: of tokens given as ``str``.
        name: of the layer.
        options: others of `keras.Layer`.

    Raises:
        ValueError: an argument is none of these, or does not go with another.
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        standardize: str | Callable[..., Any] | None = "lower_and_strip_punctuation",
        split: str | Callable[..., Any] | None = "whitespace",
        ngrams: int | tuple[int, ...] | None = None,
        output_mode: str = "int",
        output_sequence_length: int | None = None,
        pad_to_max_tokens: bool = False,
        vocabulary: Any = None,
        idf_weights: Any = None,
        sparse: bool = False,
        ragged: bool = False,
        encoding: str = "utf-8",
        name: str | None = None,
        **options: Any,
    ):
        options.pop("dtype", None)
        super().__init__(name=name, dtype="int64", **options)
        if sparse:
            raise NotImplementedError("TextVectorization: Keras on JAX has no sparse outputs")
        output_mode = FORMER_MODES.get(output_mode, output_mode)
        self._options = {
            "max_tokens": max_tokens,
            "standardize": standardize,
            "split": split,
            "ngrams": ngrams,
            "output_mode": output_mode,
            "output_sequence_length": output_sequence_length,
            "pad_to_max_tokens": pad_to_max_tokens,
            "ragged": ragged,
            "encoding": encoding,
        }
        called: dict[str, Any] = {
            key: from_core(value) if callable(value) else value
            for key, value in self._options.items()
        }
        called["ngrams"] = tuple(ngrams) if isinstance(ngrams, (list, tuple)) else ngrams
        self._core = strings.TextVectorization(**called)
        self._mode, self._length = output_mode, output_sequence_length
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learn the vocabulary, and weights for ``"tf_idf"``, of a dataset or an array."""
        self._core.adapt(unwrap(data), batch_size, steps)

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Take a vocabulary: the tokens in their order, or the path of a file."""
        given = unwrap(vocabulary)
        self._core.set_vocabulary(given, unwrap(idf_weights))

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        """The tokens in the order of their numbers."""
        return self._core.get_vocabulary(include_special_tokens)

    def vocabulary_size(self) -> int:
        """How many numbers there are."""
        return self._core.vocabulary_size()

    def on_host(self, inputs: Any) -> Any:
        return self._core(inputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        rows = tuple(inputs.shape)
        if self._options["split"] is not None:
            rows = rows[:1]
        if self._mode == "int":
            shape = (*rows, self._length) if self._options["split"] is not None else rows
            return symbolic(shape, "int64")
        depth = self._core._depth()
        return symbolic((*rows[:1], depth), "float32" if self._mode == "tf_idf" else "int64")

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config.pop("dtype", None)
        named = {
            key: keras.saving.serialize_keras_object(value) if callable(value) else value
            for key, value in self._options.items()
        }
        weights = self._core.idf_weights
        has_vocabulary = self.vocabulary_size() > len(self._core._special())
        return {
            **config,
            **named,
            "vocabulary": self.get_vocabulary() if has_vocabulary else None,
            "idf_weights": None if weights is None else weights.tolist(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> TextVectorizationLayer:
        for key in ("standardize", "split"):
            if isinstance(config[key], dict):
                config[key] = keras.saving.deserialize_keras_object(config[key])
        return cls(**config)


class Hashing(HostLayer):
    """Strings and integers to bins by their hash, as ``tf.keras.layers.Hashing``.

    Args:
        num_bins: how many bins there are, that of ``mask_value`` included.
        mask_value: what gets the bin 0, where nothing else is.
        salt: one or two integers, the key of another hash; None for the fast one.
        output_mode: ``"int"``, ``"one_hot"``, ``"multi_hot"`` or ``"count"``.
        sparse: must be False.
        options: of `keras.Layer`.

    Raises:
        ValueError: for fewer than one bin, or another mode.
    """

    def __init__(
        self,
        num_bins: int,
        mask_value: Any = None,
        salt: Any = None,
        output_mode: str = "int",
        sparse: bool = False,
        **options: Any,
    ):
        if num_bins is None or num_bins <= 0:
            raise ValueError(f"The `num_bins` for `Hashing` cannot be `None` or <= 0: {num_bins}")
        if output_mode not in ("int", "one_hot", "multi_hot", "count"):
            raise ValueError(f"Unknown `output_mode` of Hashing: {output_mode!r}")
        if sparse:
            raise NotImplementedError("Hashing: Keras on JAX has no sparse outputs")
        options.setdefault("dtype", "int64" if output_mode == "int" else None)
        super().__init__(**options)
        self.num_bins, self.mask_value, self.output_mode = num_bins, mask_value, output_mode
        self.salt = None if salt is None else [int(each) for each in np.broadcast_to(salt, 2)]

    def on_host(self, inputs: Any) -> Any:
        if isinstance(inputs, (Symbol, RaggedArray)) and (
            self.mask_value is not None or self.output_mode != "int"
        ):
            raise ValueNeedsPython("bins are computed with")
        if isinstance(inputs, jax.core.Tracer):
            raise ValueNeedsPython("integers become text")
        given = inputs if isinstance(inputs, (Symbol, RaggedArray)) else np.asarray(inputs)
        is_text = isinstance(given, (Symbol, RaggedArray)) or given.dtype.kind == "O"
        text = given if is_text else strings.as_string(given)
        bins = self.num_bins - (self.mask_value is not None and self.num_bins > 1)
        if self.salt is None:
            found = strings.to_hash_bucket_fast(text, bins)
        else:
            found = strings.to_hash_bucket_strong(text, bins, self.salt)
        if self.mask_value is not None:
            mask = self.mask_value
            mask = mask.encode() if isinstance(mask, str) else mask
            found = np.where(np.asarray(given == mask, bool), 0, np.asarray(found) + 1)
        if self.output_mode == "int":
            return found
        return encoded(np.asarray(found), self.output_mode, self.num_bins, None, self._floats())

    def _floats(self) -> Any:
        return np.dtype(self.dtype_policy.compute_dtype)

    def compute_output_spec(self, inputs: Any) -> Any:
        shape = encoded_shape(inputs.shape, self.output_mode, self.num_bins)
        return symbolic(shape, self.dtype_policy.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        names = ("num_bins", "mask_value", "salt", "output_mode")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


class HashedCrossing(HostLayer):
    """Pairs of features to bins by their hash, as ``tf.keras.layers.HashedCrossing``.

    Args:
        num_bins: how many bins there are.
        output_mode: ``"int"`` or ``"one_hot"``.
        sparse: must be False.
        options: of `keras.Layer`.

    Raises:
        ValueError: for another mode.
    """

    def __init__(
        self, num_bins: int, output_mode: str = "int", sparse: bool = False, **options: Any
    ):
        if output_mode not in ("int", "one_hot"):
            raise ValueError(f"Unknown `output_mode` of HashedCrossing: {output_mode!r}")
        if sparse:
            raise NotImplementedError("HashedCrossing: Keras on JAX has no sparse outputs")
        options.setdefault("dtype", "int64" if output_mode == "int" else None)
        super().__init__(**options)
        self.num_bins, self.output_mode = num_bins, output_mode

    def on_host(self, inputs: Any) -> Any:
        if not isinstance(inputs, (list, tuple)) or len(inputs) < 2:
            raise ValueError("`HashedCrossing` should be called on a list of at least two inputs.")
        if any(isinstance(each, (Symbol, jax.core.Tracer)) for each in inputs):
            raise ValueNeedsPython("fingerprints have 64 bits")
        with np.errstate(over="ignore"):
            crossed: Any = np.uint64(HASH_KEY)
            for each in map(np.asarray, inputs):
                text = each.dtype.kind == "O"
                prints = fingerprints(each) if text else each.astype(np.int64).view(np.uint64)
                crossed = joined(crossed, prints)
            bins = (crossed % np.uint64(self.num_bins)).astype(np.int64)
        if self.output_mode == "int":
            return bins
        return encoded(bins, "one_hot", self.num_bins, None, self.dtype_policy.compute_dtype)

    def compute_output_spec(self, inputs: Any) -> Any:
        shape = encoded_shape(inputs[0].shape, self.output_mode, self.num_bins)
        return symbolic(shape, self.dtype_policy.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {**config, "num_bins": self.num_bins, "output_mode": self.output_mode}


serializable(TextVectorizationLayer, "TextVectorization")
serializable(Hashing, "Hashing")
serializable(HashedCrossing, "HashedCrossing")
