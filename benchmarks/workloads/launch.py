"""From the start of the command to the end of the first training step of two workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.floors import Floor
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.process import ROOT
from benchmarks.harness.ranks import outcome, tf_config
from benchmarks.harness.workload import Contender, Problems, Scale, Workload

WORKERS = 2
TOLERANCE = 1e-4
PARTS = ("began", "imported", "joined", "built", "first_step")
_SCRIPT = Path(__file__).with_name("launched_script.py")

Start = Callable[[Path, Path], None]


def by_launcher(caches: Path, notes: Path) -> None:
    """``drumline launch``, whose cache of compiled programs lies in `caches`."""
    command = [sys.executable, "-m", "drumline_command", "launch", "--workers", str(WORKERS)]
    options = ["--quiet", "--log-dir", str(notes.with_suffix(".logs"))]
    subprocess.run(
        [*command, *options, "--", sys.executable, str(_SCRIPT), str(notes)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(caches)},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def by_hand(caches: Path, notes: Path) -> None:
    """The same processes with nothing around them."""
    settings = {"PYTHONPATH": str(ROOT), "DRUMLINE_COMPILATION_CACHE": str(caches)}
    environments = [{**environment, **settings} for environment in tf_config(WORKERS)]
    outcome([sys.executable, str(_SCRIPT), str(notes)], environments)


def measured_starts(start: Start) -> Callable[[Scale], Measurement]:
    """`start` made measurable: first with an empty cache, then with a full one.

    Args:
        start: trains once, given the directory for caches and the file for notes.
    """

    def run(scale: Scale) -> Measurement:
        with tempfile.TemporaryDirectory() as directory:
            notes = [_once(start, Path(directory), n) for n in range(1 + scale.later_epochs)]
        cold, *warm = [note["first_step"] for note in notes]
        return Measurement(
            elements=scale.elements,
            import_s=notes[0]["imported"] - notes[0]["began"],
            first_batch_s=cold,
            first_epoch_s=cold,
            later_epochs_s=tuple(warm),
            evidence={
                "ends_of_parts": [[round(note[part], 3) for part in PARTS] for note in notes],
                "losses": [note["loss"] for note in notes],
            },
            versions=versions(("numpy", "drumline", "jax", "keras")),
        )

    return run


def _once(start: Start, directory: Path, number: int) -> dict[str, Any]:
    """The notes of one training, with its times in seconds from its start."""
    notes = directory / f"{number}.json"
    began = time.monotonic()
    start(directory / "caches", notes)
    found: dict[str, Any] = json.loads(notes.read_text(encoding="utf-8"))
    return {**found, **{part: found[part] - began for part in PARTS}}


def check(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """All trainings came to the same loss, as they started from the same weights."""
    problems = {}
    wanted = [loss for m in measurements.values() for loss in m.evidence["losses"]][:1]
    for name, measurement in measurements.items():
        losses = measurement.evidence["losses"]
        if len(losses) != 1 + scale.later_epochs:
            problems[name] = f"trained {len(losses)} times, not {1 + scale.later_epochs}"
        elif not all(abs(loss - wanted[0]) <= TOLERANCE * wanted[0] for loss in losses):
            problems[name] = f"came to the losses {losses}, not all to {wanted[0]}"
    return problems


WORKLOAD = Workload(
    name="launch",
    title="from the command to the end of the first step, 2 workers; later ones with a full cache",
    unit="starts",
    baseline="by hand",
    full=Scale(elements=1, batch_size=1, later_epochs=3),
    quick=Scale(elements=1, batch_size=1, later_epochs=1),
    contenders=(
        Contender(
            "drumline",
            "drumline launch --workers 2",
            ("drumline", "jax", "keras"),
            measured_starts(by_launcher),
        ),
        Contender(
            "by hand",
            "two processes with TF_CONFIG and the same cache",
            ("drumline", "jax", "keras"),
            measured_starts(by_hand),
        ),
    ),
    floors=(Floor("later", at_least=0.2),),
    check=check,
)
