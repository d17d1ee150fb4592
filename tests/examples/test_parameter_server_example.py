"""The wide-and-deep model on parameter servers, and on one device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.test_multi_worker_examples import EXAMPLES, environment, numbers

SCRIPT = [sys.executable, str(EXAMPLES / "parameter_server_wide_and_deep.py"), "--epochs", "8"]
LAUNCH = [sys.executable, "-m", "drumline_command", "launch", "--chief", "--workers", "2"]


@pytest.mark.thorough
def test_it_is_as_good_on_parameter_servers_as_on_one_device(tmp_path: Path) -> None:
    commands = {
        "servers": [*LAUNCH, "--ps", "1", "--log-dir", str(tmp_path), "--", *SCRIPT],
        "alone": SCRIPT,
    }
    jobs = {
        name: subprocess.Popen(
            command,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, command in commands.items()
    }
    outputs = {name: job.communicate(timeout=900)[0] for name, job in jobs.items()}
    for name, job in jobs.items():
        assert job.returncode == 0, outputs[name]
    outputs["servers"] = (tmp_path / "chief-0.log").read_text()
    accuracies = {name: numbers(r"test accuracy (\S+)", text)[0] for name, text in outputs.items()}
    assert accuracies["servers"] > accuracies["alone"] - 0.04 > 0.9, accuracies
    assert len(numbers(r"epoch \d: loss (\S+),", outputs["servers"])) == 8
