"""drumline's layers of strings and vocabularies with tensors in and out.

Each is drumline's own (`drumline.keras.layers`); models are saved under the names of those, and can
be loaded with this interface or without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np

from drumline.compat.keras import boundaries
from drumline.compat.values.boundary import from_core, map_structure, unwrap, wrap
from drumline.compat.values.convert import convert
from drumline.compat.values.errors import InvalidArgumentError
from drumline.data.elements.ragged import RaggedArray
from drumline.data.functions.native.symbol import Symbol
from drumline.keras import layers
from drumline.keras.layers.host_layer import HostLayer, serializable

boundaries.install()


class _TensorsInAndOut(HostLayer):
    """Gives tensors, but arrays where it is given arrays of JAX's."""

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        map_structure(leaves.append, inputs)
        if any(isinstance(leaf, (keras.KerasTensor, jax.Array)) for leaf in leaves):
            return super().__call__(inputs, *args, **kwargs)
        try:
            return wrap(super().__call__(_arrays(inputs), *args, **kwargs))
        except layers.UnknownTokenError as error:
            raise InvalidArgumentError(None, None, str(error)) from None


class _Vocabulary(_TensorsInAndOut):
    """Learns of tensors and datasets of tensors."""

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learn the vocabulary, of a dataset of tensors, a tensor or an array."""
        super().adapt(unwrap(data), batch_size, steps)

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Take a vocabulary: a tensor, a list, or the path of a file."""
        super().set_vocabulary(unwrap(vocabulary), unwrap(idf_weights))


def _arrays(inputs: Any) -> Any:
    """Inputs as users give them as arrays of numpy's, tracers, symbols and ragged arrays."""
    given = unwrap(inputs)
    if isinstance(given, (Symbol, RaggedArray)):
        return given
    if isinstance(given, (tuple, list)) and any(hasattr(each, "shape") for each in given):
        return [each if isinstance(each, Symbol) else _array(each) for each in given]
    return _array(given)


def _array(given: Any) -> Any:
    """As 64-bit numbers keep their bits, which arrays of JAX's made of the result would not."""
    found = convert(given)
    traced = isinstance(found, jax.core.Tracer)
    return np.asarray(found) if isinstance(found, jax.Array) and not traced else found


@serializable("StringLookup")
class StringLookupOfTensors(_Vocabulary, layers.StringLookup):
    """Strings to their numbers in a vocabulary, as ``tf.keras.layers.StringLookup``."""


@serializable("IntegerLookup")
class IntegerLookupOfTensors(_Vocabulary, layers.IntegerLookup):
    """Integers to their numbers in a vocabulary, as ``tf.keras.layers.IntegerLookup``."""


@serializable("TextVectorization")
class TextVectorizationOfTensors(_Vocabulary, layers.TextVectorization):
    """Text to numbers of a vocabulary, as ``tf.keras.layers.TextVectorization``.

    A user's ``standardize`` and ``split`` take and give tensors.
    """

    def function_of_arrays(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return from_core(function)


@serializable("Hashing")
class HashingOfTensors(_TensorsInAndOut, layers.Hashing):
    """Strings and integers to bins by their hash, as ``tf.keras.layers.Hashing``."""


@serializable("HashedCrossing")
class HashedCrossingOfTensors(_TensorsInAndOut, layers.HashedCrossing):
    """Pairs of features to bins by their hash, as ``tf.keras.layers.HashedCrossing``."""
