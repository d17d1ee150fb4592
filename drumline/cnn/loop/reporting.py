"""What a run prints and writes: the lines that scripts of the original parse, and its JSON files.

The words are those of tf_cnn_benchmarks (``benchmark_cnn.py``), and the files those of its
``BenchmarkFileLogger`` (tensorflow/models, ``official/utils/logs/logger.py``).
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drumline._recorder import COMMUNICATION, PROFILER
from drumline.profiler import EpochProfile

RULE = "-" * 64
STEP_TIME = "step_time_share_"
"""Metrics of this name and a part of a step profile are shares of the time of a step."""


class Speed(NamedTuple):
    """Images a second over the steps so far.

    Attributes:
        mean: of the mean step time.
        uncertainty: the standard error of the steps' speeds.
        jitter: 1.4826 times the median absolute deviation of the steps' speeds, which for normal
            deviates is their standard deviation.
    """

    mean: float
    uncertainty: float
    jitter: float

    @classmethod
    def of(cls, images: int, seconds: Sequence[float], ewma: float | None = None) -> Speed:
        """Return the speed of steps of so many images.

        Args:
            images: of one step.
            seconds: each step took; one at least.
            ewma: weigh steps by (1 - ewma) to the power of their age, as
                ``--display_perf_ewma``.
        """
        times = np.asarray(seconds, np.float64)
        speeds = images / times
        weights = None
        if ewma:
            weights = (1.0 - ewma) ** np.arange(len(times) - 1, -1, -1)
        jitter = 1.4826 * np.median(np.abs(speeds - np.median(speeds)))
        return cls(
            float(images / np.average(times, weights=weights)),
            float(np.std(speeds) / np.sqrt(len(speeds))),
            float(jitter),
        )

    def __str__(self) -> str:
        return (
            f"images/sec: {self.mean:.1f} +/- {self.uncertainty:.1f} (jitter = {self.jitter:.1f})"
        )


def step_header(loss: str, accuracies: bool) -> str:
    """The line above those of the steps.

    Args:
        loss: which is reported, as ``"total_loss"``.
        accuracies: whether top-1 and top-5 follow it.
    """
    return f"Step\tImg/sec\t{loss}" + ("\ttop_1_accuracy\ttop_5_accuracy" if accuracies else "")


def step_line(
    step: int, speed: Speed, loss: float, accuracies: tuple[float, float] | None = None
) -> str:
    """The line of a step.

    Args:
        step: its number, from 1.
        speed: of the steps so far.
        loss: of this step.
        accuracies: top-1 and top-5, as shares of 1.
    """
    line = f"{step}\t{speed}\t{loss:.3f}"
    return line + (f"\t{accuracies[0]:.3f}\t{accuracies[1]:.3f}" if accuracies else "")


def total_lines(images_per_second: float) -> list[str]:
    """The last lines of a run."""
    return [RULE, f"total images/sec: {images_per_second:.2f}", RULE]


def accuracy_line(top_1: float, top_5: float, examples: int) -> str:
    """The line of an evaluation."""
    return f"Accuracy @ 1 = {top_1:.4f} Accuracy @ 5 = {top_5:.4f} [{examples} examples]"


@contextlib.contextmanager
def writing_for(flag: str, value: object) -> Iterator[None]:
    """Within the block, an error of the disk names the flag that asked for what is written.

    Args:
        flag: its name, without dashes.
        value: what it was given.

    Raises:
        OSError: where the block does; a full disk is said without a name otherwise.
    """
    try:
        yield
    except OSError as error:
        raise OSError(f"--{flag}={value}: it cannot be written: {error}") from error


class BenchmarkLog:
    """The files of ``--benchmark_log_dir``: ``benchmark_run.log`` and ``metric.log``.

    The first is a JSON object that says what ran on what; the second a JSON object in each line,
    with name, value, unit, global_step and timestamp.

    Args:
        directory: made where it is not there.
        now: the time, for tests.

    Raises:
        OSError: if the directory cannot be made; and from its methods, if it cannot be written.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._directory = Path(directory)
        with self._writing():
            self._directory.mkdir(parents=True, exist_ok=True)
        self._now = now

    def run_info(
        self,
        model: str,
        dataset: str,
        parameters: Mapping[str, Any],
        *,
        devices: Sequence[str],
        versions: Mapping[str, str],
        test_id: str | None = None,
    ) -> None:
        """Write what runs.

        Args:
            model: its name.
            dataset: its name.
            parameters: of the run; lists and numbers, strings and booleans.
            devices: of the run, by name.
            versions: of the packages that compute.
            test_id: of ``--benchmark_test_id``.
        """
        info = {
            "model_name": model,
            "dataset": {"name": dataset},
            "machine_config": {
                "cpu_info": {"num_cores": os.cpu_count(), "cpu_info": platform.processor()},
                "devices": list(devices),
                "host": platform.node(),
            },
            "versions": dict(versions),
            "test_id": test_id,
            "run_date": self._timestamp(),
            "run_parameters": [_parameter(name, parameters[name]) for name in sorted(parameters)],
        }
        text = json.dumps(info, indent=2) + "\n"
        with self._writing():
            (self._directory / "benchmark_run.log").write_text(text, encoding="utf-8")

    def metric(
        self, name: str, value: float, *, step: int, unit: str | None = None, **extras: Any
    ) -> None:
        """Append a number.

        Args:
            name: as ``"current_examples_per_sec"``.
            value: the number; one that is not finite is written as null.
            step: the global step.
            unit: of the value.
            extras: more to say, by name.
        """
        line = {
            "name": name,
            "value": float(value) if np.isfinite(value) else None,
            "unit": unit,
            "global_step": step,
            "timestamp": self._timestamp(),
            "extras": [{"name": key, "value": str(extras[key])} for key in sorted(extras)],
        }
        path = self._directory / "metric.log"
        with self._writing(), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def step_time(self, profile: EpochProfile, *, step: int) -> None:
        """Append what the time of steps went to, as shares that add up to 1.

        Args:
            profile: of the steps; what the profiler itself took between them is left out.
            step: the global step.
        """
        whole = profile.seconds - profile.parts[PROFILER]
        if whole <= 0:
            return
        for part, seconds in profile.parts.items():
            if part == COMMUNICATION and not profile.communication_known:
                continue  # it is in computing
            if part != PROFILER:
                self.metric(
                    f"{STEP_TIME}{part.lower()}", seconds / whole, step=step, stage=profile.stage
                )

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        return writing_for("benchmark_log_dir", self._directory)

    def _timestamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _parameter(name: str, value: Any) -> dict[str, Any]:
    """A parameter under the key of its type, as the original's reader wants it."""
    if isinstance(value, bool):
        return {"name": name, "bool_value": str(value)}
    if isinstance(value, int):
        return {"name": name, "long_value": value}
    if isinstance(value, float):
        return {"name": name, "float_value": value}
    return {"name": name, "string_value": str(value)}
