"""One run of one contender in a process of its own, by an interpreter that has its packages."""

from __future__ import annotations

import functools
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


def run_by_turns(
    python: str, workload: str, contenders: Sequence[str], options: Sequence[str], timeout_s: float
) -> dict[str, Run]:
    """Runs contenders by turns in one process; if it fails, it fails for all of them."""
    command = [python, "-m", "benchmarks.harness.child", workload, *contenders, *options]
    runs = _run(command, timeout_s, len(contenders))
    return dict(zip(contenders, runs, strict=True))


def run_command(command: Sequence[str], timeout_s: float) -> Run:
    """Runs a command that prints a measurement as its last line of standard output.

    The process leads a group of its own, so that a hung run is ended together with the
    workers it started.
    """
    return _run(command, timeout_s, 1)[0]


def _run(command: Sequence[str], timeout_s: float, count: int) -> list[Run]:
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
            hung = Run(Failure("hang", detail, _tail(errors)), time.perf_counter() - started)
            return [hung] * count
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    elapsed = time.perf_counter() - started
    if process.returncode != 0:
        crash = Failure("crash", _describe_exit(process.returncode), _tail(errors))
        return [Run(crash, elapsed)] * count
    lines = output.strip().splitlines()[-count:]
    lines += [""] * (count - len(lines))
    return [Run(_outcome(line, errors), elapsed) for line in lines]


def _outcome(line: str, errors: str) -> Measurement | Failure:
    try:
        return Measurement.from_json(line)
    except ValueError as error:
        return Failure("noise", f"ended well but gave {error}", _tail(errors))


def _describe_exit(returncode: int) -> str:
    if returncode < 0:
        return f"ended by signal {signal.Signals(-returncode).name}"
    return f"ended with exit code {returncode}"


def _tail(errors: str) -> str:
    return "\n".join(errors.strip().splitlines()[-TAIL_LINES:])


_PROBE = """
import importlib.util, sys
print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name) is None])
"""


@functools.cache
def missing_modules(python: str, modules: tuple[str, ...]) -> tuple[str, ...]:
    """Those of ``modules`` that ``python`` cannot find.

    Raises:
        ValueError: ``python`` does not run.
    """
    if not modules:
        return ()
    try:
        probe = subprocess.run(
            [python, "-c", _PROBE, *modules],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(f"{python} does not work as a Python interpreter: {error}") from error
    return tuple(probe.stdout.split())


def choose_interpreter(pythons: Sequence[str], modules: tuple[str, ...]) -> tuple[str | None, str]:
    """The first interpreter that has all of ``modules``, and otherwise what is missing.

    Args:
        pythons: interpreters in order of preference.
        modules: names of top-level modules.

    Returns:
        The interpreter and an empty string, or ``None`` and the reason in words.
    """
    fewest: tuple[str, ...] | None = None
    for python in pythons:
        missing = missing_modules(python, modules)
        if not missing:
            return python, ""
        if fewest is None or len(missing) < len(fewest):
            fewest = missing
    return None, f"{', '.join(fewest or modules)} not installed"
