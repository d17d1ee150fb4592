"""The list of jobs, and workspaces."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest

from drumline.jobs.file.reading import make_job
from drumline.jobs.store import workspace
from drumline.jobs.store.database import Store, StoreError
from drumline.jobs.store.workspace import WorkspaceError


def test_jobs_attempts_and_events_are_found_again(home: Path) -> None:
    store = Store(home)
    job = make_job({"command": "a", "name": "first", "priority": 3}, home)
    number = store.submit(job)
    assert store.open_jobs() == [] and store.jobs() == []
    store.queue(number, job)
    with store.change():
        store.add_attempt(number, 1, "handle")
        store.set_state(number, "failed", "because")
        store.end_attempt(number, 1, 3, "because")
    store.close()
    again = Store(home)
    row = again.latest("first")
    assert row is not None and row == again.job(number)
    assert (row.job, row.state, row.reason, row.restarts) == (job, "failed", "because", 0)
    assert [(e.kind, e.text) for e in again.events(number)] == [
        ("submitted", "1 worker (1 cpu)"),
        ("failed", "because"),
    ]
    (attempt,) = again.attempts(number)
    assert (attempt.number, attempt.handle, attempt.code) == (1, "handle", 3)
    kept = "jobs.sqlite" if again.place.endswith(".sqlite") else "database.json"
    assert (home / kept).stat().st_mode & 0o777 == 0o600


def test_open_jobs_are_in_the_order_of_the_queue(home: Path) -> None:
    store = Store(home)
    for priority in (5, 9, 1, 9, 5, 9):
        job = make_job({"command": "a", "priority": priority}, home)
        store.queue(store.submit(job), job)
    with store.change():
        store.set_state(6, "running")
        store.set_state(4, "failed")
    assert [row.id for row in store.open_jobs()] == [2, 6, 1, 5, 3]
    store.close()


def test_a_change_that_fails_leaves_neither_state_nor_event(home: Path) -> None:
    store = Store(home)
    job = make_job({"command": "a"}, home)
    store.queue(number := store.submit(job), job)

    def fail() -> None:
        with store.change():
            store.set_state(number, "failed", "because")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [row.state for row in store.open_jobs()] == ["queued"]
    assert len(store.events(number)) == 1


def test_many_writers_wait_for_each_other(home: Path) -> None:
    job = make_job({"command": "a"}, home)

    def write() -> None:
        store = Store(home)
        for _ in range(20):
            store.queue(store.submit(job), job)
        store.close()

    threads = [threading.Thread(target=write) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Store(home).open_jobs()) == 100


def test_who_is_stopped_for_more_is_not_stopped_for_less(home: Path) -> None:
    store = Store(home)
    job = make_job({"command": "a"}, home)
    store.queue(number := store.submit(job), job)
    with store.change():
        assert store.set_stop(number, "preempt") and store.set_stop(number, "cancel")
        assert not store.set_stop(number, "timeout") and not store.set_stop(number, "cancel")
        store.set_state(number, "cancelled")
        assert not store.set_stop(number, "cancel") and not store.set_stop(99, "cancel")


def test_a_newer_or_a_damaged_list_is_refused(tmp_path: Path) -> None:
    Store(tmp_path).close()
    database = sqlite3.connect(tmp_path / "jobs.sqlite")
    database.execute("pragma user_version=99")
    database.close()
    with pytest.raises(StoreError, match="newer drumline"):
        Store(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "jobs.sqlite").write_bytes(b"no database, but long enough to be looked at" * 50)
    with pytest.raises(StoreError, match="not a database"):
        Store(other)


def test_a_list_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(tmp_path).close()
    owner = (tmp_path / "jobs.sqlite").stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(StoreError, match="belongs to .*and is for one user.*DRUMLINE_HOME"):
        Store(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)  # As in a container.
    Store(tmp_path).close()


def test_workspaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRUMLINE_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert workspace.names() == ["default"]
    assert workspace.current() == tmp_path / "drumline/workspaces/default"
    with pytest.raises(WorkspaceError, match="no workspace 'lab'"):
        workspace.use("lab")
    workspace.create("lab")
    with pytest.raises(WorkspaceError, match="already"):
        workspace.create("lab")
    workspace.use("lab")
    assert workspace.current().name == "lab" and workspace.names() == ["default", "lab"]
    assert workspace.current().stat().st_mode & 0o777 == 0o700
    with pytest.raises(WorkspaceError, match="lower case"):
        workspace.create("../x")
    monkeypatch.setenv("DRUMLINE_HOME", str(tmp_path / "mine"))
    assert workspace.current() == tmp_path / "mine"
    with pytest.raises(WorkspaceError, match="unset it first"):
        workspace.use("lab")
    monkeypatch.setenv("DRUMLINE_HOME", "")
    with pytest.raises(WorkspaceError, match="is empty"):
        workspace.current()


def test_network_file_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert workspace.network_file_system(tmp_path) == ""
    # The magic number of /proc, which statfs(2) gives here; no network is mounted in a test.
    monkeypatch.setitem(workspace._REMOTE, 0x9FA0, "NFS")
    assert workspace.network_file_system(Path("/proc")) == "NFS"
    monkeypatch.setattr(workspace, "network_file_system", lambda folder: "NFS")
    with pytest.raises(WorkspaceError, match=r"network file system \(NFS\)"):
        workspace.opened(tmp_path / "home")
