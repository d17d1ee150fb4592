"""What lookup tables hold, and looking keys up: at once, in maps and in compiled steps."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from drumline._core import StringTable
from drumline.data.elements.ragged import RaggedTensorSpec
from drumline.data.elements.spec import LEAF_STRUCTURE, STRING, ElementSpec, TensorSpec
from drumline.data.functions.native.flat import flat
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.symbol import ValueNeedsPython

_INT32 = np.iinfo(np.int32)


class ValueSource(Protocol):
    """What keys are looked up in.

    Attributes:
        value_shape: of each value.
        values_dtype: of the values, numpy's.
    """

    value_shape: tuple[int, ...]
    values_dtype: np.dtype

    def found(self, keys: np.ndarray) -> np.ndarray:
        """The values of keys (n,): an array (n, \\*value_shape)."""
        ...


class Contents:
    """Keys and their values, which do not change.

    Args:
        keys: (n,), different ones.
        values: (n, ...).
        default: (...), of all other keys.
    """

    def __init__(self, keys: np.ndarray, values: np.ndarray, default: np.ndarray):
        self.keys, self.values, self.default = keys, values, default
        self.value_shape = values.shape[1:]
        self.values_dtype = values.dtype

    @functools.cached_property
    def _strings(self) -> StringTable:
        return StringTable(np.ascontiguousarray(self.keys))

    @functools.cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.keys, kind="stable")

    @functools.cached_property
    def _identity(self) -> Any:
        parts = (self.keys, self.values, self.default)
        return tuple(
            (each.dtype.str, each.shape, tuple(each.ravel().tolist()))
            if each.dtype.kind == "O"
            else (each.dtype.str, each.shape, each.tobytes())
            for each in parts
        )

    def places(self, keys: np.ndarray) -> np.ndarray:
        """The place of each key (n,) among the keys, -1 for those that are not there."""
        if self.keys.dtype.kind == "O":
            return self._strings.numbers(keys)
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        ordered = self.keys[self._order]
        near = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
        return np.where(ordered[near] == keys, self._order[near], -1)

    def found(self, keys: np.ndarray) -> np.ndarray:
        """The values of keys (n,)."""
        places = self.places(keys)
        made: np.ndarray = np.concatenate([self.values, self.default[None]])[places]
        return made

    def traced(self, keys: Any) -> Any:
        """The values of a tracer's numbers.

        Raises:
            ValueNeedsPython: the values are strings, or need more bits than a step has.
        """
        if self.values.dtype.kind == "O":
            raise ValueNeedsPython("a lookup table gives strings, which no device holds")
        if not jax.config.read("jax_enable_x64") and self.values.dtype.kind in "iu":
            every = np.append(self.values.ravel(), self.default.ravel())
            if len(every) and (every.min() < _INT32.min or every.max() > _INT32.max):
                raise ValueNeedsPython("a lookup table has values that need 64 bits")
        order = self._order
        if keys.dtype.itemsize < 8 and self.keys.dtype == np.int64:
            fits = (self.keys >= _INT32.min) & (self.keys <= _INT32.max)
            order = order[fits[order]]
        known = jnp.asarray(self.keys[order])
        # The default stands behind the values, for tables without keys, too.
        values = jnp.asarray(np.concatenate([self.values[order], self.default[None]]))
        if not len(order):
            return jnp.broadcast_to(values[0], (*keys.shape, *self.value_shape))
        near = jnp.minimum(jnp.searchsorted(known, keys), len(order) - 1)
        return values[jnp.where(known[near] == keys, near, len(order))]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Contents) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash((self.keys.shape, self.values.dtype.str))

    def __reduce__(self) -> Any:
        return Contents, (self.keys, self.values, self.default)


@dataclasses.dataclass(frozen=True)
class FindValues(NativeOperation):
    """Looks the keys of a column up.

    Attributes:
        source: in what.
    """

    source: ValueSource

    @property
    def name(self) -> str:
        return "lookup"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (keys,) = arguments
        shape = (*keys.shape, *self.source.value_shape)
        kind = STRING if self.source.values_dtype.kind == "O" else self.source.values_dtype
        if isinstance(keys, RaggedTensorSpec):
            made: TensorSpec = RaggedTensorSpec(shape, kind, keys.ragged_rank)
        else:
            made = TensorSpec(shape, kind)
        return ElementSpec(LEAF_STRUCTURE, (made,))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        given = flat(columns[0])
        return OperationResult([given.put(self.source.found(given.values))])
