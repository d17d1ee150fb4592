"""The public base of the algorithms by which replicas' values meet."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.typing import ArrayLike

from drumline.distribute.cross_device_ops.copies import copy_to_all
from drumline.distribute.cross_device_ops.leaves import numbers
from drumline.distribute.cross_device_ops.pack import send_packed
from drumline.distribute.cross_device_ops.packing import Packing
from drumline.distribute.cross_device_ops.replica_axis import ReplicaAxis
from drumline.distribute.reduce_op import ReduceOp

_UNPACKED = Packing(num_packs=0)


class CrossDeviceOps(abc.ABC):
    """How replicas' values meet, as ``tf.distribute.CrossDeviceOps``.

    An algorithm of one's own overrides `sum_array`; if it cuts arrays into pieces, `pieces` as
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
        """Raise ValueError if values cannot meet this way among these replicas."""

    def bytes_sent(
        self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis, replica: int
    ) -> int | None:
        """How many bytes `replica` sends to sum `array`; None if the algorithm gives no formula.

        `bytes_between` counts the same in the compiled program. XLA's CPU compiler, though, sends
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
