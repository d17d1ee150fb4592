"""What an SSH host answers, asked in this process: folders of starts without anything that runs."""

from __future__ import annotations

import io
import os
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from drumline.jobs.engines.local import attempt
from drumline.jobs.engines.ssh import on_host
from drumline.jobs.engines.ssh.on_host import HostRequests
from drumline.jobs.sources.spool import Spool

SIZE = {"cpus": 1.0, "memory": 0.0, "gpus": 1.0}


class Host:
    """The answers for one workspace of a host with four CPUs and two GPUs."""

    def __init__(self, folder: Path, workspace: str = "mine") -> None:
        folder.mkdir(exist_ok=True)
        self.base = folder / workspace
        given = {"cpus": 4.0, "gpus": 2.0}
        self._requests = HostRequests(folder, workspace, given, "127.0.0.1")

    def ask(self, verb: str, payload: bytes = b"", **fields: Any) -> Any:
        return self._requests.answer(verb, fields, payload)

    def rank(self, number: int, rank: int, **started: Any) -> Path:
        """The folder of a process that was started, and of which nothing runs."""
        folder = self.base / str(number) / "attempt-1" / f"rank-{rank}"
        (folder / attempt.LOGS).mkdir(parents=True)
        attempt.write(folder / attempt.START, {"boot": attempt.boot(), **started})
        return folder


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "host")


def test_all_processes_that_are_named_are_asked_to_end(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[Path] = []
    monkeypatch.setattr(on_host, "stop_kept", stopped.append)
    host.ask("stop", handle="1/attempt-1", ranks=["0", "1", "3"])
    assert [folder.name for folder in stopped] == ["rank-0", "rank-1", "rank-3"]


def test_secrets_of_a_keeper_that_was_killed_before_it_read_them_are_removed(host: Host) -> None:
    ended, restarted = host.rank(1, 0), host.rank(1, 1, boot="another")
    for folder in (ended, restarted):
        attempt.write(folder / attempt.SECRETS, {"PASSWORD": "hunter2"})
    answer, _ = host.ask("poll", handle="1/attempt-1", ranks=["0", "1"], have={})
    assert [answer["ranks"][rank]["state"] for rank in ("0", "1")] == ["ended", "gone"]
    assert not list(host.base.rglob(attempt.SECRETS))


def test_what_runs_and_what_is_not_uploaded_stays_when_it_is_tidied(
    host: Host, tmp_path: Path
) -> None:
    for number in (1, 2, 3, 4):
        host.rank(number, 0)
    lock = attempt.take_lock(host.base / "2" / "attempt-1" / "rank-0")
    assert lock is not None
    spool = Spool(host.base / "3" / "data" / "0-0")
    store = tmp_path / "store"
    store.mkdir()
    spool.prepare(f"file://{store}")
    (spool.files / "model.keras").write_text("weights")
    old, new = host.base / "incoming" / "old", host.base / "incoming" / "new"
    host.ask("put", b"x", name="old", offset=0)
    host.ask("put", b"x", name="new", offset=0)
    os.utime(old, (time.time() - 10**6,) * 2)
    host.ask("tidy", keep=[4])
    left = sorted(path.name for path in host.base.iterdir() if path.name.isdecimal())
    assert left == ["2", "3", "4"]
    assert (spool.files / "model.keras").exists()
    assert new.exists() and not old.exists()
    os.close(lock)
    spool.upload(final=True)
    host.ask("tidy", keep=[])
    assert not [path for path in host.base.iterdir() if path.name.isdecimal()]


def test_bytes_that_come_twice_are_written_once(host: Host) -> None:
    for offset, piece in ((0, b"one"), (3, b"two"), (3, b"two"), (6, b"three")):
        host.ask("put", piece, name="a", offset=offset)
    assert (host.base / "incoming" / "a").read_bytes() == b"onetwothree"
    host.ask("put", b"x", name="a", offset=0)  # Another upload of that name begins.
    assert (host.base / "incoming" / "a").read_bytes() == b"x"


def test_a_folder_is_there_once_all_of_it_is(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as files:
        entry = tarfile.TarInfo("train.py")
        entry.size = 5
        files.addfile(entry, io.BytesIO(b"print"))
    host.ask("put", packed.getvalue(), name="a", offset=0)
    seen: list[bool] = []
    write = on_host.write_manifest

    def written(folder: Path, manifest: Path) -> None:
        # Whoever is killed here leaves nothing that is taken for the folder.
        seen.append(host.ask("lacks", places=["1/work"])["lacks"] == ["1/work"])
        write(folder, manifest)

    monkeypatch.setattr(on_host, "write_manifest", written)
    host.ask("unpack", name="a", into="1/work")
    assert seen == [True]
    assert (host.base / "1" / "work" / "train.py").read_text() == "print"
    assert host.ask("lacks", places=["1/work"]) == {"lacks": []}


def test_a_gpu_is_claimed_once_and_one_that_another_took_is_not_kept(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Host(tmp_path / "host", "other")
    assert "rendezvous" in host.ask("claim", handle="1/attempt-1", sizes={"0": SIZE})
    assert "rendezvous" in other.ask("claim", handle="1/attempt-1", sizes={"0": SIZE})
    claims = [attempt.read(path) for path in sorted((tmp_path / "host").rglob("claim.json"))]
    named = [each["gpus"]["0"] for each in claims if each]
    assert sorted(named) == [["0"], ["1"]]
    assert host.ask("claim", handle="2/attempt-1", sizes={"0": SIZE}) == {"busy": "gpus"}
    # The first claim was given up, and another has taken its GPU since.
    monkeypatch.setattr(on_host, "_CLAIM_SECONDS", -1.0)
    assert "rendezvous" in host.ask("claim", handle="3/attempt-1", sizes={"0": SIZE})
    monkeypatch.undo()
    path = host.base / "1" / "attempt-1" / on_host.CLAIM
    claim = attempt.read(path)
    assert claim is not None
    attempt.write(path, {**claim, "gpus": {"0": ["0"]}, "time": 0})
    third = attempt.read(host.base / "3" / "attempt-1" / on_host.CLAIM)
    assert third is not None and third["gpus"] == {"0": ["0"]}
    answer = host.ask("claim", handle="1/attempt-1", sizes={"0": SIZE})
    assert answer == {"busy": "gpus"}
