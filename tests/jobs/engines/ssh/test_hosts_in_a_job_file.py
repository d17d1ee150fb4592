"""Hosts that a job file names itself, and the commands about jobs on them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.engines.ssh.hosts import SshHosts
from tests.jobs.launch.launching import ROOT

FILE = """\
command: python job.py
workers: {count: 2, cpus: 0.5}
engine: {ssh: [a, b]}
"""
SCRIPT = """\
import os
print("runs at", os.getcwd())
open("result.txt", "w").write("done")
"""


@pytest.fixture
def environment(hosts: SshHosts, tmp_path: Path) -> dict[str, str]:
    """That of a user whose own settings of ssh know the hosts."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh {" ".join(hosts.options)} "$@"\n')
    (programs / "ssh").chmod(0o755)
    (tmp_path / "home").mkdir()
    return {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "DRUMLINE_HOME": str(tmp_path / "home"),
        "HOME": str(tmp_path),
    }


def test_a_file_that_names_hosts_runs_there(
    hosts: SshHosts, environment: dict[str, str], tmp_path: Path
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "job.yaml").write_text(FILE)
    (code / "job.py").write_text(SCRIPT)

    def drumline(*words: str) -> str:
        command = [sys.executable, "-m", "drumline_command", *words]
        done = subprocess.run(
            command, cwd=code, env=environment, capture_output=True, text=True, timeout=400
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    said = drumline("run", "--follow", "job.yaml")
    assert "Job 1 has succeeded" in said, said
    # The folder is below the home folder that they have there.
    for process in ("worker:0", "worker:1"):
        assert f"{process} | runs at " in said and "/home/.drumline-jobs/" in said, said
    result = tmp_path / "home" / "jobs" / "1" / "work" / "result.txt"
    assert result.read_text() == "done"
    shown = drumline("show", "1")
    assert "ssh:a,b" in shown and "result" not in drumline("logs", "1", "job")
    assert drumline("engine", "list") == "local  this machine\n"
