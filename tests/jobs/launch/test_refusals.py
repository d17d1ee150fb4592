"""What the launcher refuses, each in words of its own and without a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.launch.launching import Launcher

_REFUSED: list[tuple[list[str], str]] = [
    (["--workers", "2"], "there is no command to run"),
    (["--workers", "2", "no-such-command"], "the command 'no-such-command' was not found"),
    (["--workers", "2", "python", "-u", "no.py"], "the script 'no.py' does not exist"),
    (["--workers", "2", "./text.txt"], "'./text.txt' is not executable"),
    (["--workers", "0", "true"], "Invalid value for '--workers'"),
    (["true"], "Missing option '--workers'"),
    (["--workers", "1", "--log-dir", "text.txt/logs", "true"], "cannot be written: Not a"),
    (["--workers", "1", "--log-dir", "gs://b/logs", "true"], "--log-dir: 'gs://b/logs' is a URL"),
    (["--workers", "1", "--host", "192.0.2.1", "true"], "cannot listen at '192.0.2.1'"),
    (["--workers", "1", "--host", "no host", "true"], "the address 'no host' is unknown"),
    (["--workers", "1", "--nodes", "2", "true"], "--nodes 2 needs --rendezvous"),
    (["--workers", "1", "--node-rank", "1", "true"], "hosts are numbered 0 to 0"),
    (["--workers", "1", "--rendezvous-token", "", "true"], "--rendezvous-token is empty"),
    (["--workers", "1", "--rendezvous", "a:1", "true"], "--rendezvous needs --nodes"),
    (["--workers", "1", "--nodes", "2", "--rendezvous", "a", "true"], "takes HOST:PORT"),
    (
        ["--workers", "1", "--nodes", "2", "--rendezvous", "192.0.2.1:40", "true"],
        "host 0 cannot listen at 192.0.2.1:40",
    ),
    (
        ["--workers", "3", "--devices-per-worker", "2", "true"],
        "needs 6 GPUs, and 4 are visible",
    ),
]

_RUN_ALL = """
import json, sys, drumline_command
from typer.testing import CliRunner
from drumline.cli import app
done = [CliRunner().invoke(app, ["launch", *line]) for line in json.loads(sys.argv[1])]
print(json.dumps([[each.exit_code, each.stderr] for each in done]))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str]]:
    """Exit code and stderr of all, from one process: a start of the command takes its time."""
    directory: Path = tmp_path_factory.mktemp("refused")
    (directory / "text.txt").write_text("text")
    launcher = Launcher(directory)
    done = subprocess.run(
        [sys.executable, "-c", _RUN_ALL, json.dumps([arguments for arguments, _ in _REFUSED])],
        cwd=directory,
        env=launcher.environment({"CUDA_VISIBLE_DEVICES": "0,1,2,3", "JAX_PLATFORMS": ""}),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[tuple[int, str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("number", range(len(_REFUSED)))
def test_bad_input_is_named(outcomes: list[tuple[int, str]], number: int) -> None:
    code, stderr = outcomes[number]
    assert _REFUSED[number][1] in " ".join(stderr.replace("│", "").split())
    assert code == 2
    assert "Traceback" not in stderr
