"""Specifications of all-reduces, as ``pscpu:32k:xring``: what they say, and the algorithms.

The grammar is that of tf_cnn_benchmarks' ``--all_reduce_spec``::

    int   ::= positive whole number
    g_int ::= int[KkMGT]?
    alg   ::= name | name#int
    range ::= alg | alg/alg
    spec  ::= range | range:g_int:spec
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import re
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from drumline.distribute.collectives import (
    CrossDeviceOps,
    NcclAllReduce,
    RecursiveDoublingAllReduce,
    ReplicaAxis,
)
from drumline.distribute.collectives.cross_device_ops import (
    copies_at,
    copy_to_all,
    join,
    piece_bytes,
    piece_length,
    split,
)
from drumline.distribute.collectives.ring import Ring

_SUFFIXES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_ALONE = ("nccl", "collective", "ring", "xring", "rechd", "pscpu", "psgpu")
_WITHIN = ("nccl", "pscpu")
_ACROSS = ("xring", "rechd", "pscpu")


@dataclasses.dataclass(frozen=True)
class SizeRange:
    """The algorithm for arrays up to a size.

    Attributes:
        algorithm: its name, such as ``"xring"`` or ``"nccl/xring"``.
        shards: into how many parts an array is cut for it.
        limit: the most elements of an array that it is for; None for no limit.
    """

    algorithm: str
    shards: int
    limit: int | None


def parse_size(text: str) -> int:
    """Return the number of ``"32k"`` or ``"2M"``, whose suffixes are powers of 1,024.

    Raises:
        ValueError: if it is no such number.
    """
    found = re.fullmatch(r"(\d+)([KkMGT]?)", text)
    if not found:
        raise ValueError(f"{text!r} is no size: write a number, as 2048, 32k, 4M, 1G.")
    return int(found[1]) * _SUFFIXES[found[2].upper()]


def parse(spec: str) -> list[SizeRange]:
    """Return the ranges of a specification, in the order of their limits.

    Raises:
        ValueError: if it is malformed, names an unknown algorithm, or its limits do not rise.
    """
    parts = spec.split(":")
    if len(parts) % 2 == 0:
        raise ValueError(
            f"all_reduce_spec {spec!r} ends with a size: write ALGORITHM or "
            "ALGORITHM:SIZE:ALGORITHM, as pscpu:32k:xring."
        )
    ranges = []
    for place in range(0, len(parts), 2):
        limit = None
        if place + 1 < len(parts):
            try:
                limit = parse_size(parts[place + 1])
            except ValueError as error:
                raise ValueError(f"all_reduce_spec {spec!r}: {error}") from None
        ranges.append(SizeRange(*_algorithm(spec, parts[place]), limit))
    limits = [each.limit for each in ranges if each.limit is not None]
    if any(later <= earlier for earlier, later in itertools.pairwise(limits)):
        raise ValueError(f"all_reduce_spec {spec!r}: the sizes must rise from range to range.")
    return ranges


def _algorithm(spec: str, text: str) -> tuple[str, int]:
    name, _, number = text.partition("#")
    if "#" in text and (not number.isdigit() or int(number) < 1):
        raise ValueError(
            f"all_reduce_spec {spec!r}: {number!r} is no number of shards: write {name}#2."
        )
    within, slash, across = name.partition("/")
    known = within in _WITHIN and across in _ACROSS if slash else name in _ALONE
    if not known:
        names = [*_ALONE, *(f"{a}/{b}" for a in _WITHIN for b in _ACROSS)]
        near = difflib.get_close_matches(name, names, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"all_reduce_spec {spec!r}: there is no algorithm {name!r}.{hint} There are "
            f"{', '.join(names)}."
        )
    return name, int(number) if number else 1


def all_reduce_of(spec: str, packing: CrossDeviceOps | None = None) -> CrossDeviceOps:
    """Return the algorithm of a specification.

    Args:
        spec: as ``"nccl"``, ``"psgpu#4"``, ``"pscpu:32k:xring"``.
        packing: an algorithm of which only the packing of small arrays is taken; by default every
            array travels alone, as the ranges are of arrays' own sizes.

    Raises:
        ValueError: as `parse`.

    Example:
        >>> from drumline.cnn.updates.all_reduce_spec import all_reduce_of
        >>> strategy = dl.distribute.MirroredStrategy(
        ...     ["cpu:0", "cpu:1"], cross_device_ops=all_reduce_of("pscpu:32k:xring")
        ... )
    """
    return SpecifiedAllReduce(spec, parse(spec), packing)


class SpecifiedAllReduce(CrossDeviceOps):
    """For each array the algorithm of its size.

    ``nccl`` and ``collective`` are the platform's own all-reduce; ``xring`` (or ``ring``) a ring;
    ``rechd`` recursive doubling. ``pscpu`` and ``psgpu`` are shuffles: an array is cut into as many
    shards as `#` says, each of which one device gathers, adds and sends back, the next array's
    first shard one device on. They are named after the devices that gather in TensorFlow; here
    those are replicas' own, as a compiled step runs on them. ``a/b`` is `a` within each process and
    `b` across processes, for each device's part of the array.

    Args:
        spec: what the user wrote.
        ranges: of `parse`.
        packing: see `all_reduce_of`.
    """

    def __init__(
        self, spec: str, ranges: Sequence[SizeRange], packing: CrossDeviceOps | None = None
    ) -> None:
        super().__init__(num_packs=0)
        if packing is not None:
            self.packing = packing.packing
        self.spec = spec
        self.ranges = tuple(ranges)
        self._turn = 0

    def sum_arrays(self, arrays: Sequence[jax.Array], axis: ReplicaAxis) -> list[jax.Array]:
        """Return the sums, the shuffles' devices taking turns from the first array on."""
        self._turn = 0
        return super().sum_arrays(arrays, axis)

    def sum_array(self, array: jax.Array, axis: ReplicaAxis) -> jax.Array:
        """Sum by the algorithm for an array of this size."""
        turn, self._turn = self._turn, self._turn + 1
        return _sum(self.range_of(array), array, axis, turn)

    def range_of(self, array: ArrayLike | jax.ShapeDtypeStruct) -> SizeRange:
        """The range that an array of this size is in."""
        size = int(np.prod(np.shape(array)))
        return next(each for each in self.ranges if each.limit is None or size <= each.limit)

    def check(self, axis: ReplicaAxis) -> None:
        """Raise ValueError for more shards than there are replicas to gather them."""
        for each in self.ranges:
            if each.algorithm.startswith("ps") and each.shards > axis.size:
                raise ValueError(
                    f"all_reduce_spec {self.spec!r}: {each.shards} shards need as many devices to "
                    f"gather them, and there are {axis.size}."
                )

    def bytes_sent(
        self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis, replica: int
    ) -> int | None:
        """What the algorithm for an array of this size sends; None for shuffles and for ``a/b``.

        Which device gathers a shuffle's shard depends on the arrays before it: `total_bytes_sent`
        is the sum over the replicas.
        """
        chosen = self.range_of(array)
        if chosen.algorithm in ("nccl", "collective"):
            return NcclAllReduce().bytes_sent(array, axis, replica)
        shards = _shards(array, chosen)
        shard = jax.ShapeDtypeStruct((piece_length(_size(array), shards),), _dtype(array))
        if chosen.algorithm == "rechd":
            return shards * RecursiveDoublingAllReduce().bytes_sent(shard, axis, replica)
        if chosen.algorithm in ("ring", "xring"):
            return shards * 2 * (axis.size - 1) * piece_bytes(shard, axis.size)
        return None

    def total_bytes_sent(self, array: ArrayLike | jax.ShapeDtypeStruct, axis: ReplicaAxis) -> int:
        """How many bytes all replicas together send to sum `array`."""
        chosen = self.range_of(array)
        each = [self.bytes_sent(array, axis, replica) for replica in range(axis.size)]
        known = [sent for sent in each if sent is not None]
        if len(known) == axis.size:
            return sum(known)
        if "/" not in chosen.algorithm:
            shards = _shards(array, chosen)
            return 2 * (axis.size - 1) * piece_bytes(array, shards) * shards
        groups = _groups(axis)
        local, processes = len(groups[0]), len(groups)
        within, _, across = chosen.algorithm.partition("/")
        parts = local if within == "nccl" else 1
        part = piece_bytes(array, parts)
        inside = 2 * (local - 1) * part * parts
        return processes * inside + parts * _across_bytes(across, part, processes, _dtype(array))

    def describe(self, axis: ReplicaAxis) -> str:
        """The ranges in words."""
        return "; ".join(
            f"{each.algorithm}{f' of {each.shards} shards' if each.shards > 1 else ''} "
            + ("for all others" if each.limit is None else f"up to {each.limit:,} elements")
            if len(self.ranges) > 1
            else each.algorithm + (f" of {each.shards} shards" if each.shards > 1 else "")
            for each in self.ranges
        )


def _size(array: ArrayLike | jax.ShapeDtypeStruct) -> int:
    return int(np.prod(np.shape(array)))


def _shards(array: ArrayLike | jax.ShapeDtypeStruct, chosen: SizeRange) -> int:
    """Into how many shards an array is cut: none of them is empty."""
    size = _size(array)
    return -(-size // piece_length(size, chosen.shards))


def _dtype(array: ArrayLike | jax.ShapeDtypeStruct) -> np.dtype:
    return np.dtype(jnp.result_type(array))


def _sum(chosen: SizeRange, array: jax.Array, axis: ReplicaAxis, turn: int) -> jax.Array:
    if axis.size == 1:
        return array
    if chosen.algorithm in ("nccl", "collective"):
        return lax.psum(array, axis.name)
    if "/" in chosen.algorithm:
        within, _, across = chosen.algorithm.partition("/")
        return _two_levels(array, axis, within, across)
    rows = split(array, _shards(array, chosen))
    if chosen.algorithm == "rechd":
        sums = [RecursiveDoublingAllReduce().sum_array(row, axis) for row in rows]
    elif chosen.algorithm in ("ring", "xring"):
        sums = [_ring(row, axis, shard) for shard, row in enumerate(rows)]
    else:
        first = turn * len(rows)
        sums = [_gathered(row, axis, (first + shard) % axis.size) for shard, row in enumerate(rows)]
    return join(jnp.stack(sums), array.shape)


def _ring(row: jax.Array, axis: ReplicaAxis, shard: int) -> jax.Array:
    """Sum by a ring; every second shard's runs the other way, over the links' other direction."""
    order = tuple(range(axis.size))
    ring = Ring(axis, (order if shard % 2 == 0 else order[::-1],))
    return join(ring.gather(ring.sum_scatter(split(row, axis.size))), row.shape)


def _gathered(row: jax.Array, axis: ReplicaAxis, root: int) -> jax.Array:
    """Sum on the device `root`, in the order of the replicas, and send the sum to the others."""
    total, *others = copies_at(row, axis, root)
    for each in others:
        total = total + each
    return copy_to_all(total, axis, root)


def _groups(axis: ReplicaAxis) -> list[list[int]]:
    """The replicas of each process.

    Raises:
        ValueError: if processes have different numbers of replicas.
    """
    by_process: dict[int, list[int]] = {}
    for replica, device in enumerate(axis.devices):
        by_process.setdefault(device.process_index, []).append(replica)
    groups = list(by_process.values())
    if len({len(group) for group in groups}) > 1:
        raise ValueError("Two levels need as many devices in each process.")
    return groups


def _two_levels(array: jax.Array, axis: ReplicaAxis, within: str, across: str) -> jax.Array:
    """Sum within processes, then across them, then bring the sums to all devices of a process.

    With `nccl` each device has a part of its process's sum, and takes it across; with `pscpu` the
    first device of each process has all of it.
    """
    groups = _groups(axis)
    lines = tuple(zip(*groups, strict=True))
    if within == "nccl":
        rows = split(array, len(lines))
        own = lax.psum_scatter(rows, axis.name, axis_index_groups=groups)
        total = _across(own, axis, lines, across)
        return join(lax.all_gather(total, axis.name, axis_index_groups=groups), array.shape)
    total = array
    for sender in lines[1:]:
        total = total + lax.ppermute(array, axis.name, list(zip(sender, lines[0], strict=True)))
    total = result = _across(total, axis, lines[:1], across)
    for receiver in lines[1:]:
        sent = lax.ppermute(total, axis.name, list(zip(lines[0], receiver, strict=True)))
        result = jnp.where(jnp.isin(axis.index, jnp.array(receiver)), sent, result)
    return result


def _across(
    part: jax.Array, axis: ReplicaAxis, lines: tuple[tuple[int, ...], ...], across: str
) -> jax.Array:
    """Sum over the devices of each line, one of each process; other devices' results are void."""
    count = len(lines[0])
    if count == 1:
        return part
    if across == "xring":
        ring = Ring(axis, lines)
        return join(ring.gather(ring.sum_scatter(split(part, count))), part.shape)
    if across == "rechd":
        return _doubled(part, axis, lines)
    total = part
    for sender in range(1, count):
        total = total + lax.ppermute(part, axis.name, [(line[sender], line[0]) for line in lines])
    result = total
    for receiver in range(1, count):
        sent = lax.ppermute(total, axis.name, [(line[0], line[receiver]) for line in lines])
        here = jnp.isin(axis.index, jnp.array([line[receiver] for line in lines]))
        result = jnp.where(here, sent, result)
    return result


def _doubled(part: jax.Array, axis: ReplicaAxis, lines: tuple[tuple[int, ...], ...]) -> jax.Array:
    """Recursive doubling in each line at once; see `RecursiveDoublingAllReduce`."""
    count = len(lines[0])
    paired = 1 << (count.bit_length() - 1)
    up = [(line[i], line[i - paired]) for line in lines for i in range(paired, count)]
    total = part + lax.ppermute(part, axis.name, up) if up else part
    distance = 1
    while distance < paired:
        pairs = [(line[i], line[i ^ distance]) for line in lines for i in range(paired)]
        total = total + lax.ppermute(total, axis.name, pairs)
        distance *= 2
    if not up:
        return total
    back = lax.ppermute(total, axis.name, [(b, a) for a, b in up])
    late = jnp.array([line[i] for line in lines for i in range(paired, count)])
    return jnp.where(jnp.isin(axis.index, late), back, total)


def _across_bytes(across: str, nbytes: int, count: int, dtype: np.dtype) -> int:
    """What the devices of a line send together to sum a part of `nbytes`."""
    part = jax.ShapeDtypeStruct((nbytes // dtype.itemsize,), dtype)
    if across == "xring":
        return 2 * (count - 1) * piece_bytes(part, count) * count
    if across == "pscpu":
        return 2 * (count - 1) * nbytes
    paired = 1 << (count.bit_length() - 1)
    return nbytes * (paired * (paired.bit_length() - 1) + 2 * (count - paired))
