"""Hardware that a program can be planned for: chips as their makers describe them, and groups.

A name is ``tpu-v5e-256``, ``tpu-v5e-2x256`` (two slices of 256 chips), ``gpu-h100-64`` or
``cpu-4x2`` (four processes of two devices each).
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Literal, NamedTuple

Unit = Literal["FLOP/s", "FLOP", "B", "B/s", "Hz", "s", "rows", "rows/s", "per epoch", "rate", ""]
How = Literal["compiled", "compiler's cycles", "model", "measured", "published", "assumed"]
"""How a number was got.

- compiled: the compiler says so of the program, as its memory and what its collectives carry;
- compiler's cycles: the compiler's own estimate of how long a part takes;
- model: computed here from other numbers;
- measured: on this machine, now;
- published: the maker of the hardware says so;
- assumed: no page says so, and the source says why this value was taken.
"""


class Known(NamedTuple):
    """A number, its unit, how it was got, and from where.

    Attributes:
        value: in base units: FLOP/s, bytes, bytes per second, hertz, seconds.
        unit: the unit; "" where there is none.
        how: how it was got.
        source: the page that says so, the formula, or the reason to assume it.
    """

    value: float
    unit: Unit
    how: How
    source: str


_V4 = "docs.cloud.google.com/tpu/docs/v4"
_V5E = "docs.cloud.google.com/tpu/docs/v5e"
_V5P = "docs.cloud.google.com/tpu/docs/v5p-training"
_V6E = "docs.cloud.google.com/tpu/docs/v6e"
_H100 = "nvidia.com/en-us/data-center/h100 (SXM)"
_DGX = "docs.nvidia.com/dgx/dgxh100-user-guide"
_BOOK = "github.com/jax-ml/scaling-book, tpus.md"
_HERE = "this machine is not measured"


def _published(value: float, unit: Unit, source: str) -> Known:
    return Known(value, unit, "published", source)


def _assumed(value: float, unit: Unit, source: str) -> Known:
    return Known(value, unit, "assumed", source)


@dataclasses.dataclass(frozen=True)
class Chip:
    """A kind of chip.

    Attributes:
        name: as in names of groups: ``"v5e"``.
        platform: ``"tpu"``, ``"gpu"`` or ``"cpu"``.
        clock: cycles per second, by which a compiler's cycles become seconds; 0 where no compiler
            gives any.
        peak: of bfloat16 matrix products.
        memory: of a chip, for programs.
        memory_bandwidth: between the chip and that memory.
        link: what one link carries in one direction between neighbours in a group.
        axes: along how many axes a chip has two neighbours (a torus); 0 for a switch.
        network: what one chip's share of its host's network carries in one direction.
        chips_per_host: how many share a host.
        largest: how many chips links join at most: a slice of a TPU, a host of GPUs.
        cores: how many devices the compiler sees in a chip.
    """

    name: str
    platform: Literal["tpu", "gpu", "cpu"]
    clock: Known
    peak: Known
    memory: Known
    memory_bandwidth: Known
    link: Known
    axes: int
    network: Known
    chips_per_host: int
    largest: int
    cores: int = 1


_NO_CLOCK = Known(0.0, "Hz", "assumed", "no compiler's cycles are read for this platform")

CHIPS = {
    chip.name: chip
    for chip in (
        Chip(
            "v4",
            "tpu",
            Known(1.05e9, "Hz", "model", "275e12 / (2 cores x 4 units x 128 x 128 x 2)"),
            _published(275e12, "FLOP/s", _V4),
            _published(32 * 2**30, "B", _V4),
            _published(1.2e12, "B/s", _V4),
            _published(45e9, "B/s", _BOOK),
            3,
            _published(25e9 / 4, "B/s", f"{_BOOK}: 25 GB/s a host, of 4 chips"),
            4,
            4096,
            2,
        ),
        Chip(
            "v5e",
            "tpu",
            Known(1.5e9, "Hz", "model", "197e12 / (4 units x 128 x 128 x 2)"),
            _published(197e12, "FLOP/s", _V5E),
            _published(16e9, "B", _V5E),
            _published(819e9, "B/s", _V5E),
            _published(50e9, "B/s", f"{_V5E}: 400 GB/s a chip both ways, by 4 links"),
            2,
            _published(6.4e12 / 8 / 256, "B/s", f"{_V5E}: 6.4 Tbit/s for 256 chips"),
            8,
            256,
        ),
        Chip(
            "v5p",
            "tpu",
            Known(1.75e9, "Hz", "model", "459e12 / (2 cores x 4 units x 128 x 128 x 2)"),
            _published(459e12, "FLOP/s", _V5P),
            _published(95 * 2**30, "B", _V5P),
            _published(2765e9, "B/s", _V5P),
            _published(100e9, "B/s", f"{_V5P}: 1,200 GB/s a chip both ways, by 6 links"),
            3,
            _published(50e9 / 8, "B/s", _V5P),
            4,
            6144,
        ),
        Chip(
            "v6e",
            "tpu",
            _assumed(
                1.75e9, "Hz", "as v5p; the published peak and number of units give twice that"
            ),
            _published(918e12, "FLOP/s", _V6E),
            _published(32e9, "B", _V6E),
            _published(1638e9, "B/s", _V6E),
            _published(100e9, "B/s", f"{_V6E}: 800 GB/s a chip both ways, by 4 links"),
            2,
            _assumed(12.5e9, "B/s", "100 Gbit/s a chip, from 4 NICs of 200 Gbit/s for 8 chips"),
            8,
            256,
        ),
        Chip(
            "h100",
            "gpu",
            _NO_CLOCK,
            _published(989.4e12, "FLOP/s", f"{_H100}: 1,979 with sparsity"),
            _published(80e9, "B", _H100),
            _published(3.35e12, "B/s", _H100),
            _published(450e9, "B/s", f"{_H100}: NVLink, 900 GB/s both ways"),
            0,
            _published(50e9, "B/s", f"{_DGX}: 400 Gbit/s a GPU"),
            8,
            8,
        ),
        Chip(
            "cpu",
            "cpu",
            _NO_CLOCK,
            _assumed(0.0, "FLOP/s", _HERE),
            _assumed(0.0, "B", _HERE),
            _assumed(0.0, "B/s", _HERE),
            _assumed(0.0, "B/s", _HERE),
            0,
            _assumed(0.0, "B/s", _HERE),
            1,
            1,
        ),
    )
}
"""The kinds of chips, by their names."""

EXAMPLES = ("tpu-v5e-256", "tpu-v5e-2x256", "tpu-v6e-16", "tpu-v5p-64", "gpu-h100-64", "cpu-4x2")


class UnknownHardwareError(ValueError):
    """No group of chips has that name; the message lists those that are known."""


@dataclasses.dataclass(frozen=True)
class ChipGroup:
    """Chips that a program is planned for.

    Attributes:
        name: as it was asked for.
        chip: their kind.
        slices: how many groups joined by links there are; the network joins these.
        chips_per_slice: how many chips each has.
    """

    name: str
    chip: Chip
    slices: int
    chips_per_slice: int

    @property
    def chips(self) -> int:
        """How many chips there are."""
        return self.slices * self.chips_per_slice

    @property
    def hosts(self) -> int:
        """How many hosts they are in."""
        return self.slices * math.ceil(self.chips_per_slice / self.chip.chips_per_host)

    def resized(self, chips: int) -> ChipGroup:
        """Return the group of that many chips of this kind, in slices as large as there are.

        Raises:
            UnknownHardwareError: if there is no such group.
        """
        size = min(chips, max(self.chips_per_slice, _largest(self.chip)))
        if chips % size:
            raise UnknownHardwareError(
                f"{chips} {self.chip.name} chips do not divide into slices of {size}."
            )
        return ChipGroup(
            f"{self.chip.platform}-{self.chip.name}-{chips}", self.chip, chips // size, size
        )


_NAME = re.compile(r"(tpu|gpu)-([a-z0-9]+)-(?:(\d+)x)?(\d+)|(cpu)-(\d+)x(\d+)")


def group_of(name: str) -> ChipGroup:
    """Return the group of chips of a name, such as ``"tpu-v5e-256"``.

    ``tpu-v5e-2x256`` has two slices of 256 chips; of GPUs the hosts are such slices, and
    ``cpu-4x2`` has four processes of two devices each.

    Raises:
        UnknownHardwareError: if the name is of no known form, kind or size.
    """
    found = _NAME.fullmatch(name.strip().lower())
    if found is None:
        raise _unknown(name, "it is not written as one of these")
    platform, kind, slices, chips, cpu, processes, devices = found.groups()
    if cpu:
        slices, chips, kind, platform = processes, devices, "cpu", "cpu"
    chip = CHIPS.get(kind)
    if chip is None or chip.platform != platform:
        raise _unknown(name, f"there is no {platform.upper()} of the kind {kind!r}")
    each = int(chips)
    if not 0 < each <= 1 << 20 or (slices is not None and not 0 < int(slices) <= 1 << 20):
        raise _unknown(name, "it needs between 1 and 1,048,576 chips")
    if cpu:
        return ChipGroup(name, chip, int(slices), each)
    if slices is None and each > chip.largest:
        if each % chip.largest:
            raise _unknown(name, f"more than {chip.largest} chips come in multiples of that")
        slices, each = str(each // chip.largest), chip.largest
    if each > chip.largest:
        raise _unknown(name, f"links join at most {chip.largest} chips of this kind")
    if platform == "tpu" and side_lengths(chip, each) is None:
        raise _unknown(name, f"{each} chips form no {'x'.join('n' * chip.axes)} torus")
    return ChipGroup(name, chip, int(slices or 1), each)


def side_lengths(chip: Chip, chips: int) -> tuple[int, ...] | None:
    """The most even torus of so many chips, the longest axis first, or None if there is none.

    Sides are powers of two times 1, 3 or 5, as those of the makers' tables are.
    """
    if chip.axes == 0:
        return (chips,)
    sides = [n for n in range(1, chips + 1) if chips % n == 0 and _odd_part(n) in (1, 3, 5)]
    shapes = _shapes(sides, chips, chip.axes)
    return min(shapes, key=lambda shape: (shape[0] / shape[-1], shape), default=None)


def _shapes(sides: list[int], chips: int, axes: int) -> list[tuple[int, ...]]:
    if axes == 1:
        return [(chips,)] if chips in sides else []
    return [
        tuple(sorted((side, *rest), reverse=True))
        for side in sides
        if chips % side == 0
        for rest in _shapes(sides, chips // side, axes - 1)
    ]


def _odd_part(number: int) -> int:
    while number % 2 == 0:
        number //= 2
    return number


def _largest(chip: Chip) -> int:
    return 1 << (chip.largest.bit_length() - 1)


def _unknown(name: str, why: str) -> UnknownHardwareError:
    kinds = ", ".join(f"{c.platform}-{c.name}" for c in CHIPS.values() if c.platform != "cpu")
    return UnknownHardwareError(
        f"No hardware is called {name!r}: {why}. Kinds: {kinds}, cpu; names: {', '.join(EXAMPLES)}."
    )
