"""A launcher that an engine starts is what the command of the same words is, and begins sooner."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from drumline.cli import app
from drumline.jobs.engines import launching
from drumline.jobs.engines.launching import RANK, RENDEZVOUS, filled, launch_command
from drumline.jobs.file.reading import make_job
from drumline.jobs.launch import job
from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.options import LaunchOptions
from drumline.jobs.launch.view import LogConsole, View
from tests.jobs.launch.launching import ROOT

JOBS: list[tuple[dict[str, Any], list[str] | None]] = [
    ({"command": ["true"]}, None),
    ({"command": ["python", "t.py", "--", "--ps", "3"], "workers": 3, "ps": 2}, None),
    ({"command": ["true"], "chief": True, "evaluator": True, "log_limit": "3MiB"}, None),
    ({"command": ["true"], "workers": {"count": 2, "gpus": 2}, "hang_after": "90s"}, None),
    ({"command": ["true"], "workers": 3, "ps": 2, "chief": True}, []),
    ({"command": ["true"], "workers": 2}, ["--shared-signals"]),
    ({"command": ["true"]}, ["--shared-signals"]),
]


@pytest.mark.parametrize(("fields", "several_hosts"), JOBS)
@pytest.mark.parametrize("token", [None, "", "secret"])
def test_options_are_those_of_the_command(
    fields: dict[str, Any], several_hosts: list[str] | None, token: str | None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if token is not None:
        monkeypatch.setenv("DRUMLINE_RENDEZVOUS_TOKEN", token)
    log = tmp_path / "launch.log"
    wanted = make_job(fields, tmp_path)
    words = launch_command(wanted, tmp_path / "logs", ["before", "--"], several_hosts, log)
    assert words[:2] == ["before", "--"] and words[5:7] == ["drumline_command.job_process",
                                                           "launch"]  # fmt: skip
    words = [filled(word, {RANK: "1", RENDEZVOUS: "10.0.0.1:4000"}) for word in words[7:]]
    given: list[LaunchOptions] = []
    monkeypatch.setattr(job, "run_job", lambda options, view: given.append(options) or 3)
    done = CliRunner().invoke(app, ["launch", *words])
    with pytest.raises(SystemExit) as ended:
        launching.main(words)
    assert done.exit_code == ended.value.code == 3
    assert given[0] == given[1] and given[0].command == tuple(fields["command"])
    assert log.exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--workers", "1", "--newer", "x"], "--newer is not understood"),
        (["--workers", "one"], "--workers is not understood"),
        (["--workers"], "--workers is not understood"),
        (["--workers", "1", "--log-limit", "much"], "--log-limit: "),
    ],
)
def test_words_of_another_version_are_refused(words: list[str], named: str) -> None:
    with pytest.raises(LaunchError, match=named):
        launching.parsed([*words, "--launcher-log", "log", "--log-dir", "logs", "--", "true"])


LINES = ("plain", "[red]no markup[/] :smile:", "x" * 300, "é ⠿ \x1b[31mred\x1b[0m\a", "", " end ")


def test_a_log_has_the_lines_of_a_console(tmp_path: Path) -> None:
    shown = io.StringIO()
    views = [
        View(console, prefix_output=False, quiet=False)
        for console in (Console(file=shown, width=80), LogConsole(tmp_path / "log", 1 << 20))
    ]
    for view in views:
        for line in LINES:
            view.say(line, "bold red")
            view.note(line)
    assert (tmp_path / "log").read_text() == shown.getvalue()
    LogConsole(tmp_path / "log", 1 << 20).line("appended")
    assert (tmp_path / "log").read_text() == f"{shown.getvalue()}appended\n"
    with pytest.raises(LaunchError, match=r"--launcher-log .*none/log cannot be written"):
        LogConsole(tmp_path / "none" / "log", 1 << 20)


def test_it_imports_no_command_line_and_no_tables() -> None:
    """Nor what else takes longer to import than all that a short job does."""
    code = """
import json, sys
import drumline_command.job_process
import drumline.jobs.engines.local.keeper
from drumline.jobs.engines import launching
launching.parsed([*"--workers 1 --launcher-log a --log-dir b -- true".split()])
import drumline.jobs.launch.job, drumline.jobs.launch.view
slow = ("typer", "click", "rich", "pydantic", "yaml", "concurrent.futures", "importlib.metadata",
        "http.client", "ssl", "tempfile", "sqlite3")
print(json.dumps([name for name in slow if name in sys.modules]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []
