"""Evaluating a program for a run of the rows of its result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.random import threefry2x32_p

from drumline.distribute.parameter_server.compiler.interpreter import RowsInterpreter
from drumline.distribute.parameter_server.compiler.rows import Rows


class NotByRows(Exception):
    """A program cannot be evaluated for some rows alone; the operation that needs all."""


class WindowInterpreter(RowsInterpreter):
    """Evaluates programs for the rows [start, start + count) of arrays of one shape.

    Random bits are the same as those of the whole: JAX's Threefry generator computes every element
    from its position.

    Args:
        shape: of the whole arrays.
        start: the first row, a number or a traced int32.
        offset: how many elements are before it, as its high and low 32 bits.
        count: how many rows.
    """

    def __init__(
        self, shape: tuple[int, ...], start: Any, offset: tuple[Any, Any], count: int
    ) -> None:
        super().__init__([shape])
        self._shape = shape
        self._start = start
        self._offset = offset
        self._count = count

    def refuse(self, eqn: Any, values: Sequence[Any]) -> NoReturn:
        raise NotByRows(eqn.primitive.name)

    def special(self, eqn: Any, values: Sequence[Any]) -> list[Any] | None:
        name = eqn.primitive.name
        if not any(getattr(v.aval, "shape", None) == self._shape for v in eqn.outvars):
            return None
        if name == "iota":
            return [self._iota(eqn)]
        if name == "random_bits" and not values[0].shape:
            return [self._random_bits(eqn, values[0])]
        if name in ("threefry2x32", "random_bits", "iota_2x32_shape"):
            raise NotByRows(name)
        return None

    def _rows(self, value: Any) -> Rows:
        return Rows(value, self._shape, "", False)

    def _iota(self, eqn: Any) -> Rows:
        axis, dtype = eqn.params["dimension"], eqn.params["dtype"]
        local = lax.broadcasted_iota(dtype, (self._count, *self._shape[1:]), axis)
        return self._rows(local if axis else local + jnp.asarray(self._start).astype(dtype))

    def _random_bits(self, eqn: Any, key: Any) -> Rows:
        config: Any = jax.config
        is_threefry = str(jax.random.key_impl(key)) == "threefry2x32"
        size = self._count * math.prod(self._shape[1:])
        if not (is_threefry and config.jax_threefry_partitionable):
            raise NotByRows("random_bits")
        if size >= 1 << 32:
            raise NotByRows("random_bits")
        first, second = jax.random.key_data(key)
        local = lax.iota("uint32", size)
        high, low = self._offset
        lows = local + jnp.asarray(low, "uint32")
        highs = jnp.asarray(high, "uint32") + (lows < local).astype("uint32")
        bits = threefry2x32_p.bind(
            *(jnp.broadcast_to(each, lows.shape) for each in (first, second)), highs, lows
        )
        combined = _combined(bits, eqn.params["bit_width"])
        return self._rows(combined.reshape((self._count, *self._shape[1:])))


def _combined(bits: Sequence[Any], width: int) -> Any:
    high, low = bits
    if width == 64:
        return (high.astype("uint64") << 32) | low.astype("uint64")
    return (high ^ low).astype(f"uint{width}")
