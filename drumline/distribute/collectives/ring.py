"""Ring all-reduce: reduce-scatter and all-gather of pieces around rings of replicas."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from drumline.distribute.collectives.cross_device_ops import (
    CrossDeviceOps,
    ReplicaAxis,
    join,
    piece_bytes,
    split,
)

UNROLLED_STEPS = 16
"""Rings of more steps become a loop in the compiled program, which keeps it small."""

_State = TypeVar("_State")


@dataclasses.dataclass(frozen=True)
class Ring:
    """Rings of equal length. A replica in none of them sends nothing, and what it gets is void.

    Made of point-to-point sends only: XLA's reduce-scatter slows down all later collectives of a
    connection between CPU processes. Baidu's ring all-reduce is the two methods in
    sequence (Patarasuk and Yuan, 2009).

    Attributes:
        axis: the replicas.
        rings: the numbers of the replicas in each ring, in the order in which pieces travel.
    """

    axis: ReplicaAxis
    rings: tuple[tuple[int, ...], ...]

    @property
    def length(self) -> int:
        """How many replicas each ring has."""
        return len(self.rings[0])

    def sum_scatter(self, pieces: jax.Array) -> jax.Array:
        """Sum pieces over the ring: the replica at place p gets the total of `pieces[p]`.

        Each replica sends `length - 1` pieces. The replicas' values of a piece are added in the
        order of the ring, from the one after its owner on.

        Args:
            pieces: shape [length, ...].
        """
        place, last = self._place, self.length - 1

        def step(i: jax.Array, travelling: jax.Array) -> jax.Array:
            return self._pass_on(travelling) + self._piece(pieces, place - 2 - i)

        return _loop(last, step, self._piece(pieces, place - 1))

    def gather(self, piece: jax.Array) -> jax.Array:
        """Collect every replica's piece, by place: shape [length, ...].

        Each replica sends `length - 1` pieces.
        """
        place, last = self._place, self.length - 1

        def put(pieces: jax.Array, piece: jax.Array, at: jax.Array) -> jax.Array:
            return lax.dynamic_update_index_in_dim(pieces, piece, at % self.length, 0)

        def step(i: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            travelling, pieces = state
            travelling = self._pass_on(travelling)
            return travelling, put(pieces, travelling, place - 1 - i)

        empty = jnp.zeros((self.length, *piece.shape), piece.dtype)
        return _loop(last, step, (piece, put(empty, piece, place)))[1]

    @property
    def _place(self) -> jax.Array:
        places = {replica: place for ring in self.rings for place, replica in enumerate(ring)}
        order = [places.get(replica, 0) for replica in range(self.axis.size)]
        return jnp.array(order, jnp.int32)[self.axis.index]

    def _piece(self, pieces: jax.Array, index: jax.Array) -> jax.Array:
        return lax.dynamic_index_in_dim(pieces, index % self.length, 0, keepdims=False)

    def _pass_on(self, array: jax.Array) -> jax.Array:
        pairs = [
            (sender, ring[(place + 1) % self.length])
            for ring in self.rings
            for place, sender in enumerate(ring)
        ]
        return lax.ppermute(array, self.axis.name, pairs)


def _loop(steps: int, body: Callable[[jax.Array, _State], _State], start: _State) -> _State:
    if steps == 0:
        return start
    return lax.fori_loop(0, steps, body, start, unroll=steps <= UNROLLED_STEPS)


class RingAllReduce(CrossDeviceOps):
    """The replicas form a ring, and each only sends to the next.

    N-1 steps sum a piece of the array on each of N replicas, and N-1 more carry the sums around. An
    array of S bytes is cut into N pieces, padded if need be, so that each replica sends 2(N-1)
    pieces of S/N bytes, whatever their number. ``tf.distribute`` has the like as
    ``CommunicationImplementation.RING``.

    Args:
        num_packs: see `CrossDeviceOps`.
        bytes_per_pack: see `CrossDeviceOps`.
    """

    def sum_array(self, array: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Sum by sending pieces around the ring; they are added in the order of the ring."""
        ring = Ring(axis, (tuple(range(axis.size)),))
        total = ring.sum_scatter(split(array, axis.size))
        return join(ring.gather(total), array.shape)

    def pieces(self, axis: ReplicaAxis) -> int:
        """One for each replica."""
        return axis.size

    def bytes_sent(
        self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis, replica: int
    ) -> int:
        """2(N-1) pieces of S/N bytes."""
        return 2 * (axis.size - 1) * piece_bytes(array, axis.size)
