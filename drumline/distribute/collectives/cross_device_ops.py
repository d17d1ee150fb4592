"""`CrossDeviceOps`, the public base of the algorithms that reduce replicas' values, and packing.

The arrays of a pytree are packed, so that many small ones travel as one. `ReplicaAxis` is the
replicas among which a collective is traced; beside it are the pieces and copies that they send.
"""

from __future__ import annotations

import abc
import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import PyTreeDef
from jax.typing import ArrayLike

from drumline.distribute.values import ReduceOp


@dataclasses.dataclass(frozen=True)
class ReplicaAxis:
    """The mesh axis along which the replicas lie, one on each device.

    Attributes:
        name: the axis, bound while a step is traced by `jax.shard_map` with `check_vma=False`.
        devices: the replicas' devices, in the order of the axis.
    """

    name: str
    devices: tuple[jax.Device, ...]

    @property
    def size(self) -> int:
        """How many replicas there are."""
        return len(self.devices)

    @property
    def index(self) -> jax.Array:
        """The number of the replica that is being traced: an int32 scalar."""
        return jax.lax.axis_index(self.name)


def piece_length(size: int, count: int) -> int:
    """How many elements each of `count` pieces of an array of `size` elements has."""
    return -(-size // count)


def split(array: jax.Array, count: int) -> jax.Array:
    """Cut the flattened array into `count` rows, the last ones padded with zeros."""
    flat = array.reshape(-1)
    padding = count * piece_length(flat.size, count) - flat.size
    if padding:
        flat = jnp.pad(flat, (0, padding))
    return flat.reshape(count, -1)


def join(pieces: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Undo `split`: the array of `shape` whose pieces these are."""
    return jax.lax.slice(pieces.reshape(-1), (0,), (int(np.prod(shape)),)).reshape(shape)


def piece_bytes(array: ArrayLike | jax.ShapeDtypeStruct, count: int) -> int:
    """The bytes of one of `count` pieces of `array`, padding included."""
    size, itemsize = int(np.prod(np.shape(array))), np.dtype(jnp.result_type(array)).itemsize
    return piece_length(size, count) * itemsize


def copies_at(array: jax.Array, axis: ReplicaAxis, root: int) -> list[jax.Array]:
    """Send every replica's array to the replica `root`, which gets them in their order.

    The other replicas get zeros for all arrays but one, which is their own.
    """
    return [
        array if sender == root else lax.ppermute(array, axis.name, [(sender, root)])
        for sender in range(axis.size)
    ]


def copy_to_all(array: jax.Array, axis: ReplicaAxis, root: int) -> jax.Array:
    """Return the array of the replica `root`, which sends it to each of the others."""
    result = array
    for receiver in range(axis.size):
        if receiver != root:
            sent = lax.ppermute(array, axis.name, [(root, receiver)])
            result = jnp.where(axis.index == receiver, sent, result)
    return result


def numbers(values: Any, *, booleans: bool = False) -> tuple[list[jax.Array], PyTreeDef]:
    """Flatten a pytree into arrays of numbers.

    Args:
        values: the pytree.
        booleans: keep boolean arrays; otherwise they become int32.

    Raises:
        TypeError: if a leaf is something else; the message names it.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(values)
    return [_number(path, leaf, booleans) for path, leaf in leaves], tree


def _number(path: tuple[Any, ...], leaf: Any, booleans: bool) -> jax.Array:
    try:
        array = jnp.asarray(leaf)
    except TypeError:
        array = None
    if array is not None and array.dtype == jnp.bool_:
        return array if booleans else array.astype(jnp.int32)
    if array is None or not jnp.issubdtype(array.dtype, jnp.number):
        kind = type(leaf).__name__ if array is None else f"an array of {array.dtype}"
        raise TypeError(
            f"Replicas exchange arrays of numbers, but the value{jax.tree_util.keystr(path)} is "
            f"{kind}."
        )
    return array


SMALL_BYTES = 256 * 1024
"""Arrays of more bytes travel alone: copying them costs more than a collective saves."""


@dataclasses.dataclass(frozen=True)
class Packing:
    """How small arrays are put together to travel as one.

    Attributes:
        num_packs: into how many packs the small arrays of a dtype are divided, evenly by their
            bytes; 0 for none, every array travels alone.
        bytes_per_pack: the most bytes a pack may hold, so that there may be more packs; 0 for no
            such limit.

    Raises:
        ValueError: if a number is negative.
        TypeError: if one is no integer.
    """

    num_packs: int = 1
    bytes_per_pack: int = 0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _require_count(field.name, getattr(self, field.name))

    def groups(self, arrays: Sequence[jax.Array]) -> list[list[int]]:
        """Return the positions in `arrays` of those that travel together, every one once."""
        small = [i for i, array in enumerate(arrays) if array.nbytes <= SMALL_BYTES]
        if self.num_packs == 0:
            small = []
        alone = sorted(set(range(len(arrays))) - set(small))
        of_dtype: dict[object, list[int]] = {}
        for position in small:
            of_dtype.setdefault(arrays[position].dtype, []).append(position)
        together = [
            pack
            for positions in of_dtype.values()
            for share in self._shares(positions, arrays)
            for pack in self._bounded(share, arrays)
        ]
        return together + [[position] for position in alone]

    def _shares(self, positions: list[int], arrays: Sequence[jax.Array]) -> list[list[int]]:
        total = sum(arrays[position].nbytes for position in positions)
        shares: list[list[int]] = [[] for _ in range(self.num_packs)]
        before = 0
        for position in positions:
            shares[before * self.num_packs // total].append(position)
            before += arrays[position].nbytes
        return [share for share in shares if share]

    def _bounded(self, positions: list[int], arrays: Sequence[jax.Array]) -> list[list[int]]:
        if not self.bytes_per_pack:
            return [positions]
        packs: list[list[int]] = []
        filled = 0
        for position in positions:
            size = arrays[position].nbytes
            if not packs or filled + size > self.bytes_per_pack:
                packs.append([])
                filled = 0
            packs[-1].append(position)
            filled += size
        return packs


def _require_count(name: str, value: int) -> None:
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}.") from None
    if count < 0:
        raise ValueError(f"{name} must be 0 or more, got {value}.")


def send_packed(
    arrays: Sequence[jax.Array],
    packing: Packing,
    pieces: int,
    send: Callable[[jax.Array], jax.Array],
) -> list[jax.Array]:
    """Apply `send`, which keeps shapes, to packs of `arrays`; return each array's result.

    A pack has the shape [pieces, columns], and row i of it holds the i-th piece of every array. So
    an algorithm that cuts what it is given into as many pieces treats every element alike, packed
    or not, and the results are the same to the bit.
    """
    sent: dict[int, jax.Array] = {}
    for group in packing.groups(arrays):
        if len(group) == 1:
            sent[group[0]] = send(arrays[group[0]])
            continue
        members = [arrays[position] for position in group]
        sent.update(zip(group, _unpack(send(_pack(members, pieces)), members), strict=True))
    return [sent[position] for position in range(len(arrays))]


def _pack(arrays: Sequence[jax.Array], pieces: int) -> jax.Array:
    blocks = [split(array, pieces) for array in arrays]
    # Without the barrier XLA computes the blocks element by element inside a slow loop of branches.
    return lax.concatenate(lax.optimization_barrier(blocks), 1)


def _unpack(packed: jax.Array, like: Sequence[jax.Array]) -> list[jax.Array]:
    arrays = []
    column, pieces = 0, packed.shape[0]
    for array in like:
        end = column + piece_length(array.size, pieces)
        arrays.append(join(lax.slice_in_dim(packed, column, end, axis=1), array.shape))
        column = end
    return arrays


_UNPACKED = Packing(num_packs=0)


class CrossDeviceOps(abc.ABC):
    """How replicas' values are reduced, as ``tf.distribute.CrossDeviceOps``.

    A custom algorithm overrides `sum_array`; if it cuts arrays into pieces, `pieces` as
    well. Its methods are called while a replica's step is traced: they take what this replica
    holds, use collectives of `jax.lax` over `axis.name`, and return what this replica gets.

    Args:
        num_packs: into how many packs the small arrays of a dtype (256 KiB at most each) are put to
            travel together; 0 to send every array alone. It changes no bit of the results.
        bytes_per_pack: the most bytes in a pack; there are more packs when needed. 0 for no limit.

    Raises:
        ValueError: if a number is negative.
        TypeError: if one is no integer.
    """

    packing = Packing()

    def __init__(self, num_packs: int = 1, bytes_per_pack: int = 0) -> None:
        self.packing = Packing(num_packs, bytes_per_pack)

    @abc.abstractmethod
    def sum_array(self, array: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Return the sum of the replicas' arrays, of the same shape and dtype, on every replica.

        Args:
            array: this replica's array, of any shape and numeric dtype, with at least one element.
            axis: the replicas, one or more.
        """

    def sum_arrays(self, arrays: Sequence[jax.Array], axis: ReplicaAxis) -> list[jax.Array]:
        """Return the sums of several arrays over the replicas, by `sum_array` of packs of them.

        Args:
            arrays: this replica's arrays, some of which may be empty.
            axis: the replicas.
        """
        return self._travel(arrays, axis, self.pieces(axis), lambda a: self._sum(a, axis))

    def pieces(self, axis: ReplicaAxis) -> int:
        """Into how many pieces `sum_array` cuts the flattened array; 1 if it does not."""
        return 1

    def check(self, axis: ReplicaAxis) -> None:  # noqa: B027 - to be overridden if needed
        """Raise ValueError if values of these replicas cannot be reduced this way."""

    def bytes_sent(
        self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis, replica: int
    ) -> int | None:
        """How many bytes `replica` sends to sum `array`; None if the algorithm gives no formula.

        Tests count the same in the compiled program. XLA's CPU compiler, though, sends
        bfloat16 as float32, twice as many bytes.

        Args:
            array: an array, or its shape and dtype, as it travels: a pack is an array.
            axis: the replicas.
            replica: the number of one of them.
        """
        return None

    def describe(self, axis: ReplicaAxis) -> str:
        """What `Strategy.describe` says of it, in one line."""
        return type(self).__name__

    def all_reduce(self, op: ReduceOp | str, values: Any, axis: ReplicaAxis) -> Any:
        """Reduce a pytree of arrays over the replicas: every replica gets the same result.

        Sums keep the dtype, and booleans count as int32, as in `jax.lax.psum`. Means of integers
        are float32 (float64 where JAX's 64-bit mode is on).

        Raises:
            TypeError: if a leaf is not numeric.
        """
        op = ReduceOp.of(op)
        leaves, tree = numbers(values)
        totals = self.sum_arrays(leaves, axis)
        if op is ReduceOp.MEAN:
            totals = [total / axis.size for total in totals]
        return tree.unflatten(totals)

    def gathers(self, row: jax.ShapeDtypeStruct | jax.Array, axis: ReplicaAxis) -> bool:
        """Whether `gather_rows` is the way to bring such values of the replicas together.

        Else XLA does it by its own collectives.

        Args:
            row: the shape and dtype of a replica's value.
            axis: the replicas.
        """
        return False

    def gather_rows(self, row: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Return the replicas' arrays of one shape, stacked, ``(replicas, ...)``, on every replica.

        Their bits stay what they are, whatever the dtype.

        Args:
            row: this replica's array.
            axis: the replicas.
        """
        return lax.all_gather(row, axis.name)

    cuts = False
    """Whether `sum_scatter` and `gather_scattered` may be used."""

    def sum_scatter(self, rows: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Return this replica's row, ``(1, ...)``, of the sum of the replicas' arrays.

        Args:
            rows: this replica's array, ``(replicas, ...)``.
            axis: the replicas.
        """
        return lax.psum_scatter(rows, axis.name, scatter_dimension=0, tiled=True)

    def gather_scattered(self, row: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Return the array ``(replicas, ...)`` of which each replica has a row, on every replica.

        The gradient of that is `sum_scatter`.

        Args:
            row: this replica's row, ``(1, ...)``.
            axis: the replicas.
        """
        return lax.all_gather(row, axis.name, tiled=True)

    def gather_results(
        self, rows: Sequence[jax.Array], axis: ReplicaAxis
    ) -> Sequence[jax.Array | None]:
        """Return those of a step's results that cost next to nothing to gather along with it.

        What is reduced after the step then needs no collective of its own.

        Args:
            rows: what this replica returns.
            axis: the replicas.

        Returns:
            For each what `gather_rows` would return, or None.
        """
        return [None] * len(rows)

    def broadcast(self, values: Any, axis: ReplicaAxis, source: int = 0) -> Any:
        """Return the pytree of arrays that the replica `source` holds, on every replica.

        The source sends it to each of the others.

        Raises:
            TypeError: if a leaf is not numeric.
            ValueError: if there is no such replica.
        """
        if not 0 <= source < axis.size:
            raise ValueError(f"There is no replica {source} to copy from, of {axis.size} replicas.")
        leaves, tree = numbers(values, booleans=True)
        return tree.unflatten(self._travel(leaves, axis, 1, lambda a: copy_to_all(a, axis, source)))

    def _travel(
        self,
        arrays: Sequence[jax.Array],
        axis: ReplicaAxis,
        pieces: int,
        send: Callable[[jax.Array], jax.Array],
    ) -> list[jax.Array]:
        packing = self.packing if axis.size > 1 else _UNPACKED
        filled = [array for array in arrays if array.size]
        sent = iter(send_packed(filled, packing, pieces, send))
        return [next(sent) if array.size else array for array in arrays]

    def _sum(self, array: jax.Array, axis: ReplicaAxis) -> jax.Array:
        total = self.sum_array(array, axis)
        if (total.shape, total.dtype) != (array.shape, array.dtype):
            raise TypeError(
                f"{type(self).__name__} made {total.dtype}{list(total.shape)} of replicas' arrays "
                f"{array.dtype}{list(array.shape)}; a sum must keep shape and dtype."
            )
        return total
