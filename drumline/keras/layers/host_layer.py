"""What layers have in common that compute with strings and tables, which devices do not hold.

Such a layer computes on the host. Called on arrays it computes at once; in a dataset's `map` it is
native operations; of a model made of layers' outputs `host_models` computes it before the compiled
step. What it does with numbers alone may be part of a compiled step.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline.data import INFINITE_CARDINALITY, Dataset
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import STRING, as_array
from drumline.data.functions.native.symbol import Symbol
from drumline.data.functions.trace import in_dataset_function
from drumline.keras import internals
from drumline.keras.layers.encoding import is_traced

PACKAGE = "drumline"
"""Under which these layers are registered, and so saved in ``.keras`` files."""

AT_ONCE = 1024
"""How many single elements `adapt` takes from a dataset at once."""


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
        """The output: an array of numpy's, or of JAX's where one is given.

        Args:
            inputs: an array, a list, or what stands for one: in a dataset's function, or an input
                of a model.
            args: for `call`.
            kwargs: for `call`.
        """
        if _holds(inputs, keras.KerasTensor):
            return super().__call__(inputs, *args, **kwargs)
        made = self.call(self.arrays_of(inputs), *args, **kwargs)
        if _holds(inputs, jax.Array) and isinstance(made, np.ndarray) and made.dtype.kind != "O":
            return jnp.asarray(made)
        return made

    def arrays_of(self, inputs: Any) -> Any:
        """Inputs as users give them as arrays, symbols, tracers and ragged arrays."""
        return host_values(inputs)

    def call(self, inputs: Any) -> Any:
        """As `on_host`."""
        return self.on_host(inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape for inputs of a shape."""
        return tuple(self.compute_output_spec(keras.KerasTensor(input_shape, "string")).shape)

    def get_build_config(self) -> dict[str, Any]:
        """Nothing: there is nothing to build."""
        return {}

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Do nothing, as the layer is built when it is made."""


def _holds(inputs: Any, kind: type) -> bool:
    """Whether inputs, or one of several, are of a class; tracers count as none."""
    found = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    return any(isinstance(x, kind) and not isinstance(x, jax.core.Tracer) for x in found)


def host_values(inputs: Any) -> Any:
    """Inputs as users give them as arrays, symbols, tracers and ragged arrays."""
    if is_traced(inputs) or isinstance(inputs, RaggedArray):
        return inputs
    if isinstance(inputs, (tuple, list)) and any(hasattr(each, "shape") for each in inputs):
        return [host_values(each) for each in inputs]
    if isinstance(inputs, jax.Array):
        return np.asarray(inputs)
    return as_array(inputs)


def is_string(values: Any) -> bool:
    """Whether arrays, symbols or ragged arrays hold strings."""
    if isinstance(values, Symbol):
        return values.spec.is_string
    return np.dtype(getattr(values, "dtype", object)) == STRING


def compiles(values: Any) -> bool:
    """Whether values are tracers of a step that is compiled, which runs no native operation."""
    return isinstance(values, jax.core.Tracer) and not in_dataset_function()


def serializable(name: str) -> Callable[[type], type]:
    """Let a layer have the name of Keras's, under which models are saved."""

    def named(cls: type) -> type:
        cls.__name__ = cls.__qualname__ = name
        registered: type = keras.saving.register_keras_serializable(PACKAGE)(cls)
        return registered

    return named


def require_trusted_file(layer: str, path: str | os.PathLike[str]) -> None:
    """Refuse a vocabulary's file that is not there, or that a model which is loaded names.

    Raises:
        ValueError: it is one.
    """
    if internals.in_safe_mode():
        raise ValueError(
            f"{layer}: the model that is loaded names the vocabulary file {os.fspath(path)!r} "
            "outside of it; if you trust the model, load it with safe_mode=False"
        )
    if not os.path.exists(path):
        raise ValueError(f"{layer}: vocabulary file {os.fspath(path)} does not exist")


def require_an_end(name: str, data: Any, steps: int | None, takes_steps: bool = True) -> None:
    """Refuse to learn from all of a dataset that never ends.

    Args:
        name: of the layer.
        data: what its `adapt` is given.
        steps: how much of it to read, if it says.
        takes_steps: whether it could say.

    Raises:
        ValueError: the dataset does not end, and how much of it to read is not said.
    """
    endless = isinstance(data, Dataset) and data.cardinality() == INFINITE_CARDINALITY
    if endless and steps is None:
        either = "steps=, or " if takes_steps else ""
        raise ValueError(
            f"{name}.adapt: the dataset never ends (its cardinality is infinite), so there is no "
            f"last batch to learn from: give {either}a part of it, dataset.take(n)"
        )


def batches_of(name: str, data: Any, steps: int | None, batch_size: int | None) -> Iterator[Any]:
    """What `adapt` is given, batch by batch: arrays and ragged arrays; (n, 1) of single values.

    Args:
        name: of the layer, for messages.
        data: a dataset of batches or of single elements, alone or first in a tuple; an array, a
            list, or an iterable of batches.
        steps: the most batches, or single elements of a dataset, to read.
        batch_size: how many single elements of a dataset to take at once.

    Raises:
        ValueError: the dataset never ends, or its elements are no arrays.
    """
    require_an_end(name, data, steps)
    if isinstance(data, Dataset):
        yield from _of_dataset(name, data, steps, batch_size)
    elif isinstance(data, (list, tuple, str, bytes, RaggedArray)) or hasattr(data, "shape"):
        yield host_values(data)
    else:
        yield from map(host_values, itertools.islice(data, steps))


def _of_dataset(name: str, data: Any, steps: int | None, batch_size: int | None) -> Iterator[Any]:
    spec = data.element_spec
    first = spec[0] if isinstance(spec, tuple) and len(spec) else spec
    if not hasattr(first, "shape"):
        raise ValueError(
            f"{name}.adapt: elements must be arrays, or tuples that begin with one; got {spec}. "
            "Take the feature out in a map: dataset.map(lambda x: x['name'])"
        )
    taken = data if steps is None else data.take(steps)
    if first is not spec:
        taken = taken.map(lambda *element: element[0])
    if first.shape:
        yield from taken
        return
    for batch in taken.batch(batch_size or AT_ONCE):
        yield batch[:, None]
