"""A failure in words."""

from __future__ import annotations

from collections.abc import Iterator

from drumline.jobs.launch.coordination import Verdict
from drumline.jobs.launch.failure_cause import Part, Suspect

_LONGEST_LINE = 300


def explain(verdict: Verdict) -> Iterator[str]:
    """Lines for the user: who failed first and why, the end of its log, and who followed."""
    if not verdict.suspects:
        return
    first, *others = verdict.suspects
    yield f"Failed first: {first.task}, which {first.what}" + (
        f": {first.why}" if first.why else ""
    )
    if first.lines:
        yield f"The end of its log, {first.log}:"
        yield from (f"    {_cropped(line)}" for line in first.lines)
    if others:
        yield "After it: " + "; ".join(_briefly(other) for other in others)


def explain_alone(suspect: Suspect) -> Iterator[str]:
    """Lines for the user: how one process failed, without which the job goes on."""
    yield f"Failed: {suspect.task}, which {suspect.what}" + (f": {suspect.why}" * bool(suspect.why))
    yield f"Its log: {suspect.log}"


def _cropped(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


def _briefly(suspect: Suspect) -> str:
    consequence = suspect.part is Part.CONSEQUENCE
    return f"{suspect.task} {suspect.what}" + (" (a consequence)" if consequence else "")
