"""The page of a sweep: images per second, scaling, share of the peak, and what to try next."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from drumline._recorder import COMMUNICATION, COMPUTING, INPUT
from drumline.cnn.sweep.cases import Result

PASSES = 3
"""A step computes the network once forward, and about twice as much backward."""

_GOOD = 0.9
_NOTABLE = 1.03
_COSTLY = 0.05


@dataclasses.dataclass(frozen=True)
class Machine:
    """What ran.

    Attributes:
        name: of the device.
        peak_flops: of a matrix product on one device, FLOPs a second.
        copy_bytes: that one device copies in a second.
        shares_processors: whether devices are logical ones of the same processors.
        software: versions of what computed, and the date.
    """

    name: str
    peak_flops: float
    copy_bytes: float
    shares_processors: bool
    software: str = ""


@dataclasses.dataclass(frozen=True)
class Row:
    """A result beside the others.

    Attributes:
        result: which.
        efficiency: images per second, of so many times those of one device; None without one.
        peak_share: FLOPs of the network, of what products of matrices reach; None if unknown.
        computing: the share of a step's time in which devices compute; None if it is not known.
        communication: in which they exchange gradients and weights; None if it is not known, and
            then within computing.
        input: in which they wait for images; None if it is not known.
    """

    result: Result
    efficiency: float | None
    peak_share: float | None
    computing: float | None = None
    communication: float | None = None
    input: float | None = None

    @property
    def rest(self) -> float | None:
        """Of the time of a step: what is none of the three, which is Python's."""
        if self.computing is None:
            return None
        return max(0.0, 1 - self.computing - (self.communication or 0.0) - (self.input or 0.0))


def rows_of(
    results: Sequence[Result], machine: Machine, multiply_adds: Mapping[str, int]
) -> list[Row]:
    """Return the results beside one another, those that failed left out.

    Args:
        results: of a sweep.
        machine: on which.
        multiply_adds: of each model for one image, forward.
    """
    speeds = {
        (r.case.model, r.case.devices, r.case.mode): r.images_per_second
        for r in results
        if r.images_per_second
    }
    rows = []
    for result in results:
        case, speed = result.case, result.images_per_second
        if not speed:
            continue
        single = next(
            (s for (model, devices, _), s in speeds.items() if (model, devices) == (case.model, 1)),
            None,
        )
        flops = 2 * PASSES * multiply_adds[case.model] if case.model in multiply_adds else None
        peak = machine.peak_flops * (1 if machine.shares_processors else case.devices)
        ideal = None if single is None else single * times(machine, case.devices)
        rows.append(
            Row(
                result,
                None if ideal is None else speed / ideal,
                None if flops is None or not peak else speed * flops / peak,
                *(result.step_time.get(part) for part in (COMPUTING, COMMUNICATION, INPUT)),
            )
        )
    return rows


def times(machine: Machine, devices: int) -> int:
    """How many times as fast as one device so many of them are at best."""
    return 1 if machine.shares_processors else devices


def ideal_name(machine: Machine) -> str:
    """What the speed of several devices is a share of."""
    return "of one device alone" if machine.shares_processors else "of as many single devices"


def advice(rows: Sequence[Row], machine: Machine) -> list[str]:
    """Return what to try next, a sentence each, the reason in it."""
    said = []
    for model in dict.fromkeys(row.result.case.model for row in rows):
        own = [row for row in rows if row.result.case.model == model]
        most = max(row.result.case.devices for row in own)
        alike = [
            row
            for row in own
            if row.result.case.devices == most and row.result.case.mode != "independent"
        ]
        if not alike:
            continue
        best = max(alike, key=lambda row: row.result.images_per_second or 0)
        where = f"{model} on {most} device(s)"
        slowest = min(row.result.images_per_second or 0 for row in alike)
        if slowest * _NOTABLE < (best.result.images_per_second or 0):
            said.append(
                f"{where}: `--variable_update={best.result.case.mode}` is the fastest mode here."
            )
        if best.input is not None and best.input > _COSTLY:
            stage = f" ({best.result.stage})" if best.result.stage else ""
            said.append(
                f"{where}: devices wait for images {best.input:.0%} of the time{stage}. Try "
                "`--datasets_num_private_threads`, `--resize_method=nearest`, or "
                "`--datasets_use_caching` where they fit into memory."
            )
        if best.communication is not None and best.communication > _COSTLY:
            said.append(
                f"{where}: {best.communication:.0%} of a step is communication. "
                "Try a larger `--batch_size`, `--use_bf16`, whose gradients are half as long, or "
                "`--variable_consistency=relaxed`, which hides them behind the next step."
            )
        if best.peak_share is not None and best.peak_share < 0.3 and not machine.shares_processors:
            said.append(
                f"{where}: {best.peak_share:.0%} of the peak. Try a larger `--batch_size` or "
                "`--use_bf16`."
            )
        scales = best.efficiency is not None and best.efficiency >= _GOOD and most > 1
        if scales and not machine.shares_processors:
            said.append(f"{where}: it scales ({best.efficiency:.0%}); more devices will pay.")
    return said


def markdown(
    rows: Sequence[Row], failed: Sequence[Result], machine: Machine, picture: str | None
) -> str:
    """Return the page.

    Args:
        rows: of `rows_of`.
        failed: results of cases that ended with an error.
        machine: on which.
        picture: the path of the picture from the page; None without one.
    """
    ideal = ideal_name(machine)
    lines = [
        f"# Networks of images on {machine.name}",
        "",
        f"A matrix product reaches {machine.peak_flops / 1e12:.3g} TFLOP/s on one device, a copy "
        f"{machine.copy_bytes / 1e9:.3g} GB/s, both in float32."
        + (f" By {machine.software}." if machine.software else ""),
        "",
    ]
    if machine.shares_processors:
        lines += ["Devices are logical ones, which share this machine's processors.", ""]
    if picture is not None:
        lines += [f"![Images per second, and what the time of a step goes to]({picture})", ""]
    lines += [
        f"| model | devices | mode | batch | images/s | {ideal} | of the peak | computing | "
        "communication | input | rest |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        case = row.result.case
        lines.append(
            f"| {case.model} | {case.devices} | {case.mode if case.devices > 1 else '-'} | "
            f"{row.result.batch_size} | "
            f"{row.result.images_per_second:,.1f} | {_percent(row.efficiency)} | "
            f"{_percent(row.peak_share)} | {_percent(row.computing)} | "
            f"{_percent(row.communication)} | {_percent(row.input)} | {_percent(row.rest)} |"
        )
    lines += ["", *_flags(rows)]
    if sentences := advice(rows, machine):
        lines += ["", "## What to try next", "", *(f"- {each}" for each in sentences)]
    if failed:
        lines += ["", "## What failed", ""]
        lines += [
            f"- `{' '.join(each.case.arguments)}`: {each.error.splitlines()[-1]}" for each in failed
        ]
    lines += [
        "",
        "*Of the peak*: three times the network's multiply-adds, beside a matrix product's, which "
        "is measured when all cases have run, and comes out too low while other programs compute. "
        "*Computing* to *rest*: what the time of a step goes to, by the step profiler; input is "
        "the wait for images while devices are idle, and rest is Python. Communication that is not "
        "known (-) is within computing.",
        "",
    ]
    return "\n".join(lines)


def _flags(rows: Sequence[Row]) -> list[str]:
    """Sentences that say with which flags all ran, and some models alone."""
    of_models = {row.result.case.model: row.result.case.flags for row in rows}
    common = [
        flag
        for flag in next(iter(of_models.values()), ())
        if all(flag in flags for flags in of_models.values())
    ]
    said = [f"All with `{' '.join(common)}`."] if common else []
    for model, flags in of_models.items():
        if own := [flag for flag in flags if flag not in common]:
            said.append(f"{model} with `{' '.join(own)}`.")
    return [" ".join(said)] if said else []


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def to_json(rows: Sequence[Row], failed: Sequence[Result], machine: Machine) -> dict[str, Any]:
    """Return the page's numbers."""
    return {
        "machine": dataclasses.asdict(machine),
        "rows": [{**dataclasses.asdict(row), "rest": row.rest} for row in rows],
        "failed": [dataclasses.asdict(each) for each in failed],
        "advice": advice(rows, machine),
    }
