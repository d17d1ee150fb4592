"""Tests pass however they are started: by nohup, or in the background of a shell's script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_tests_that_send_signals_pass_where_these_are_ignored() -> None:
    root = Path(__file__).parents[1]
    sending = "tests/jobs/launch/test_ends.py::test_a_signal_is_passed_on_and_waited_for"
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", sending]
    ignoring = ["nohup", "sh", "-c", 'trap "" INT QUIT TERM; exec "$@"', "sh"]
    done = subprocess.run(
        [*ignoring, *pytest],
        cwd=root,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
