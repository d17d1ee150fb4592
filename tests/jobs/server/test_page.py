"""The page of the server, followed: each person has a home folder, and says what the page says."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.launch.launching import ROOT, wait_until
from tests.jobs.server.conftest import end_supervisors

PAGE = ROOT / "docs" / "jobs" / "server.md"


def steps() -> list[tuple[str, str, str]]:
    """Who says what, and what is answered, of the section with the example."""
    section = PAGE.read_text().partition("## From nothing to a shared workspace\n")[2]
    section = section.partition("\n## ")[0]
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", section, re.S | re.M):
        for step in re.split(r"^(?=\w+\$ )", block, flags=re.M)[1:]:
            line, _, answer = step.partition("\n")
            person, _, command = line.partition("$ ")
            found.append((person, command, answer))
    return found


class People:
    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.servers: list[subprocess.Popen[str]] = []
        for path in (folder / "srv", folder / "tmp"):
            path.mkdir()

    def say(self, person: str, command: str) -> str:
        home = self.folder / person
        home.mkdir(exist_ok=True)
        kept = ("LANG", "LD_LIBRARY_PATH")
        env = {name: os.environ[name] for name in kept if name in os.environ} | {
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TMPDIR": str(self.folder / "tmp"),
        }
        command = command.replace("http://127.0.0.1:8470", f"http://127.0.0.1:{self.port}")
        command = command.replace("tail -1 ", f"tail -1 {self.folder / 'srv'}/")
        where = self.folder / "srv" if person == "root" else home
        if command.endswith(" &"):
            server = subprocess.Popen(
                ["bash", "-c", f"exec {command[:-2]} --port {self.port}"],
                cwd=where, env=env, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            self.servers.append(server)
            assert server.stdout is not None
            return server.stdout.readline() + server.stdout.readline()
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command], cwd=where, env=env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{person}$ {command}\n{done.stdout}"
        return done.stdout

    def end(self) -> None:
        for server in self.servers:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
            if server.stdout is not None:
                server.stdout.close()
        end_supervisors(self.folder)


@pytest.fixture
def people(tmp_path: Path) -> Iterator[People]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = People(tmp_path, port)
    yield made
    made.end()


def test_two_members_share_a_server_and_a_third_is_denied(people: People) -> None:
    listed = steps()
    assert {person for person, _, _ in listed} == {"root", "ada", "grace", "eve"}
    for person, command, answer in listed:
        said = people.say(person, command)
        expected = answer.replace("/srv/team", str(people.folder / "srv" / "team"))
        expected = expected.replace("127.0.0.1:8470", f"127.0.0.1:{people.port}")
        if "audit" in command:  # of other times
            said, expected = (re.sub(r"^\S+ \S+", "", t, flags=re.M) for t in (said, expected))
        assert said == expected, f"{person}$ {command}"
    logins = list(people.folder.rglob("login.json"))
    assert len(logins) == 3 and all(path.stat().st_mode & 0o077 == 0 for path in logins)
    wait_until(lambda: "2    train  succeeded" in people.say("grace", "drumline jobs"), 60)
