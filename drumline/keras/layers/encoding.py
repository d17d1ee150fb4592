"""Numbers of categories as arrays with a place for each: one-hot, multi-hot, counts, TF-IDF."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.flat import flat, holds_ragged
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.strings import one
from drumline.data.functions.native.symbol import Symbol
from drumline.data.functions.trace import in_dataset_function

ENCODED_MODES = ("one_hot", "multi_hot", "count", "tf_idf")
"""Output modes that give an array with a place for each category."""

OUTPUT_MODES = ("int", *ENCODED_MODES)

FORMER_MODES = {"binary": "multi_hot", "tf-idf": "tf_idf"}
"""Names of output modes in TensorFlow 2.3 to 2.5, which Keras still takes."""


def checked_mode(layer: str, mode: str, known: Sequence[str]) -> str:
    """The present name of an output mode.

    Raises:
        ValueError: it is none of those that the layer knows.
    """
    mode = FORMER_MODES.get(mode, mode)
    if mode not in known:
        raise ValueError(
            f"Unknown value for `output_mode`: {mode!r}; {layer} takes one of {tuple(known)}"
        )
    return mode


def refuse_sparse(layer: str, sparse: bool) -> None:
    """Refuse ``sparse=True``.

    Raises:
        NotImplementedError: it is asked for.
    """
    if sparse:
        raise NotImplementedError(
            f"{layer}: sparse=True is not supported, since a dataset's columns are dense: leave it "
            "out, or take output_mode='int' and keras.layers.CategoryEncoding(sparse=True) or an "
            "Embedding in the model"
        )


@dataclasses.dataclass(frozen=True)
class EncodeCategories(NativeOperation):
    """An array with a place for each category, of the numbers of categories.

    Attributes:
        mode: of `ENCODED_MODES`.
        depth: how many categories there are; other numbers are none.
        dtype: of the result.
        weights: what counts are multiplied by, bytes of float32, for ``"tf_idf"``.
    """

    mode: str
    depth: int
    dtype: str
    weights: bytes | None = None

    @property
    def name(self) -> str:
        return f"keras.layers.{self.mode}"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (numbers,) = arguments
        if numbers.dtype.kind not in "iu":
            raise TypeError(f"{self.name}: expected integers, got {numbers.dtype} values")
        shape = encoded_shape(numbers.shape, self.mode, self.depth)
        if None in shape:
            raise ValueError(
                f"{self.name}: rows of different lengths have no array of one shape: {numbers}"
            )
        return one(TensorSpec(shape, np.dtype(self.dtype)))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        given = flat(columns[0])
        values = given.values
        if self.mode == "one_hot":
            runs, total = np.arange(len(values)), len(values)
        elif given.scalar:
            runs, total = np.arange(n), n
        else:
            lengths = given.inner_lengths()
            runs, total = np.repeat(np.arange(len(lengths)), lengths), len(lengths)
        inside = (values >= 0) & (values < self.depth)
        if not inside.all():
            runs, values = runs[inside], values[inside]
        found = self._placed(runs, values, total)
        column = columns[0]
        if isinstance(column, np.ndarray) and not holds_ragged(column):
            return OperationResult(
                [found.reshape(n, *encoded_shape(column.shape[1:], self.mode, self.depth))]
            )
        several = isinstance(column, np.ndarray)  # each element is a ragged array
        return OperationResult([found.reshape(n, total // n, -1) if several else found])

    def _placed(self, runs: np.ndarray, values: np.ndarray, total: int) -> np.ndarray:
        dtype = np.dtype(self.dtype)
        if self.mode in ("one_hot", "multi_hot"):
            found = np.zeros((total, self.depth), dtype)
            found[runs, values] = 1
            return found
        places = runs * self.depth + values.astype(np.int64)
        counts = np.bincount(places, minlength=total * self.depth).reshape(total, self.depth)
        if self.weights is None:
            return counts.astype(dtype, copy=False)
        weighted = counts.astype(np.float32) * np.frombuffer(self.weights, np.float32)
        return weighted.astype(dtype, copy=False)


def encoded(
    indices: Any, mode: str, depth: int, weights: np.ndarray | None = None, dtype: Any = None
) -> Any:
    """Numbers of categories as arrays with a place for each, as ``output_mode`` says.

    Args:
        indices: integers of any shape, or rows of them; those outside of ``[0, depth)`` are no
            category. Arrays, or in a dataset's function tracers and symbols.
        mode: of `ENCODED_MODES`.
        depth: how many categories there are.
        weights: of each category, for ``"tf_idf"``.
        dtype: of the result.

    Returns:
        One-hot: a last dimension of 1 is replaced by one of ``depth``, else this is added. The
        others add up over the last dimension.
    """
    if isinstance(indices, jax.core.Tracer) and not in_dataset_function():
        return _traced(indices, mode, depth, weights, dtype)
    held = None if weights is None else np.asarray(weights, np.float32).tobytes()
    name = "bfloat16" if str(dtype) == "bfloat16" else np.dtype(dtype).name
    if isinstance(indices, jax.Array) and not isinstance(indices, jax.core.Tracer):
        indices = np.asarray(indices)
    return apply(EncodeCategories(mode, depth, name, held), indices)


def _traced(indices: Any, mode: str, depth: int, weights: Any, dtype: Any) -> Any:
    """The same in a step that is compiled."""
    shape = encoded_shape(indices.shape, mode, depth)
    if mode == "one_hot":
        return jax.nn.one_hot(indices.reshape(shape[:-1]), depth, dtype=dtype)
    runs = indices.reshape(-1, indices.shape[-1] if indices.ndim else 1)
    rows = jnp.arange(len(runs))[:, None]
    # What is outside goes to a place that is cut off.
    places = jnp.where((runs >= 0) & (runs < depth), runs, depth)
    found = jnp.zeros((len(runs), depth + 1), np.float32 if weights is not None else dtype)
    found = found.at[rows, places].set(1) if mode == "multi_hot" else found.at[rows, places].add(1)
    found = found[:, :depth]
    return (found if weights is None else found * weights).astype(dtype).reshape(shape)


def encoded_shape(shape: Any, mode: str, depth: int | None) -> tuple[Any, ...]:
    """The shape of what `encoded` gives; for ``"int"`` that of the numbers."""
    shape = tuple(shape)
    if mode == "int":
        return shape
    if not shape:
        shape = (1,)
    if mode != "one_hot":
        return (*shape[:-1], depth)
    if len(shape) > 1 and shape[-1] == 1:
        return (*shape[:-1], depth)
    return (*shape, depth)


def symbolic(shape: Any, dtype: str) -> Any:
    """A symbolic output of a layer, of the dtype that it has on devices."""
    on_device = dtype if dtype == "string" else jax.dtypes.canonicalize_dtype(dtype).name
    return keras.KerasTensor(shape, on_device)


def is_traced(value: Any) -> bool:
    """Whether a value is one of a traced function: a number that is a tracer, or a symbol."""
    return isinstance(value, (Symbol, jax.core.Tracer))
