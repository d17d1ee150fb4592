"""What the SSH engine decides, with hosts whose answers are made up."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drumline import __version__
from drumline.jobs.engines.engine import Start, Status
from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.ssh import connection, engine
from drumline.jobs.engines.ssh.connection import HostConnection, HostError
from drumline.jobs.engines.ssh.engine import SshEngine
from drumline.jobs.engines.ssh.files import CopiedFiles
from drumline.jobs.engines.ssh.settings import SshSettings
from drumline.jobs.engines.ssh.transfer import folder_digest
from drumline.jobs.engines.ssh.watching import HostView
from drumline.jobs.file.model import Job, JobRole

ROOM = {"cpus": 2.0, "memory": 2.0**40, "gpus": 0.0}
HANDLE = "1/attempt-1"


class MadeUpHost:
    """Answers as a host that has room, and notes what it is asked."""

    def __init__(self, name: str) -> None:
        self.host = name
        self.asked: list[str] = []
        self.payloads: dict[str, Any] = {}
        self.ranks: list[str] = []
        self.instead: dict[str, Callable[[], dict[str, Any]]] = {}

    def ask(
        self, verb: str, payload: bytes = b"", seconds: float = 0, **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        self.asked.append(verb)
        if verb == "start":
            self.payloads[verb] = json.loads(payload)
        if verb == "stop":
            self.ranks = list(fields["ranks"])
        if verb in self.instead:
            return self.instead[verb](), b""
        answers: dict[str, dict[str, Any]] = {
            "look": {"capacity": ROOM, "held": dict.fromkeys(ROOM, 0.0)},
            "check": {"problems": [], "missing": []},
            "claim": {"rendezvous": "10.0.0.1:7000"},
            "lacks": {"lacks": []},
            "changed": {"files": []},
        }
        return answers.get(verb, {}), b""

    def close(self) -> None:
        pass


class MadeUpEngine:
    """An engine with two such hosts, and a start of a job that needs both."""

    def __init__(self, home: Path) -> None:
        (home / "jobs" / "1" / "source").mkdir(parents=True)
        self.engine = SshEngine(home, SshSettings(("a", "b")))
        self.hosts = {name: MadeUpHost(name) for name in ("a", "b")}
        self.engine._hosts = self.hosts  # type: ignore[assignment]
        job = Job("digits", ("python", "t.py"), roles={"workers": JobRole(2, 2)})
        self.own = home / "jobs" / "1" / "attempt-1"
        self.start = Start(job, 1, 1, HANDLE, home / "jobs" / "1" / "source", {"PASSWORD": "x"})
        self.own.mkdir()
        described = {"job": job.to_json(), "number": 1, "attempt": 1}
        attempt.write(self.own / "submitted.json", described)

    def try_to_start(self) -> bool:
        return self.engine._try_to_start(self.start, (-self.start.job.priority, 1))

    def views(self, *statuses: Status) -> dict[str, HostView]:
        """What the hosts have said of a process each."""
        found = {}
        for rank, (name, status) in enumerate(zip(self.hosts, statuses, strict=True)):
            copies = CopiedFiles(self.own, name)
            said = {str(rank): status}
            found[name] = HostView((str(rank),), copies, time.monotonic() + 60, True, said)
        return found

    def started(self) -> None:
        """Note that it was placed and started."""
        placed = {"hosts": ["a", "b"], "token": "", "places": {"a": {}, "b": {}}, "begun": True}
        attempt.write(self.own / "placed.json", placed)
        attempt.write(self.own / "started.json", {"time": time.time(), "all": True})


@pytest.fixture
def made(tmp_path: Path) -> MadeUpEngine:
    return MadeUpEngine(tmp_path)


def test_a_start_claims_sends_claims_again_and_begins(made: MadeUpEngine) -> None:
    given = {"JAX_PLATFORMS": "cpu", "MINE": "1", "LC_ALL": "C", "AWS_SECRET_ACCESS_KEY": "k"}
    attempt.write(made.own.parent / "environment.json", given)
    assert made.try_to_start()
    for host in made.hosts.values():
        assert [each for each in host.asked if each in ("claim", "lacks", "start")] == (
            ["claim", "lacks", "claim", "start"]
        )
        sent = host.payloads["start"]
        assert sent["env"].keys() & given.keys() == {"JAX_PLATFORMS", "LC_ALL"}
        assert sent["secrets"]["PASSWORD"] == "x" and "PASSWORD" not in sent["env"]
    assert attempt.read(made.own / "started.json")


def test_room_that_is_given_away_meanwhile_ends_the_try(made: MadeUpEngine) -> None:
    claims = iter([{"rendezvous": "10.0.0.1:7000"}, {"busy": "cpus"}])
    made.hosts["b"].instead["claim"] = lambda: next(claims)
    assert not made.try_to_start()
    assert "start" not in made.hosts["a"].asked + made.hosts["b"].asked
    assert "release" in made.hosts["a"].asked
    assert not (made.own / "placed.json").exists(), "other hosts may be chosen"


def test_what_is_cancelled_while_its_code_is_sent_is_not_started(made: MadeUpEngine) -> None:
    def stopped() -> dict[str, Any]:
        attempt.write(made.own / "stopping.json", {"time": time.time()})
        return {"lacks": []}

    made.hosts["b"].instead["lacks"] = stopped
    assert not made.try_to_start()
    assert "start" not in made.hosts["a"].asked + made.hosts["b"].asked


def test_what_is_more_urgent_is_placed_first(made: MadeUpEngine) -> None:
    made.engine._waiting["7/attempt-1"] = (-9, 7)
    assert not made.try_to_start()
    assert made.engine._notes[HANDLE] == ("waits behind job 7", False)
    assert not made.hosts["a"].asked
    del made.engine._waiting["7/attempt-1"]
    made.engine._waiting["8/attempt-1"] = (-1, 8)
    assert made.try_to_start()


def test_each_host_is_asked_to_end_its_own_processes(made: MadeUpEngine) -> None:
    made.started()
    made.engine.cancel(HANDLE)
    made.engine._pool.shutdown(wait=True)
    assert {name: host.ranks for name, host in made.hosts.items()} == {"a": ["0"], "b": ["1"]}


def test_the_others_are_ended_when_one_has_failed_and_they_do_not_end(
    made: MadeUpEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.started()
    views = made.views(Status("ended", 1, "failed"), Status("running"))
    monkeypatch.setattr(made.engine, "_views", lambda handle: views)
    assert made.engine.poll(HANDLE).state == "running"
    assert "stop" not in made.hosts["b"].asked, "they have some time"
    monkeypatch.setattr(engine, "LONELY_SECONDS", -1.0)
    assert made.engine.poll(HANDLE).state == "running"
    made.engine._pool.shutdown(wait=True)
    assert "stop" in made.hosts["b"].asked


def test_a_host_that_was_restarted_uses_up_no_restart(made: MadeUpEngine) -> None:
    made.started()
    views = made.views(Status("gone", None, "the machine was restarted"), Status("ended", 1))
    assert made.engine._verdict(HANDLE, views, ()) == Status("gone", None, "a was restarted")
    attempt.write(made.own / "stopping.json", {"time": time.time()})
    assert made.engine._verdict(HANDLE, views, ()).state == "ended"


def test_a_start_whose_results_could_not_be_fetched_has_not_ended(made: MadeUpEngine) -> None:
    made.started()
    views = made.views(Status("ended", 0), Status("ended", 0))

    def cut() -> dict[str, Any]:
        raise HostError("b: does not answer")

    made.hosts["b"].instead["changed"] = cut
    made.engine._close(HANDLE, views, ())
    assert not (made.own / attempt.EXIT).exists(), "it is closed when the host answers"
    del made.hosts["b"].instead["changed"]
    made.engine._close(HANDLE, views, ())
    ended = attempt.read(made.own / attempt.EXIT)
    assert ended is not None and ended["state"] == "ended"


def test_what_was_to_end_is_given_up_when_its_host_stays_away(
    made: MadeUpEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.started()
    views = made.views(Status("running"), Status("running"))
    monkeypatch.setattr(made.engine, "_views", lambda handle: views)
    watch = made.engine._watches["b"]
    watch.problem, watch.heard = "b: does not answer", time.monotonic() - 60
    said = made.engine.poll(HANDLE)
    assert said == Status("lost", None, "b: does not answer (what runs there runs on)")
    attempt.write(made.own / "stopping.json", {"time": time.time() - 10})
    assert made.engine.poll(HANDLE).state == "lost", "it is waited for"
    assert not (made.own / attempt.EXIT).exists()
    attempt.write(made.own / "stopping.json", {"time": time.time() - 700})
    made.engine.poll(HANDLE)
    assert made.engine.poll(HANDLE).state == "ended"
    assert "b has not answered since" in made.engine.poll(HANDLE).reason


def test_a_folder_that_was_changed_is_another(tmp_path: Path) -> None:
    file = tmp_path / "data" / "numbers.txt"
    file.parent.mkdir()
    file.write_text("42")
    os.utime(file, ns=(10**18, 10**18))
    before = folder_digest(file.parent)
    assert folder_digest(file.parent) == before
    file.write_text("43")
    os.utime(file, ns=(10**18, 10**18 + 1))
    changed = folder_digest(file.parent)
    file.write_text("430")
    os.utime(file, ns=(10**18, 10**18))
    assert len({before, changed, folder_digest(file.parent)}) == 3


def test_a_host_that_says_nothing_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hello = json.dumps({"drumline": __version__, "python": "3", "executable": "python"})
    program = tmp_path / "ssh"
    says = f"echo 'drumline-host {hello}'; read line; echo '{{\"bytes\": 0}}'; exec sleep 600"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    host = HostConnection("a", SshSettings(("a",)), "x")
    with pytest.raises(HostError, match="a: .*no answer within 0.5 s") as caught:
        host.ask("look", seconds=0.5)
    assert not caught.value.final
    assert host._process is None


def test_the_python_of_a_host_is_one_word_for_its_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ssh hands to the host's shell runs nothing but what is meant."""
    trap = tmp_path / "trap"
    python = f"/no/py th'on; touch {trap}; $(touch {trap}) `touch {trap}`"
    program = tmp_path / "ssh"
    program.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    host = HostConnection("a", SshSettings(("a",), python=python), "x")
    with pytest.raises(HostError, match="no Python there has drumline") as caught:
        host.ask("look")
    assert f"({python}: not there)" in str(caught.value)
    assert not trap.exists()


def test_sockets_are_where_no_other_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        monkeypatch.setattr(tempfile, "tempdir", short)
        first = connection._sockets(("-p", "2222"))
        assert first.parent == Path(short)
        assert stat.S_IMODE(first.stat().st_mode) == 0o700
        assert connection._sockets(("-p", "2223")) != first, "other options, another connection"
        first.chmod(0o755)
        assert connection._sockets(("-p", "2222")) != first
        subprocess.run(["rm", "-rf", "/tmp/" + first.name], check=True)
