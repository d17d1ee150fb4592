"""Features of a batch as feature columns take them: values and where there are some.

Categories are dense here, (batch, n) with -1 where there is none, not sparse tensors: so a
dataset's `map` that prepares them is compiled, and so is the step that uses them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline import strings
from drumline.compat.composite.ragged import RaggedTensor
from drumline.compat.composite.sparse import SparseColumns, SparseTensor
from drumline.compat.values.boundary import unwrap, wrap
from drumline.compat.values.convert import convert
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import LEAF_STRUCTURE, ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython
from drumline.data.functions.trace import in_dataset_function
from drumline.strings.fingerprints import fingerprints, joined


@dataclasses.dataclass(frozen=True)
class Categories:
    """Values of categories.

    Attributes:
        values: (batch, n): numbers or strings; an array, tracer or symbol.
        there: bool of this shape, where there is a value; None for everywhere.
    """

    values: Any
    there: Any = None

    @property
    def is_string(self) -> bool:
        """Whether the values are strings."""
        return bool(np.dtype(self.values.dtype).kind == "O")

    def or_none(self, ids: Any) -> Any:
        """Numbers, and -1 where there is no value."""
        if self.there is None:
            return ids
        xp = jnp if any(isinstance(each, jax.Array) for each in (ids, self.there)) else np
        return xp.where(self.there, ids, -1)


def raw_feature(features: Mapping[str, Any], key: str) -> Any:
    """A feature of at least two dimensions: an array, tracer, symbol or sparse tensor.

    Raises:
        ValueError: there is none, or it has no dimensions.
    """
    if key not in features:
        raise ValueError(f"Feature {key} is not in features dictionary.")
    value = features[key]
    if hasattr(value, "iloc"):
        value = value.to_numpy()
    value = wrap(value) if isinstance(value, (RaggedArray, SparseColumns)) else value
    if isinstance(value, SparseTensor):
        if value.ndim == 1:
            places = np.pad(value.places, ((0, 0), (0, 1)))
            return SparseTensor(places, value.values, [*value.sizes, 1])
        return value
    if isinstance(value, RaggedTensor):
        given = unwrap(value)
        if isinstance(given, Symbol):
            raise ValueNeedsPython("a feature's rows differ in length")
        return value
    given = convert(value)
    if not len(given.shape):
        raise ValueError(f"Feature (key: {key}) cannot have rank 0. Given: {value}")
    return given[..., None] if len(given.shape) == 1 else given


def categories(value: Any, ignored: Any = None) -> Categories:
    """The values of a feature, without those that stand for none.

    Args:
        value: of `raw_feature`.
        ignored: what stands for none in dense ones; by default ``""`` or -1.
    """
    if isinstance(value, (SparseTensor, RaggedTensor)):
        return _padded(value)
    kind = np.dtype(value.dtype).kind
    if ignored is None:
        ignored = b"" if kind == "O" else -1 if kind in "iu" else 0
    return Categories(value, value != ignored)


def _padded(value: Any) -> Categories:
    """Rows of differing lengths as dense ones; a power of two of places, for few programs."""
    value = value.to_sparse() if isinstance(value, RaggedTensor) else value
    places, given = value.places, unwrap(value.values)
    batch = int(value.sizes[0])
    inner = np.ravel_multi_index(tuple(places[:, 1:].T), tuple(value.sizes[1:]))
    most = int(inner.max()) + 1 if len(inner) else 1
    width = 1 << (most - 1).bit_length()
    there = np.zeros((batch, width), bool)
    there[places[:, 0], inner] = True
    array = np.asarray(given)
    dense = np.full((batch, width), b"" if array.dtype.kind == "O" else 0, array.dtype)
    dense[places[:, 0], inner] = array
    return Categories(dense, there)


def hashed(given: Categories, buckets: int) -> Any:
    """The buckets of values, by TensorFlow's fast hash."""
    values = given.values if isinstance(given.values, Symbol) else _on_host(given.values)
    text = values if given.is_string else strings.as_string(values)
    return given.or_none(strings.to_hash_bucket_fast(text, buckets))


def _on_host(value: Any) -> Any:
    """A value that a native operation takes.

    Raises:
        ValueNeedsPython: it belongs to a compiled step.
    """
    if isinstance(value, Symbol):
        return value
    if isinstance(value, jax.core.Tracer):
        if in_dataset_function():
            return value
        raise ValueNeedsPython("a feature column hashes a feature, which is done before the step")
    return np.asarray(value)


@dataclasses.dataclass(frozen=True)
class Cross(NativeOperation):
    """All combinations of the values of features, by their hash.

    The arguments are the values of each feature, and then for each whether they are there.

    Attributes:
        buckets: how many there are.
        key: with which hashes begin.
    """

    buckets: int
    key: int

    @property
    def name(self) -> str:
        return "feature_column.crossed_column"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        keys = arguments[: len(arguments) // 2]
        if not all(each.is_static for each in arguments):
            raise ValueNeedsPython("a crossed feature's shape varies")
        width = int(np.prod([each.shape[-1] or 0 for each in keys]))
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec((*keys[0].shape[:-1], width), np.int64),))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        half = len(columns) // 2
        arrays = [np.asarray(each) for each in columns]
        return OperationResult([self.of(arrays[:half], arrays[half:])])

    def of(self, values: Sequence[np.ndarray], there: Sequence[np.ndarray]) -> np.ndarray:
        """The buckets of arrays (..., n), those of the last one side by side; -1 for none."""
        rows = values[0].shape[:-1]
        crossed = np.full((*rows, 1), self.key, np.uint64)
        known = np.ones((*rows, 1), bool)
        with np.errstate(over="ignore"):
            for each, present in zip(values, there, strict=True):
                text = each.dtype.kind in "OSU"
                prints = fingerprints(each) if text else each.astype(np.int64).view(np.uint64)
                crossed = joined(crossed[..., :, None], prints[..., None, :]).reshape(*rows, -1)
                known = (known[..., :, None] & present[..., None, :]).reshape(*rows, -1)
            found = (crossed % np.uint64(self.buckets)).astype(np.int64)
        return np.where(known, found, -1)


def crossed(features: Sequence[Categories], buckets: int, key: int) -> Any:
    """The buckets of all combinations of features' values."""
    operation = Cross(buckets, key)
    values = [_on_host(each.values) for each in features]
    there = [
        np.ones(tuple(each.values.shape), bool) if each.there is None else _on_host(each.there)
        for each in features
    ]
    if any(isinstance(each, (Symbol, jax.core.Tracer)) for each in (*values, *there)):
        return apply(operation, *values, *there)
    return operation.of([np.asarray(each) for each in values], there)
