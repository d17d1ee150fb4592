"""The tutorial of jobs, followed from its page: its files are written, its commands are run."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.jobs.launch.launching import ROOT
from tests.jobs.sources.test_job_sources import git, git_over_http

PAGE = ROOT / "docs" / "jobs" / "tutorial.md"
TOKEN = "glpat-0123456789"
PLACE = "https://git.example.com"

Block = tuple[str, str, str]


def blocks(heading: str | None = None) -> list[Block]:
    """The language, the title and the text of each block; of one section, or of those before it."""
    text = PAGE.read_text()
    before, found, part = text.partition(f"\n## {heading or 'On a cluster'}\n")
    assert found
    part = part.partition("\n## ")[0] if heading else before
    listed = re.findall(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```', part, re.S | re.M)
    return [(kind, title, body) for kind, title, body in listed]


class Reader:
    """Who follows the page, in a home folder of the test."""

    def __init__(self, folder: Path, url: str) -> None:
        self.home = folder / "ada"
        self.home.mkdir()
        self.folder = self.home / "bars"
        self._url = url
        self._where = self.home
        answers = folder / "answers"
        answers.write_text(
            f'#!/bin/sh\ncase "$1" in Username*) echo ada;; *) echo {TOKEN};; esac\n'
        )
        answers.chmod(0o700)
        kept = ("PATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
        self.env = {name: os.environ[name] for name in kept if name in os.environ} | {
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "GIT_ASKPASS": str(answers),
            **{f"GIT_{who}_{what}": "ada@example.com"
               for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }  # fmt: skip
        # As installed: both are beside each other.
        self.env["PATH"] = f"{Path(sys.executable).parent}:{self.env['PATH']}"

    def follow(self, listed: list[Block], changes: Mapping[str, str] | None = None) -> str:
        """Do what blocks say, and return what the commands have said."""
        said = []
        for kind, title, body in listed:
            for old, new in {PLACE: self._url, **(changes or {})}.items():
                body = body.replace(old, new)
            if title:
                (self.folder / title).write_text(body)
                continue
            assert kind == "console", (kind, body)
            commands = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
            said += [self._run(command) for command in commands]
        return "".join(said)

    def _run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", f"cd {self._where} && {command} && pwd > {self.home}/.where"],
            env=self.env,
            input=TOKEN if "secret set" in command else "",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        self._where = Path((self.home / ".where").read_text().strip())
        return f"$ {command}\n{done.stdout}"

    @property
    def workspace(self) -> Path:
        return self.home / ".local/share/drumline/workspaces/default"

    def end(self) -> None:
        """End the supervisor that waits for more jobs."""
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if b"supervisor" in words and os.fsencode(self.workspace) in words:
                    os.kill(int(process.name), signal.SIGTERM)


@contextlib.contextmanager
def reader(folder: Path) -> Iterator[Reader]:
    repositories = folder / "repositories"
    repositories.mkdir(parents=True)
    git("init", "--quiet", "--bare", "ada/bars.git", cwd=repositories)
    git("config", "http.receivepack", "true", cwd=repositories / "ada/bars.git")
    with git_over_http(repositories, "ada", TOKEN) as url:
        made = Reader(folder, url)
        try:
            yield made
        finally:
            made.end()


def check_model(path: Path, data: Path) -> None:
    """That it has learned what the data show."""
    found = np.load(data)
    model = keras.saving.load_model(path)
    answers = np.argmax(model.predict(found["images"], verbose=0), axis=1)
    assert np.mean(answers == found["labels"]) > 0.95


@pytest.fixture
def ada(tmp_path: Path) -> Iterator[Reader]:
    with reader(tmp_path) as made:
        yield made


def test_the_page_leads_to_a_job_that_has_succeeded(ada: Reader) -> None:
    said = ada.follow(blocks())
    home = ada.home
    assert f"bars  from: {home}/data/bars, at: /mnt/bars\n" in said
    assert f"models  from: {home}/models, at: /mnt/models, write: true\n" in said
    sizes = "1 chief (0.5 cpus), 1 worker (0.5 cpus), 1 ps (0.5 cpus)"
    assert f"Job 1 (bars): {sizes}\nchief:0 | Epoch 1/4\n" in said.replace("\r", "")
    assert re.search(r"chief:0 \| accuracy 0\.9\d|chief:0 \| accuracy 1\.00", said), said
    assert "Job 1 has succeeded\n$ ls ~/models\nbars.keras\n" in said
    assert re.search(r"^1    bars  succeeded  5$", said, re.M)
    assert f"data:     /mnt/models writes {home}/models\nevents:\n" in said
    assert TOKEN not in said
    for path in ada.workspace.rglob("*"):
        if path.is_file() and path.parent.name != "secrets":
            assert TOKEN.encode() not in path.read_bytes(), path
    assert not Path("/mnt/bars").exists() and not Path("/root/code").exists()
    check_model(home / "models" / "bars.keras", home / "data" / "bars" / "bars.npz")
