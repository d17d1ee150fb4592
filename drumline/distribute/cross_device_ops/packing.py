"""Which arrays travel together."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence

import jax

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
