"""All-reduce between the CPU devices of several processes of one machine."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core as jex
from jax.interpreters import batching, mlir
from jax.typing import ArrayLike

from drumline._changes import note
from drumline.distribute.collectives.collective_channels import (
    SMALL_BYTES,
    Channels,
    channels_here,
)
from drumline.distribute.collectives.cross_device_ops import ReplicaAxis
from drumline.distribute.collectives.platform import GlooAllReduce

_DTYPES = frozenset({"int32", "int64", "float16", "bfloat16", "float32", "float64"})
_WHOLE_BYTES = frozenset(
    jnp.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64"),
    )
)
_CALL = "drumline_all_reduce"

MOST_GATHERED_BYTES = 256 * 1024
"""Up to so many bytes of all replicas together are gathered in shared memory, see `gather_rows`."""


class SharedMemoryAllReduce(GlooAllReduce):
    """Sums in memory that all processes of the job share: see `processes.share_memory`.

    Each replica writes its arrays there once and reads those of the others, all that are reduced
    together in one call. The replicas' values are added in the order of the replicas, those of
    float16 and bfloat16 as float32, so that all replicas get the same bits.

    Values of other types, and those that are reduced while a derivative, a loop or another
    function of JAX's is traced within the step, go by `GlooAllReduce`.

    Args:
        num_packs: see `CrossDeviceOps`; for what goes by Gloo.
        bytes_per_pack: see `CrossDeviceOps`; for what goes by Gloo.
    """

    def sum_arrays(self, arrays: Sequence[jax.Array], axis: ReplicaAxis) -> list[jax.Array]:
        """Sum the arrays of each type at once."""
        channels = channels_here()
        if channels is None or axis.size == 1:
            return super().sum_arrays(arrays, axis)
        sums = dict(enumerate(arrays))
        left: list[int] = []
        for group in _groups(arrays):
            members = [arrays[index] for index in group]
            summed = self._summed(members, axis, channels)
            if summed is None:
                left += group
            else:
                sums.update(zip(group, summed, strict=True))
        others = super().sum_arrays([arrays[index] for index in left], axis)
        sums.update(zip(left, others, strict=True))
        return [sums[index] for index in range(len(arrays))]

    def gathers(self, row: jax.ShapeDtypeStruct | jax.Array, axis: ReplicaAxis) -> bool:
        """Those that are small, and of real numbers, are gathered in shared memory."""
        if axis.size == 1 or row.dtype not in _WHOLE_BYTES:
            return False
        return 0 < axis.size * row.size * row.dtype.itemsize <= MOST_GATHERED_BYTES

    def gather_rows(self, row: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Add integers of the row's bits, to which the other replicas give zeros."""
        rows = self._gathered_words(_as_words(row), axis)
        assert rows is not None, "the program begins with all channels"
        return _of_words(rows, row)

    def gather_results(
        self, rows: Sequence[jax.Array], axis: ReplicaAxis
    ) -> Sequence[jax.Array | None]:
        """The small ones together, such as losses and counts."""
        gathered: list[jax.Array | None] = [None] * len(rows)
        most = SMALL_BYTES // axis.size
        small = [n for n, row in enumerate(rows) if row.nbytes <= most and self.gathers(row, axis)]
        words = [_as_words(rows[n]) for n in small]
        while sum(each.nbytes for each in words) > most:
            words.pop()
        together = self._gathered_words(jnp.concatenate(words), axis) if words else None
        if together is not None:
            ends = itertools.accumulate(each.size for each in words)
            for n, each, end in zip(small, words, ends, strict=False):
                gathered[n] = _of_words(together[:, end - each.size : end], rows[n])
        return gathered

    def _gathered_words(self, words: jax.Array, axis: ReplicaAxis) -> jax.Array | None:
        """The replicas' words, stacked; None where no channel is left."""
        channels = channels_here()
        rows = jnp.zeros((axis.size, words.size), np.int32)
        channel = None if channels is None else channels.take(rows.nbytes)
        if channel is None:
            return None
        rows = lax.dynamic_update_slice_in_dim(rows, words[None], axis.index, 0)
        (rows,) = _call([rows], axis, channel)
        return rows

    def bytes_sent(
        self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis, replica: int
    ) -> None:
        """None: nothing is sent where memory is shared."""

    def describe(self, axis: ReplicaAxis) -> str:
        """The way, and what is left to Gloo."""
        return (
            f"{type(self).__name__}: in memory that the processes of this machine share; by Gloo "
            "what is reduced inside of derivatives and loops of a step"
        )

    def _summed(
        self, arrays: list[jax.Array], axis: ReplicaAxis, channels: Channels
    ) -> Sequence[jax.Array] | None:
        """The sums of arrays of one type; None if they cannot be formed in shared memory."""
        if arrays[0].dtype.name not in _DTYPES:
            return None
        channel = channels.take(sum(array.nbytes for array in arrays))
        if channel is None:
            return None

        @jax.custom_jvp
        def summed(*arrays: jax.Array) -> Sequence[jax.Array]:
            return _call(arrays, axis, channel)

        @summed.defjvp
        def _(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            def plain(*arrays: jax.Array) -> Sequence[jax.Array]:
                return tuple(super(SharedMemoryAllReduce, self).sum_arrays(arrays, axis))

            outputs, slopes = jax.jvp(plain, tuple(primals), tuple(tangents))
            return outputs, slopes

        return summed(*arrays)


def _call(arrays: Sequence[jax.Array], axis: ReplicaAxis, channel: int) -> Sequence[jax.Array]:
    sums: Sequence[jax.Array] = tuple(_summing().bind(axis.index, *arrays, channel=channel))
    return sums


@functools.cache
def _summing() -> jex.Primitive:
    """The primitive of a sum, of the replica's number and its arrays.

    XLA must neither drop the call nor make one of two, so for XLA it has side effects. For JAX it
    has none: programs with effects are never called by JAX's quick path, which takes half a
    millisecond of Python less each time. JAX may then drop a sum whose results are not used, which
    it does in all processes alike, as they trace the same program; the channels match the others.
    """
    primitive = jex.Primitive(_CALL)
    primitive.multiple_results = True
    primitive.def_impl(_evaluated)
    primitive.def_abstract_eval(_types)
    batching.primitive_batchers[primitive] = _batched
    mlir.register_lowering(primitive, _lowered, platform="cpu")
    note(
        "JAX",
        f"a primitive of drumline's own: {_CALL}",
        "it stands for sums in shared memory in compiled programs",
        "no setting; nothing of JAX's is replaced",
    )
    return primitive


def _types(_: Any, *arrays: Any, channel: int) -> list[jax.core.ShapedArray]:
    return [jax.core.ShapedArray(array.shape, array.dtype) for array in arrays]


def _evaluated(*operands: Any, channel: int) -> Sequence[jax.Array]:
    with jax.disable_jit(False):
        return jax.jit(functools.partial(_summing().bind, channel=channel))(*operands)


_FOREIGN_CALL = jax.ffi.ffi_lowering(_CALL, has_side_effect=True)


def _lowered(ctx: Any, *operands: Any, channel: int) -> Any:
    return _FOREIGN_CALL(ctx, *operands, channel=np.array([channel], np.int64))


def _batched(operands: Sequence[Any], dims: Sequence[Any], *, channel: int) -> Any:
    """The arrays of all rows are summed at once. The replica's number has no rows."""
    size = next(
        operand.shape[dim] for operand, dim in zip(operands, dims, strict=True) if dim is not None
    )
    rows = [
        jnp.broadcast_to(operand, (size, *operand.shape))
        if dim is None
        else jnp.moveaxis(operand, dim, 0)
        for operand, dim in zip(operands[1:], dims[1:], strict=True)
    ]
    sums = _summing().bind(operands[0], *rows, channel=channel)
    return sums, [0] * len(sums)


def _as_words(row: jax.Array) -> jax.Array:
    """The bits of an array as int32, with zeros at the end where they make no whole number."""
    if row.dtype == np.bool_:
        row = row.astype(np.uint8)
    if row.dtype.itemsize >= 4:
        return lax.bitcast_convert_type(row, np.int32).reshape(-1)
    each = 4 // row.dtype.itemsize
    flat = jnp.pad(row.reshape(-1), (0, -row.size % each))
    return lax.bitcast_convert_type(flat.reshape(-1, each), np.int32)


def _of_words(rows: jax.Array, like: jax.Array) -> jax.Array:
    """The arrays, stacked, of which the rows are the bits."""
    is_bool = like.dtype == np.bool_
    dtype, size = np.dtype(np.uint8) if is_bool else like.dtype, len(rows)
    if dtype.itemsize > 4:
        rows = rows.reshape(size, -1, dtype.itemsize // 4)
    flat = lax.bitcast_convert_type(rows, dtype).reshape(size, -1)
    return flat[:, : like.size].reshape(size, *like.shape).astype(like.dtype)


def _groups(arrays: Sequence[jax.Array]) -> list[list[int]]:
    """The positions of arrays that are not empty, by type."""
    of_dtype: dict[object, list[int]] = {}
    for index, array in enumerate(arrays):
        if array.size:
            of_dtype.setdefault(array.dtype, []).append(index)
    return list(of_dtype.values())
