"""A variable's initial value as a program that computes no more than one shard.

`export_initializer` traces the initializer for the whole variable, and evaluates what was traced
for a run of its rows (`WindowInterpreter`), so that a server never has a large table whole. The
numbers are those of the whole variable, whatever the shards. An initializer whose rows cannot be
computed alone is computed whole where that is small, and refused by name where it is not.

The chief calls it when a variable is created; the server runs the program (`server.memory`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.random import threefry2x32_p

from drumline.distribute.parameter_server.compiler.exporting import PLATFORMS, export_function
from drumline.distribute.parameter_server.errors import ProgramError
from drumline.training.keras_internals import StatelessScope
from drumline.training.row_sparse.interpreter import (
    RowsInterpreter,
    RowSparse,
    Uniform,
)


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

    def _rows(self, value: Any) -> RowSparse:
        return RowSparse(value, self._shape, "", False)

    def _iota(self, eqn: Any) -> RowSparse:
        axis, dtype = eqn.params["dimension"], eqn.params["dtype"]
        local = lax.broadcasted_iota(dtype, (self._count, *self._shape[1:]), axis)
        return self._rows(local if axis else local + jnp.asarray(self._start).astype(dtype))

    def _random_bits(self, eqn: Any, key: Any) -> RowSparse:
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


WHOLE_BYTES = 256 << 20
"""Up to this size a value that cannot be computed row by row is computed whole on each server."""


BLOCK_ELEMENTS = 1 << 20
"""How many elements are drawn at a time."""


def export_initializer(
    initializer: Callable[..., Any],
    shape: Sequence[int],
    dtype: str,
    start: int,
    stop: int,
    *,
    platforms: Sequence[str] = PLATFORMS,
) -> bytes:
    """The rows [start, stop) of what `initializer` gives for the whole variable.

    They are the same numbers however the variable is cut. Only they are computed and held, if the
    initializer computes its rows from constants and random bits, as all of Keras's do but for
    ``Orthogonal``, ``Identity`` of a square matrix included.

    Args:
        initializer: a Keras initializer or a function of ``(shape, dtype=)``. If its seed is a
            `keras.random.SeedGenerator`, that is left as it was.
        shape: of the whole variable.
        dtype: its name.
        start: the first row; 0 for a scalar.
        stop: the row after the last; 1 for a scalar.
        platforms: on which the program may run.

    Returns:
        A program for `load_program`: it takes nothing and gives ``[rows]``.

    Raises:
        ValueError: if the rows are not the variable's.
        ProgramError: if it cannot be cut and is too large to be computed whole.
    """
    shape = tuple(int(size) for size in shape)
    if not 0 <= start < stop <= (shape[0] if shape else 1):
        raise ValueError(f"Rows {start} to {stop} are not those of a variable of shape {shape}.")
    with StatelessScope(initialize_variables=False):
        traced = jax.make_jaxpr(lambda: jnp.asarray(initializer(shape, dtype=dtype), dtype))()
    (made,) = traced.out_avals
    if made.shape != shape:
        raise ValueError(f"The initializer gave the shape {made.shape} instead of {shape}.")

    def whole() -> list[Any]:
        return jax.core.eval_jaxpr(traced.jaxpr, traced.consts)

    if not shape:
        return export_function(whole, (), platforms)
    try:
        jax.eval_shape(lambda: _rows(traced, shape, start, stop))
        return export_function(lambda: [_rows(traced, shape, start, stop)], (), platforms)
    except NotByRows as error:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > WHOLE_BYTES and stop - start < shape[0]:
            raise ProgramError(
                f"The initial value of a variable of shape {shape} cannot be computed in parts: "
                f"`{error}` of {_name(initializer)} needs all {size >> 20} MB of it. Use an "
                "initializer that draws each element on its own, such as GlorotUniform or "
                "TruncatedNormal, or a variable without partitions."
            ) from None
    return export_function(lambda: [whole()[0][start:stop]], (), platforms)


def _rows(traced: Any, shape: tuple[int, ...], start: int, stop: int) -> Any:
    """The rows, block by block: drawing them takes several times the memory that they do."""
    count = stop - start
    block = max(1, BLOCK_ELEMENTS // math.prod(shape[1:]))
    if count <= block or any(np.shape(const) == shape for const in traced.consts):
        return _window(traced, shape, start, _halves(start, shape), count)
    # The last block ends where the rows do, and draws some of them again.
    begins = [min(begin, count - block) for begin in range(0, count, block)]
    offsets = [_halves(start + begin, shape) for begin in begins]
    highs, lows = (jnp.asarray(each, "uint32") for each in zip(*offsets, strict=True))
    places = jnp.asarray(begins, "int32")

    def fill(number: Any, made: Any) -> Any:
        begin, offset = places[number], (highs[number], lows[number])
        rows = _window(traced, shape, start + begin, offset, block)
        return lax.dynamic_update_slice_in_dim(made, rows, begin, 0)

    empty = jnp.zeros((count, *shape[1:]), traced.out_avals[0].dtype)
    return lax.fori_loop(0, len(begins), fill, empty)


def _window(traced: Any, shape: tuple[int, ...], start: Any, offset: Any, count: int) -> Any:
    interpreter = WindowInterpreter(shape, start, offset, count)
    consts = [
        RowSparse(const[start : start + count], shape, "", False)
        if np.shape(const) == shape
        else const
        for const in traced.consts
    ]
    (value,) = interpreter.evaluate(traced.jaxpr, consts, [])
    if isinstance(value, RowSparse):
        return value.value
    if isinstance(value, Uniform):
        return value.rows(count)
    raise NotByRows("an operation")


def _halves(row: int, shape: tuple[int, ...]) -> tuple[int, int]:
    """How many elements are before a row, as its high and low 32 bits."""
    return divmod(row * math.prod(shape[1:]), 1 << 32)


def _name(initializer: Any) -> str:
    return getattr(initializer, "__name__", type(initializer).__name__)
