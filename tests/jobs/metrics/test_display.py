"""Metrics for people: curves in text, CSV, pictures, and the commands that show them."""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import drumline as dl
from drumline.jobs.metrics import display
from drumline.jobs.metrics.display import as_csv, draw, panels_of, sparkline, value_text
from drumline.jobs.metrics.series import MetricSeries
from tests.jobs.launch.launching import wait_until
from tests.jobs.test_job_commands import Commands, command

__all__ = ["command"]


def series(*values: float) -> MetricSeries:
    steps = np.arange(len(values), dtype=np.int64)
    return MetricSeries(steps, np.array(values, np.float64), 1e9 + steps.astype(np.float64))


@pytest.mark.parametrize(
    ("values", "curve"),
    [
        ([0, 7], "▁█"),
        ([3, 3, 3], "▁▁▁"),
        (range(8), "▁▂▃▄▅▆▇█"),
        ([0, np.nan, 1, np.inf], "▁ █ "),
        ([np.nan], " "),
        ([], ""),
        ([-1.7e308, 1.7e308], "▁█"),
        (np.repeat(np.arange(8), 30), "▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇▇███"),
    ],
)
def test_a_curve_in_text(values: list[float], curve: str) -> None:
    assert sparkline(values) == curve


def test_values_have_units() -> None:
    assert value_text("memory/worker:0", 3 * 2**29) == "1.5 GiB"
    assert value_text("gpu_memory/ps:1", 2**20) == "1 MiB"
    assert value_text("gpu/worker:0", 0.87) == "87%"
    assert value_text("cpu/chief:0", 1.5) == "1.50 cores"
    assert value_text("logs/cpu/loss", 0.123456) == "0.12346"


def test_csv_has_all_values() -> None:
    found = {"a, b": series(0.1, 1e-300), "c": MetricSeries(
        np.array([4]), np.array([np.inf]), np.array([np.nan]))}  # fmt: skip
    rows = list(csv.DictReader(as_csv(found).splitlines()))
    assert [(row["metric"], row["step"], row["time"]) for row in rows] == [
        ("a, b", "0", "1000000000.000"),
        ("a, b", "1", "1000000001.000"),
        ("c", "4", ""),
    ]
    assert [float(row["value"]) for row in rows] == [0.1, 1e-300, np.inf]


def test_runs_and_processes_share_a_panel(tmp_path: Path) -> None:
    found = {
        "cpu/worker:0": series(1, 2),
        "cpu/worker:1": series(1, 2),
        "train/loss": series(1, 1e-3),
        "train/loss (worker:1)": series(1, 2),
        "validation/loss": series(np.nan, np.nan),
        "lr": series(1),
    }
    panels = {name: list(lines) for name, lines in panels_of(found).items()}
    assert panels == {
        "lr": [""],
        "loss": ["train", "train (worker:1)", "validation"],
        "cpu": ["worker:0", "worker:1"],
    }
    draw(found, tmp_path / "curves.png", "a job")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="no metrics to draw"):
        draw({}, tmp_path / "none.png", "a job")


def test_a_name_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    display.show({"[red]a\x1b[31m\nb": series(1)})
    shown = capsys.readouterr().out
    assert "[red]a[31mb" in shown and "\x1b" not in shown


def test_metrics_of_a_job_in_python_and_on_the_command_line(command: Commands) -> None:
    (command.code / "t.py").write_text(
        "import time\n"
        "with open('log.csv', 'w') as file:\n"
        "    for line in ('epoch,loss', '0,4.5', '1,0.5'):\n"
        "        print(line, file=file)\n"
        "until = time.monotonic() + 6\n"
        "while time.monotonic() < until: pass\n"
    )
    job = dl.jobs.run(command=[sys.executable, "-S", "t.py"], workers={"cpus": 0.1})
    assert dl.jobs.find(job.id).metrics() in ({}, job.metrics())
    wait_until(lambda: len(job.metrics().get("cpu/worker:0", ())) > 1)
    assert job.wait() == "succeeded"
    found = job.metrics()
    assert sorted(found) == ["cpu/worker:0", "log/loss", "memory/worker:0"]
    assert found["log/loss"].values.tolist() == [4.5, 0.5]
    assert 0 < found["cpu/worker:0"].values.max() < 1.1
    assert 2**20 < found["memory/worker:0"].last < 2**30
    assert abs(found["cpu/worker:0"].times[-1] - time.time()) < 60
    shown = command("show", str(job.id))
    assert "metrics:" in shown and "log/loss" in shown and "█▁" in shown
    assert command("metrics", "1", "log/*", "--csv").splitlines()[1:] == [
        "log/loss,0,,4.5",
        "log/loss,1,,0.5",
    ]
    assert "cores" in command("metrics", "1")
    assert "curves.png" in command("metrics", "1", "--png", str(command.code / "curves.png"))
    assert (command.code / "curves.png").exists()
    said = command("metrics", "1", "lost", rc=2)
    assert "no metric 'lost'; it has: cpu/worker:0, log/loss, memory/worker:0" in said
