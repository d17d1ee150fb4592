"""From the kill of one of two workers to the next step of the job, which was not taken before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.harness.floors import Floor
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.process import ROOT
from benchmarks.harness.workload import Contender, Problems, Scale, Workload

WORKERS = 2
STEPS_BETWEEN = 25
_LOOK_SECONDS = 0.005
_LIMIT_SECONDS = 120.0
_SCRIPT = Path(__file__).with_name("restarted_script.py")


def steps_of(folder: Path) -> list[tuple[int, float]]:
    """The steps that were taken: their numbers, and when each had ended."""
    file = folder / "steps"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(number), float(at)) for number, at in map(str.split, lines)]


def pids_of(folder: Path, process: int) -> list[int]:
    """The numbers of the processes of that index, the latest last."""
    lines = [line.split() for line in (folder / "pids").read_text().splitlines()]
    return [int(pid) for index, pid in lines if int(index) == process]


def wait_until(launcher: subprocess.Popen[bytes], what: str, ready: Callable[[], bool]) -> None:
    """Wait until `ready`.

    Raises:
        RuntimeError: if the job ends, or takes too long; it says `what` did not come.
    """
    until = time.monotonic() + _LIMIT_SECONDS
    while not ready():
        if time.monotonic() > until or launcher.poll() is not None:
            raise RuntimeError(f"there was no {what}; the launcher says {launcher.poll()}")
        time.sleep(_LOOK_SECONDS)


def first_beyond(folder: Path, step: int, launcher: subprocess.Popen[bytes]) -> float:
    """Wait for a step beyond `step`; return when it had ended."""

    def found() -> list[float]:
        return [at for number, at in steps_of(folder) if number > step]

    wait_until(launcher, f"step beyond {step}", lambda: bool(found()))
    return found()[0]


def kills(folder: Path, launcher: subprocess.Popen[bytes]) -> Iterator[float]:
    """Kill the second worker, again and again; yields how long it took until the next new step."""
    furthest = 0
    while True:
        first_beyond(folder, furthest + STEPS_BETWEEN, launcher)
        starts = len(pids_of(folder, 0))
        began = time.monotonic()
        os.kill(pids_of(folder, 1)[-1], signal.SIGKILL)
        # The step under way may still end.
        wait_until(launcher, "restart", lambda: len(pids_of(folder, 0)) > starts)  # noqa: B023
        furthest = max(number for number, at in steps_of(folder))
        yield first_beyond(folder, furthest, launcher) - began


def run(scale: Scale) -> Measurement:
    """Kill a job a few times; the first start fills the cache of compiled programs."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        command = [sys.executable, "-m", "drumline_command", "launch", "--workers", str(WORKERS)]
        options = ["--quiet", "--max-restarts", "1000", "--log-dir", str(folder / "logs")]
        began = time.monotonic()
        launcher = subprocess.Popen(
            [*command, *options, "--", sys.executable, str(_SCRIPT), directory],
            env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")},
            stdout=subprocess.DEVNULL,
        )
        try:
            first = first_beyond(folder, 0, launcher) - began
            killed = kills(folder, launcher)
            took = [next(killed) for _ in range(1 + scale.later_epochs)]
        finally:
            launcher.terminate()
            launcher.wait()
        numbers = [number for number, _ in steps_of(folder)]
    return Measurement(
        elements=scale.elements,
        import_s=0.0,
        first_batch_s=first,
        first_epoch_s=took[0],
        later_epochs_s=tuple(took[1:]),
        evidence={"seconds": took, "steps": len(numbers), "furthest": max(numbers)},
        versions=versions(("numpy", "drumline", "jax", "keras")),
    )


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """The job continued after each kill, and did not begin again from its start."""
    problems = {}
    for name, measurement in measurements.items():
        evidence, kills_done = measurement.evidence, 1 + scale.later_epochs
        if len(evidence["seconds"]) != kills_done:
            problems[name] = f"was killed {len(evidence['seconds'])} times, not {kills_done}"
        elif evidence["furthest"] < kills_done * STEPS_BETWEEN:
            problems[name] = f"came to step {evidence['furthest']} only"
        elif evidence["steps"] - evidence["furthest"] > kills_done * STEPS_BETWEEN:
            problems[name] = "took more steps again than lie between two kills"
    return problems


WORKLOAD = Workload(
    name="restart",
    title="from the kill of one of 2 workers to the job's next new step, with a full cache",
    unit="restarts",
    baseline="drumline",
    full=Scale(elements=1, batch_size=1, later_epochs=5),
    quick=Scale(elements=1, batch_size=1, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "drumline launch --max-restarts, fit with Checkpointing every 10 steps",
            ("drumline", "jax", "keras"),
            run,
        ),
    ),
    floors=(Floor("later", at_least=1 / 6),),
    check=check,
)
