"""The cases of a sweep, each run in a process of its own, and what is kept of them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.cnn.loop.reporting import STEP_TIME

MODES = ("replicated", "parameter_server", "independent")
"""Those of one host."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One run of the program.

    Attributes:
        model: of ``--model``.
        devices: of ``--num_gpus``.
        mode: of ``--variable_update``.
        flags: what else was given, for all cases.
    """

    model: str
    devices: int
    mode: str
    flags: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """The command line of the program."""
        return [
            f"--model={self.model}",
            f"--num_gpus={self.devices}",
            f"--variable_update={self.mode}",
            *self.flags,
        ]

    @property
    def key(self) -> str:
        """What the case is known by in a folder of results."""
        text = " ".join(self.arguments)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{self.model}-{self.devices}-{self.mode}-{digest}"


@dataclasses.dataclass(frozen=True)
class Result:
    """What a case found.

    Attributes:
        case: which.
        images_per_second: of all devices; None if it failed.
        batch_size: of a device.
        error: the last lines of a run that failed.
        step_time: what share of the steps' time each part of their profile took; empty if unknown.
            Without ``"communication"`` that is not known, and within computing.
        stage: of the input pipeline, for which the others waited.
    """

    case: Case
    images_per_second: float | None
    batch_size: int = 0
    error: str = ""
    step_time: dict[str, float] = dataclasses.field(default_factory=dict)
    stage: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as what `from_json` takes."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Result:
        """Return what `to_json` returned."""
        case = Case(**{**found["case"], "flags": tuple(found["case"]["flags"])})
        return cls(**{**found, "case": case})


def cases_of(
    models: Sequence[str],
    devices: Sequence[int],
    modes: Sequence[str],
    flags: Sequence[str],
    of_models: Mapping[str, Sequence[str]] | None = None,
) -> list[Case]:
    """Return all combinations; with one device every mode is the same, and the first is run.

    Args:
        models, devices, modes: what is combined.
        flags: of every case.
        of_models: flags of a model's cases alone, which go before the others; None without any.
    """
    own = of_models or {}
    return [
        Case(model, number, mode, (*own.get(model, ()), *flags))
        for model in models
        for number in devices
        for mode in (modes if number > 1 else modes[:1])
    ]


class Results:
    """Results in a folder, a file for each case, so that a sweep that ended continues.

    Args:
        folder: made where it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "cases"
        self._folder.mkdir(parents=True, exist_ok=True)

    def get(self, case: Case) -> Result | None:
        """What is kept of a case; None if it has not run, has failed, or its file is damaged."""
        try:
            found = Result.from_json(json.loads(self._path(case).read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if found.images_per_second is not None else None

    def put(self, result: Result) -> None:
        """Keep a result: whole, or not at all."""
        path = self._path(result.case)
        made = path.with_suffix(".part")
        made.write_text(json.dumps(result.to_json(), indent=1) + "\n", encoding="utf-8")
        os.replace(made, path)

    def _path(self, case: Case) -> Path:
        return self._folder / f"{case.key}.json"


def run(case: Case, seconds: float) -> Result:
    """Run a case in a process of its own.

    Args:
        case: which.
        seconds: how long it may take.
    """
    with tempfile.TemporaryDirectory(prefix="drumline-cnn-") as folder:
        command = [sys.executable, "-m", "drumline.cnn", *case.arguments]
        try:
            done = subprocess.run(
                [*command, f"--benchmark_log_dir={folder}"],
                capture_output=True,
                text=True,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return Result(case, None, error=f"it took longer than {seconds:g} s")
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            return Result(case, None, error="\n".join(lines[-3:]))
        metrics = [json.loads(line) for line in Path(folder, "metric.log").read_text().splitlines()]
        info = json.loads(Path(folder, "benchmark_run.log").read_text())
    values = [m["value"] for m in metrics if m["name"] == "average_examples_per_sec"]
    parts = [m for m in metrics if m["name"].startswith(STEP_TIME)]
    return Result(
        case,
        float(values[-1]),
        _parameter(info, "batch_size_per_device"),
        step_time={m["name"].removeprefix(STEP_TIME): float(m["value"]) for m in parts},
        stage=next((e["value"] for m in parts for e in m["extras"] if e["name"] == "stage"), ""),
    )


def _parameter(info: dict[str, Any], name: str) -> int:
    (found,) = (each for each in info["run_parameters"] if each["name"] == name)
    return int(found["long_value"])


def run_all(
    cases: Sequence[Case], results: Results, seconds: float
) -> Iterator[tuple[Result, bool]]:
    """Run what has not been run; yield each result, and whether it was kept from before."""
    for case in cases:
        kept = results.get(case)
        if kept is not None:
            yield kept, True
            continue
        result = run(case, seconds)
        results.put(result)
        yield result, False
