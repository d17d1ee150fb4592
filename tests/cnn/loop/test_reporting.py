"""Lines and files of a run, as scripts that read the original's take them."""

from __future__ import annotations

import datetime
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from drumline.cnn.loop.reporting import (
    BenchmarkLog,
    Speed,
    accuracy_line,
    step_header,
    step_line,
    total_lines,
)


def test_a_speed_is_that_of_the_mean_time() -> None:
    times = [0.5, 0.25, 0.25, 1.0]
    speeds = 32 / np.array(times)
    speed = Speed.of(32, times)
    assert speed.mean == pytest.approx(32 / 0.5)
    assert speed.uncertainty == pytest.approx(speeds.std() / 2)
    deviations = sorted(abs(speeds - (64 + 128) / 2))
    assert speed.jitter == pytest.approx(1.4826 * (deviations[1] + deviations[2]) / 2)
    assert str(speed) == f"images/sec: 64.0 +/- {speeds.std() / 2:.1f} (jitter = 47.4)"


def test_a_weighted_speed_is_mostly_of_late_steps() -> None:
    weights = 0.1 ** np.array([2, 1, 0])
    expected = 8 / np.average([1.0, 1.0, 4.0], weights=weights)
    assert Speed.of(8, [1.0, 1.0, 4.0], ewma=0.9).mean == pytest.approx(expected)


def test_lines_are_those_that_scripts_parse() -> None:
    line = step_line(10, Speed(123.44, 0.5, 0.3), 7.61234)
    assert line == "10\timages/sec: 123.4 +/- 0.5 (jitter = 0.3)\t7.612"
    # As tf_cnn_benchmarks's own tests read it.
    found = re.fullmatch(
        r"(\d+)\timages/sec: ([\d.]+) \+/- ([\d.]+) \(jitter = ([\d.]+)\)\t([\d.]+)", line
    )
    assert found and found[1] == "10"
    with_accuracies = step_line(1, Speed(1, 0, 0), 2.0, (0.25, 0.5))
    assert with_accuracies == "1\timages/sec: 1.0 +/- 0.0 (jitter = 0.0)\t2.000\t0.250\t0.500"
    assert step_header("total_loss", accuracies=False) == "Step\tImg/sec\ttotal_loss"
    assert step_header("base_loss", accuracies=True).split("\t")[3:] == [
        "top_1_accuracy",
        "top_5_accuracy",
    ]
    assert total_lines(123.456)[1] == "total images/sec: 123.46"
    assert total_lines(1)[0] == "-" * 64
    assert (
        accuracy_line(0.5, 0.75, 320)
        == "Accuracy @ 1 = 0.5000 Accuracy @ 5 = 0.7500 [320 examples]"
    )


def test_files_of_a_benchmark(tmp_path: Path) -> None:
    now = datetime.datetime(2020, 1, 2, 3, 4, 5, 6, datetime.UTC)
    log = BenchmarkLog(tmp_path / "a" / "b", now=lambda: now)
    parameters = {"model": "trivial", "batch_size": 8, "num_epochs": 0.5, "single_sess": False}
    log.run_info(
        "trivial",
        "imagenet (synthetic)",
        {**parameters, "devices": ["cpu:0"]},
        devices=["cpu:0"],
        versions={"jax": "1"},
        test_id="nightly",
    )
    info = json.loads((tmp_path / "a" / "b" / "benchmark_run.log").read_text())
    assert info["model_name"] == "trivial" and info["test_id"] == "nightly"
    assert info["run_date"] == "2020-01-02T03:04:05.000006Z"
    assert info["run_parameters"] == [
        {"name": "batch_size", "long_value": 8},
        {"name": "devices", "string_value": "['cpu:0']"},
        {"name": "model", "string_value": "trivial"},
        {"name": "num_epochs", "float_value": 0.5},
        {"name": "single_sess", "bool_value": "False"},
    ]
    log.metric("current_examples_per_sec", 12.5, step=10, unit="images/s", worker=1)
    log.metric("loss", math.nan, step=20)
    first, second = map(json.loads, (tmp_path / "a" / "b" / "metric.log").read_text().splitlines())
    assert first == {
        "name": "current_examples_per_sec",
        "value": 12.5,
        "unit": "images/s",
        "global_step": 10,
        "timestamp": "2020-01-02T03:04:05.000006Z",
        "extras": [{"name": "worker", "value": "1"}],
    }
    assert second["value"] is None and second["global_step"] == 20
