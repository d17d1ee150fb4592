"""What a workload's rounds say: speeds, ratios, verdicts; the form that is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness.floors import OURS, Spread, judge, part_ratios, ratio, speeds, spread
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.schedule import Rounds
from benchmarks.harness.workload import Scale, Workload

METRICS = ("first_batch", "first", "later")
RATIOS = (*METRICS, "slowest")
Summary = dict[str, Any]


def summarize(
    workload: Workload, scale: Scale, rounds: Rounds, skipped: Mapping[str, str], quick: bool
) -> Summary:
    """The summary of a workload, made of plain values only.

    Args:
        workload: the workload.
        scale: the scale it ran at.
        rounds: what its rounds gave.
        skipped: contenders that could not run here, with the reason.
        quick: whether this was a trial, whose floors mean nothing.
    """
    contenders = [
        _contender(contender.name, contender.about, rounds, skipped.get(contender.name))
        for contender in workload.contenders
        if contender.name in rounds.runs or contender.name in skipped
    ]
    own = {name: entry for name, entry in _by_name(contenders).items() if entry["speeds"]}
    ratios = {
        (metric, name): entry["ratios"][metric]["median"]
        for name, entry in own.items()
        for metric in RATIOS
        if entry["ratios"].get(metric)
    }
    own_speeds = {
        metric: value["median"] for metric, value in own.get(OURS, {}).get("speeds", {}).items()
    }
    return {
        "workload": workload.name,
        "title": workload.title,
        "unit": workload.unit,
        "baseline": workload.baseline,
        "quick": quick,
        "rounds": max((len(runs) for runs in rounds.runs.values()), default=0),
        "elements": scale.elements,
        "batch_size": scale.batch_size,
        "contenders": contenders,
        "floors": [
            {
                "metric": verdict.floor.metric,
                "against": verdict.floor.against,
                "at_least": verdict.floor.at_least,
                "aim": verdict.floor.aim,
                "measured": verdict.measured,
                "outcome": "not judged" if quick else verdict.outcome,
                "reached_aim": verdict.reached_aim,
            }
            for verdict in judge(workload.floors, ratios, own_speeds)
        ],
    }


def _contender(name: str, about: str, rounds: Rounds, skipped: str | None) -> Summary:
    runs = rounds.runs.get(name, [])
    finished = [run for run in runs if run is not None]
    failure = rounds.failures.get(name)
    entry: Summary = {"name": name, "about": about, "speeds": {}, "ratios": {}}
    if skipped is not None:
        return entry | {"status": "skipped", "reason": skipped}
    if failure is not None:
        entry |= {"status": failure.kind, "reason": failure.detail}
    else:
        entry |= {"status": "ok", "reason": ""}
    if not finished:
        return entry
    ours = rounds.runs.get(OURS)
    return entry | {
        "speeds": {metric: _plain(speeds(runs, metric)) for metric in METRICS},
        "ratios": _ratios(ours, runs) if ours else {},
        "parts": _parts(ours, runs) if ours else {},
        "import_s": _plain(spread([run.import_s for run in finished])),
        "process_s": _plain(spread(rounds.process_s[name])),
        "timings_s": [_timings(run) for run in finished],
        "evidence": finished[-1].evidence,
        "versions": finished[-1].versions,
    }


def _ratios(ours: Sequence[Measurement | None], runs: Sequence[Measurement | None]) -> Summary:
    found = {metric: _plain(ratio(ours, runs, metric)) for metric in RATIOS}
    return {metric: value for metric, value in found.items() if value or metric in METRICS}


def _parts(ours: Sequence[Measurement | None], runs: Sequence[Measurement | None]) -> Summary:
    """Of each call that both sides time: its time on this side, and our speed over it."""
    finished = [run for run in runs if run is not None]
    return {
        name: {
            "seconds": _plain(spread([run.parts[name] for run in finished])),
            "ratio": _plain(value),
        }
        for name, value in part_ratios(ours, runs).items()
    }


def _timings(run: Measurement) -> Summary:
    return {
        "first_batch": run.first_batch_s,
        "first_epoch": run.first_epoch_s,
        "later_epochs": list(run.later_epochs_s),
    }


def _plain(value: Spread | None) -> dict[str, float] | None:
    if value is None:
        return None
    return {"low": value.low, "median": value.median, "high": value.high}


def _by_name(contenders: list[Summary]) -> dict[str, Summary]:
    return {entry["name"]: entry for entry in contenders}
