"""`TextVectorization`: text to numbers of a vocabulary."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import keras

from drumline import strings
from drumline.data import Dataset
from drumline.keras.layers.encoding import FORMER_MODES, refuse_sparse, symbolic
from drumline.keras.layers.host_layer import (
    HostLayer,
    host_values,
    require_an_end,
    require_trusted_file,
    serializable,
)

NAME = "TextVectorization"


@serializable(NAME)
class TextVectorizationLayer(HostLayer):
    """Text to numbers of a vocabulary, as ``keras.layers.TextVectorization``.

    Keras's own layer needs TensorFlow. This one is a layer of Keras's without it: for `map`, where
    it is one native operation, for models with text as input, and saved with them. It is
    `drumline.strings.TextVectorization` as a layer.

    Args:
        max_tokens: the most numbers there may be.
        standardize: ``"lower_and_strip_punctuation"``, ``"lower"``, ``"strip_punctuation"``, None,
            or a function of strings, made of ``dl.strings``.
        split: ``"whitespace"``, ``"character"``, None, or a function of strings.
        ngrams: widths of n-grams.
        output_mode: ``"int"``, ``"multi_hot"``, ``"count"`` or ``"tf_idf"``.
        output_sequence_length: to how many numbers texts are cut or filled up.
        pad_to_max_tokens: whether arrays have ``max_tokens`` places.
        vocabulary: the tokens, or the path of a file.
        idf_weights: of ``"tf_idf"``.
        sparse: must be False.
        ragged: whether numbers are a ``RaggedArray``.
        encoding: of tokens given as ``str``.
        name: of the layer.
        options: others of `keras.Layer`.

    Raises:
        ValueError: an argument is none of these, or does not go with another.
        NotImplementedError: for ``sparse=True``.

    Example:
        >>> layer = dl.keras.layers.TextVectorization(output_sequence_length=3)
        >>> layer.adapt(["a good film", "a film"])
        >>> layer.get_vocabulary()
        ['', '[UNK]', 'film', 'a', 'good']
        >>> layer(["Film!"])
        array([[2, 0, 0]])
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
        for ignored in ("dtype", "vocabulary_size"):
            options.pop(ignored, None)
        has_vocabulary = options.pop("has_input_vocabulary", vocabulary is not None)
        super().__init__(name=name, dtype="int64", **options)
        refuse_sparse(NAME, sparse)
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
            key: self.function_of_arrays(value) if callable(value) else value
            for key, value in self._options.items()
        }
        called["ngrams"] = tuple(ngrams) if isinstance(ngrams, (list, tuple)) else ngrams
        self._core = strings.TextVectorization(**called)
        self._mode, self._length = output_mode, output_sequence_length
        self._has_input_vocabulary = bool(has_vocabulary)
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)
        elif idf_weights is not None:
            raise ValueError("`idf_weights` go with a `vocabulary`")

    def function_of_arrays(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A user's ``standardize`` or ``split`` as it is called with arrays of ``bytes``."""
        return function

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learn the vocabulary, and weights for ``"tf_idf"``, in place of what there was.

        Args:
            data: a dataset of strings or of batches of them, alone or first in a tuple; an array,
                a list, or an iterable of batches.
            batch_size: how many single strings of a dataset to take at once.
            steps: the most batches, or single strings of a dataset, to read.

        Raises:
            ValueError: the vocabulary was passed when the layer was made, or a dataset never ends.
            TypeError: the data is no text.
        """
        if self._has_input_vocabulary:
            raise ValueError(
                f"Cannot adapt layer {self.name!r} after setting a static vocabulary via the "
                "`vocabulary` argument: leave it out, or use set_vocabulary()"
            )
        require_an_end(NAME, data, steps)
        if isinstance(data, Dataset) and isinstance(data.element_spec, tuple):
            data = data.map(lambda *element: element[0])
        self._core.adapt(data, batch_size, steps)

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Take a vocabulary in place of what there was.

        Args:
            vocabulary: the tokens in their order, or the path of a file with one a line.
            idf_weights: the weight of each, of ``"tf_idf"``.

        Raises:
            ValueError: as of `StringLookup.set_vocabulary`.
        """
        if isinstance(vocabulary, (str, os.PathLike)):
            require_trusted_file(NAME, vocabulary)
        self._core.set_vocabulary(vocabulary, idf_weights)

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        """The tokens in the order of their numbers."""
        return self._core.get_vocabulary(include_special_tokens)

    def vocabulary_size(self) -> int:
        """How many numbers there are."""
        return self._core.vocabulary_size()

    def on_host(self, inputs: Any) -> Any:
        return self._core(host_values(inputs))

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
        if weights is not None:
            weights = weights[: self.vocabulary_size()].tolist()
        return {
            **config,
            **named,
            "vocabulary": self.get_vocabulary() if has_vocabulary else None,
            "idf_weights": weights,
            "has_input_vocabulary": self._has_input_vocabulary,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> TextVectorizationLayer:
        config = dict(config)
        for key in ("standardize", "split"):
            if isinstance(config.get(key), dict):
                config[key] = keras.saving.deserialize_keras_object(config[key])
        return cls(**config)
