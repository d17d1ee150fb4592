"""One run of one contender in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.measurement import Measurement

ROOT = Path(__file__).resolve().parents[2]
TAIL_LINES = 20


@dataclass(frozen=True)
class Failure:
    """Why a run gave no measurement.

    Attributes:
        kind: ``crash``, ``hang``, ``wrong`` or ``noise`` (no readable result).
        detail: what happened, in one line.
        tail: the last lines the process wrote to its standard error.
    """

    kind: str
    detail: str
    tail: str = ""


@dataclass(frozen=True)
class Run:
    """The outcome of one process, and how long the whole process took, in seconds."""

    outcome: Measurement | Failure
    process_s: float


def run_child(python: str, arguments: Sequence[str], timeout_s: float) -> Run:
    """Runs ``python -m benchmarks.harness.child`` with ``arguments`` and reads its result."""
    return run_command([python, "-m", "benchmarks.harness.child", *arguments], timeout_s)


def run_command(command: Sequence[str], timeout_s: float) -> Run:
    """Runs a command that prints a measurement as its last line of standard output.

    The process leads a group of its own, so that a hung run is ended together with the
    workers it started.
    """
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONUNBUFFERED": "1"}
    environment.setdefault("DRUMLINE_LARGE_BUFFERS", "1")
    started = time.perf_counter()
    with subprocess.Popen(
        list(command),
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            _, errors = process.communicate()
            detail = f"no result within {timeout_s:g} s"
            return Run(Failure("hang", detail, _tail(errors)), time.perf_counter() - started)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    elapsed = time.perf_counter() - started
    return Run(_outcome(process.returncode, output, errors), elapsed)


def _outcome(returncode: int, output: str, errors: str) -> Measurement | Failure:
    if returncode != 0:
        return Failure("crash", _describe_exit(returncode), _tail(errors))
    lines = output.strip().splitlines()
    try:
        return Measurement.from_json(lines[-1] if lines else "")
    except ValueError as error:
        return Failure("noise", f"ended well but gave {error}", _tail(errors))


def _describe_exit(returncode: int) -> str:
    if returncode < 0:
        return f"ended by signal {signal.Signals(-returncode).name}"
    return f"ended with exit code {returncode}"


def _tail(errors: str) -> str:
    return "\n".join(errors.strip().splitlines()[-TAIL_LINES:])
