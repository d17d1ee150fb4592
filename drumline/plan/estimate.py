"""A step's time on hardware that is not there, from a compiled program; how each number was got.

On TPUs computing is what the compiler expects of each part, in cycles, and not a quotient of
totals: a program's bytes count what never leaves the chip, and its operations at the published peak
say nothing of shapes that fill no matrix unit. A GPU's compiler expects nothing: there each kernel
is taken to reach the published peak or bandwidth, which is a bound. Collectives are modelled. None
of it knows of input, stragglers or other users of a network: what comes out is what a step takes at
best.

The model of collectives is the textbook's: rings over a torus or a switch, and the network. An
all-reduce of B bytes over n chips sends 2 B (n - 1) / n from each, an all-gather and a
reduce-scatter half of that. On a torus all axes carry parts at once, in both directions where the
ends of an axis are joined, and in one where they are not. Over several slices each chip first has
its share of its slice's sum, and reduces that share over the network.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from drumline.plan.compiled.program_text import Collective, CompiledProgram, Summary, Work
from drumline.plan.hardware import Chip, ChipGroup, Known, side_lengths

HOP_SECONDS = 1e-6
"""Assumed for each chip that a message passes."""
NETWORK_SECONDS = 20e-6
"""Assumed for each message over the network."""
_JOINED_ENDS = {2: 16, 3: 4}
"""From which length on the ends of an axis are joined, by the number of axes (Google's tables)."""
_SENT = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0, "collective-broadcast": 1.0}

SIZES = tuple(1 << power for power in range(11))
"""From 1 to 1,024 chips."""


class Layer(NamedTuple):
    """Work of one place in the traced function.

    Attributes:
        name: the place, as JAX names it.
        seconds: all times together.
        share: of the step's computing.
    """

    name: str
    seconds: Known
    share: float


class Reduced(NamedTuple):
    """A collective with its time.

    Attributes:
        collective: what the compiled program has.
        seconds: all times together.
    """

    collective: Collective
    seconds: Known


@dataclasses.dataclass(frozen=True)
class StepEstimate:
    """What a step takes at best.

    Attributes:
        group: the chips.
        compiled_for: how many devices the program was compiled for.
        computing: seconds of work on a chip.
        waiting: seconds of collectives during which no chip computes.
        hidden: seconds of collectives that run beside work.
        step: seconds of all.
        collectives: each with its time.
        layers: the slowest first.
        without_estimate: work without an estimate of the compiler's, which `computing` counts by
            the bytes it writes and reads.
        unknown_loops: loops that count once, as the text does not say how often they run.
        summary: what the program's text says.
        compiled_slices: for how many slices it was compiled.
    """

    group: ChipGroup
    compiled_for: int
    computing: Known
    waiting: Known
    hidden: Known
    step: Known
    collectives: tuple[Reduced, ...]
    layers: tuple[Layer, ...]
    without_estimate: tuple[Work, ...]
    unknown_loops: tuple[str, ...]
    summary: Summary
    compiled_slices: int = 1

    @property
    def products(self) -> float:
        """FLOP of a device's matrix products and convolutions, of programs without cycles."""
        return sum(sum(work.products.values()) * work.times for work in self.summary.work)

    def share_of_peak(self, operations: float) -> Known:
        """Return which part of the chips' peak `operations` (FLOP of a device and step) are.

        Raises:
            ValueError: if the chip's peak is not known.
        """
        peak = self.group.chip.peak
        if not peak.value:
            raise ValueError(f"The peak of {self.group.name} is not known: {peak.source}.")
        peak_of_device = peak.value / self.group.chip.cores
        return Known(operations / self.step.value / peak_of_device, "", "model", "at best")

    def efficiency(self, chips: int) -> Known:
        """Return a step's time on one chip over that on `chips`, with the same rows for each.

        Raises:
            UnknownHardwareError: if there is no such group of this kind.
        """
        other = estimate(
            self.summary,
            self.group.resized(chips),
            self.compiled_for,
            self.compiled_slices,
        )
        alone = self.computing.value
        bound = "an upper bound: no stragglers, no input"
        if not self.group.chip.clock.value:
            bound = "of computing at its best: collectives that wait weigh less beside more"
        return Known(alone / other.step.value, "", "model", bound)


def estimate_text(text: str, group: ChipGroup, compiled_slices: int = 1) -> StepEstimate:
    """Return what a step takes whose program, compiled for a chip of this kind, has this text.

    Args:
        text: of the program.
        group: the chips.
        compiled_slices: see `collective_seconds`.

    Raises:
        ProgramTextError: if it is no program's text.
        ValueError: if nothing is known of the chip's speed.
    """
    program = CompiledProgram(text)
    return estimate(program.summary(), group, program.devices, compiled_slices)


def estimate(
    summary: Summary,
    group: ChipGroup,
    compiled_for: int,
    compiled_slices: int = 1,
) -> StepEstimate:
    """Return what a step takes of which the compiled program's summary is this one.

    Args:
        summary: of the program.
        group: the chips.
        compiled_for: how many devices the program was compiled for.
        compiled_slices: see `collective_seconds`.

    Raises:
        ValueError: if nothing is known of the chip's speed.
    """
    chip = group.chip
    by_place: dict[str, float] = defaultdict(float)
    if chip.clock.value:
        for work in summary.work:
            by_place[_place(work)] += _seconds(work, group)
        total = sum(by_place.values())
        assumed = "" if not summary.without_estimate else "; parts without one by their bytes"
        if any(work.operations is not None for work in summary.work):
            assumed += "; attention's kernels by their operations at the chip's peak"
        computing = Known(
            total, "s", "compiler's cycles", f"at {chip.clock.value / 1e9:g} GHz{assumed}"
        )
    elif chip.peak.value and chip.memory_bandwidth.value:
        for work in summary.work:
            by_place[_place(work)] += _roofline(work, chip)
        total = sum(by_place.values())
        computing = Known(
            total,
            "s",
            "model",
            "each kernel at the chip's peak or bandwidth, whichever takes longer: none reaches it",
        )
    else:
        raise ValueError(f"No time can be planned for {group.name}: {chip.clock.source}.")
    reduced = tuple(
        Reduced(
            each, _all_times(each, collective_seconds(each, group, compiled_for, compiled_slices))
        )
        for each in summary.collectives
    )
    waiting = sum(each.seconds.value for each in reduced if not each.collective.overlapped)
    hidden = sum(each.seconds.value for each in reduced if each.collective.overlapped)
    layers = sorted(by_place.items(), key=lambda item: -item[1])
    return StepEstimate(
        group=group,
        compiled_for=compiled_for,
        computing=computing,
        waiting=Known(waiting, "s", "model", "collectives that the compiler runs alone"),
        hidden=Known(hidden, "s", "model", "collectives that the compiler runs beside work"),
        step=Known(
            max(total, hidden) + waiting,
            "s",
            "model",
            "the longer of computing and hidden, + waiting",
        ),
        collectives=reduced,
        layers=tuple(
            Layer(name, Known(each, "s", computing.how, computing.source), each / total)
            for name, each in layers
            if total
        ),
        without_estimate=summary.without_estimate if chip.clock.value else (),
        unknown_loops=summary.unknown_loops,
        summary=summary,
        compiled_slices=compiled_slices,
    )


def efficiencies(step: StepEstimate, sizes: Iterable[int] = SIZES) -> Sequence[tuple[int, Known]]:
    """Return the scaling efficiency for each number of chips; up to where there are such groups."""
    return [(chips, step.efficiency(chips)) for chips in sizes]


def loss_of_doubling(
    measured: Mapping[int, float], bound: Callable[[int], float] = lambda chips: 1.0
) -> float:
    """Return which part of the rate is lost for each doubling, as was measured.

    An empirical law, for what no model knows: stragglers, jitter, input. With b chips in the
    smallest measurement, ``rate(n) = rate(b) * bound(n) / bound(b) * (1 - loss * log2(n / b))``;
    the loss is the least squares' of the other measurements.

    Args:
        measured: rates of a chip, in any unit, by the number of chips; at least two.
        bound: the efficiency that a model gives, an upper bound.

    Raises:
        ValueError: for fewer than two measurements, or rates that are not positive.
    """
    if len(measured) < 2 or min(measured) < 1 or min(measured.values()) <= 0:
        raise ValueError(
            f"A loss is fitted to positive rates of two or more numbers of chips, got {measured}."
        )
    base = min(measured)
    above = below = 0.0
    for chips, rate in measured.items():
        doublings = math.log2(chips / base)
        ratio = rate / measured[base] / (bound(chips) / bound(base))
        above += doublings * (1 - ratio)
        below += doublings**2
    return above / below


def rate_with_loss(
    measured: Mapping[int, float],
    chips: int,
    bound: Callable[[int], float] = lambda chips: 1.0,
) -> float:
    """Return the rate of a chip among `chips`, by what was measured; see `loss_of_doubling`."""
    base = min(measured)
    loss = loss_of_doubling(measured, bound)
    kept = max(0.0, 1 - loss * math.log2(chips / base))
    return measured[base] * bound(chips) / bound(base) * kept


def _seconds(work: Work, group: ChipGroup) -> float:
    chip = group.chip
    if work.cycles is not None:
        return work.cycles / chip.clock.value
    if work.operations is not None:
        return work.operations * work.times * chip.cores / chip.peak.value
    return 2 * work.bytes * work.times / chip.memory_bandwidth.value


_OF_PEAK = {"f32": 0.5, "f64": 0.068, "s8": 2.0, "u8": 2.0, "f8e4m3fn": 2.0, "f8e5m2": 2.0}
"""How fast products of a dtype are, of bfloat16's peak: an H100's, float32 as TF32."""


def _roofline(work: Work, chip: Chip) -> float:
    """Seconds of a kernel that computes at the peak and moves at the bandwidth, both at once."""
    products = sum(
        operations / (chip.peak.value * _OF_PEAK.get(dtype, 1.0))
        for dtype, operations in work.products.items()
    )
    return work.times * max(products, work.moved / chip.memory_bandwidth.value)


def _all_times(collective: Collective, once: Known) -> Known:
    return once._replace(value=once.value * collective.times)


_AROUND = re.compile(r"(?:jit|pjit|jvp|transpose|checkpoint|remat|vmap)\((.*)\)$")


def _place(work: Work) -> str:
    """Where work comes from: without what JAX wraps around it, and without the operation."""
    first = work.op_name.partition(";")[0]  # fused work has several
    place = first.rpartition("/")[0]
    if not place:
        return first or f"without a place: {work.opcode}"
    parts = place.split("/")
    names = [_unwrapped(part) for part in parts if part != "shard_map"]
    if len(names) > 1 and parts[0].startswith(("jit(", "pjit(")):  # the step itself
        names = names[1:]
    passes = ", backward" if "transpose(" in place else ""
    return "/".join(filter(None, names)) + passes


def _unwrapped(part: str) -> str:
    while found := _AROUND.fullmatch(part):
        part = found[1]
    return part


def collective_seconds(
    collective: Collective, group: ChipGroup, compiled_for: int, compiled_slices: int = 1
) -> Known:
    """Return how long one run of a collective takes.

    Args:
        collective: what the compiled program has.
        group: the chips it is planned for.
        compiled_for: how many devices the program was compiled for: a collective over all of them
            is over all chips of `group`, and one over fewer stays among neighbours.
        compiled_slices: for how many slices of so many devices it was compiled: such a program's
            collectives are each of one slice, or of what is between slices.

    Raises:
        ValueError: if the chips' links have no published speed.
    """
    chip = group.chip
    if not chip.link.value:
        raise ValueError(f"Collectives of {group.name} cannot be planned: {chip.link.source}.")
    if collective.network:  # of a chip's share, which is another one in slices of another size
        share = collective.bytes * compiled_for / group.chips_per_slice
        seconds = 0.0
        if group.slices > 1:
            seconds = _by_network(
                dataclasses.replace(collective, bytes=share), chip, 1, group.slices
            )
        return Known(seconds, "s", "model", f"over the network, between {group.slices} slices")
    everywhere = collective.group >= compiled_for
    slices = group.slices if everywhere and compiled_slices == 1 else 1
    inside = group.chips_per_slice if everywhere else collective.group
    inside = max(1, min(inside, group.chips_per_slice))
    seconds = 0.0
    if inside > 1:
        seconds += _by_links(collective, chip, inside, everywhere)
    if slices > 1:
        seconds += _by_network(collective, chip, inside, slices)
    how = "ring over links" if slices == 1 else "rings over links, then over the network"
    return Known(seconds, "s", "model", f"{how}; {collective.kind} over {inside * slices} chips")


def _by_links(collective: Collective, chip: Chip, chips: int, everywhere: bool) -> float:
    sides = (side_lengths(chip, chips) if everywhere else None) or (chips,)
    sides = tuple(side for side in sides if side > 1)
    joined = [chip.axes == 0 or side >= _JOINED_ENDS[chip.axes] for side in sides]
    hops = sum(side / 2 if ends else side - 1 for side, ends in zip(sides, joined, strict=True))
    latency = HOP_SECONDS * (1 if chip.axes == 0 else hops)
    if collective.kind == "collective-permute":
        return collective.bytes / chip.link.value + HOP_SECONDS
    share = (chips - 1) / chips
    if collective.kind in ("all-to-all", "ragged-all-to-all"):
        if chip.axes == 0:
            return collective.bytes * share / chip.link.value + latency
        longest = max(range(len(sides)), key=lambda at: sides[at] / (1 + joined[at]))
        # A message passes a quarter of a ring on average, or a third of a row without an end.
        passes = sides[longest] / (8 if joined[longest] else 4)
        return collective.bytes * passes / chip.link.value + latency
    if chip.axes == 0:
        rate = chip.link.value
    else:
        rate = sum(chip.link.value * (2 if ends else 1) for ends in joined)
    sent = _SENT[collective.kind]
    return sent * collective.bytes * share / rate + sent * latency


def _by_network(collective: Collective, chip: Chip, inside: int, slices: int) -> float:
    if not chip.network.value:
        raise ValueError(f"The network of {chip.name} is not known: {chip.network.source}.")
    share = (slices - 1) / slices
    if collective.kind in _SENT:
        sent = _SENT[collective.kind] * collective.bytes / inside * share
        rounds = _SENT[collective.kind] * math.ceil(math.log2(slices))
        return sent / chip.network.value + rounds * NETWORK_SECONDS
    return collective.bytes * share / chip.network.value + NETWORK_SECONDS
