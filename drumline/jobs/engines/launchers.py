"""What the launchers of one start have left, where each process has one of its own.

They lie in one folder: ``launch-RANK.log``, and what launchers write into ``logs``.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.failure_record import RESTART_STATUS
from drumline.jobs.engines.local import attempt
from drumline.jobs.sources.preparation import NOT_UPLOADED

SIGNALLED = 128
"""Of a process that a signal has ended, the exit code is this and the signal's number."""

LAUNCHER_KILLED = "its launcher was killed (SIGKILL, or out of memory)"
"""The reason of a start whose launcher could not say one."""

LONELY_SECONDS = 45.0
"""When launchers are ended after one has failed: they do so themselves before that."""


def results_in(run: Path) -> dict[int, dict[str, Any]]:
    """What the launchers have written, by rank."""
    found: dict[int, dict[str, Any]] = {}
    for path in (run / "logs").glob("result*.json"):
        rank = int(path.stem.removeprefix("result").removeprefix("-") or 0)
        if (result := attempt.read(path)) is not None:
            found[rank] = result
    return found


def verdict(
    results: Mapping[int, Mapping[str, Any]], codes: Sequence[int], run: Path
) -> tuple[int, str]:
    """The exit code of the run, and why it failed: that of rank 0, which has heard all others."""
    if 0 in results:
        code, reason = int(results[0]["code"]), str(results[0]["reason"])
        saved = any(result["code"] == RESTART_STATUS for result in results.values())
        if code > SIGNALLED and saved:
            return RESTART_STATUS, str(next(
                r["reason"] for r in results.values() if r["code"] == RESTART_STATUS
            ))  # fmt: skip
        if code == 0 and NOT_UPLOADED in codes:
            return NOT_UPLOADED, said(run)
        return code, reason
    worst = max(code if code >= 0 else SIGNALLED - code for code in codes)
    if worst == SIGNALLED + signal.SIGKILL:
        # The last that it said, which process it had started, is no reason.
        return worst, LAUNCHER_KILLED
    words = said(run)
    return worst or 1, words or "its launcher was killed, or could not be started"


def launcher_log(run: Path, rank: int) -> Path:
    """What a launcher says; the task makes it when it begins."""
    return run / f"launch-{rank}.log"


def said(run: Path) -> str:
    """The last line in which a task says why it became no launcher, or else of the first one."""
    first = ""
    for log in sorted(run.glob("launch-*.log")):
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
        own = [line for line in lines if line.startswith("drumline: ")]
        if own:
            return own[-1].removeprefix("drumline: ")
        first = first or next(filter(None, reversed(lines)), "")
    return first
