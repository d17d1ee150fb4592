"""The lock of a directory: one program saves there, and one that has ended blocks no other."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.train import DirectoryInUseError
from drumline.training.checkpoint import checkpoint as checkpoint_module
from drumline.training.checkpoint import directory_lock

HOLDER = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("directory_lock", {module!r})
lock = sys.modules["directory_lock"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lock)
lock.WAIT_SECONDS = lock.LEASE_SECONDS = 0.0

class Owner:
    pass

owner = Owner()

def hold(job=None):
    try:
        lock.hold({directory!r}, owner, job)
    except lock.DirectoryInUseError as error:
        return f"refused {{error}}"
    return "held"
"""


def holder_program(directory: Path, then: str) -> list[str]:
    """A program that asks for a directory's lock; it starts at once, as it has no need of JAX."""
    setting = HOLDER.format(module=directory_lock.__file__, directory=str(directory))
    return [sys.executable, "-c", setting + then]


class Holder:
    """Another program that saves to a directory until it ends."""

    def __init__(self, directory: Path, job: str | None = None) -> None:
        then = f"print(hold({job!r}), flush=True)\nsys.stdin.read()"
        self.process = subprocess.Popen(
            holder_program(directory, then),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline().strip()

    def end(self, *, kill: bool) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        if kill:
            self.process.kill()
        self.process.stdin.close()
        assert self.process.wait() == (-signal.SIGKILL if kill else 0)
        self.process.stdout.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_lock, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(directory_lock, "LEASE_SECONDS", 0.0)


def manager(directory: Path) -> dl.train.CheckpointManager:
    v = dl.Variable(np.ones(10, np.float32))
    return dl.train.CheckpointManager(dl.train.Checkpoint(v=v), directory, 2)


def test_one_program_saves_and_others_read(tmp_path: Path) -> None:
    mine = manager(tmp_path)
    mine.save()
    refused = Holder(tmp_path)
    refused.end(kill=False)
    assert refused.said.startswith(f"refused '{tmp_path}' is written by process {os.getpid()}")
    del mine
    gc.collect()
    assert not (tmp_path / "checkpoint.lock").exists()
    holder = Holder(tmp_path)
    assert holder.said == "held"
    mine = manager(tmp_path)
    assert mine.restore_or_initialize() == str(tmp_path / "ckpt-1")
    before = (tmp_path / "ckpt-1.safetensors").read_bytes()
    named = rf"process {holder.process.pid} on .* since \d{{4}}-.*a directory of its own"
    for save in (mine.save, lambda: mine.checkpoint.save(tmp_path / "mine")):
        with pytest.raises(DirectoryInUseError, match=named):
            save()
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "checkpoint.lock", "ckpt-1.safetensors"]
    assert (tmp_path / "ckpt-1.safetensors").read_bytes() == before
    mine.checkpoint.write(tmp_path / "written")  # is listed nowhere, so it is in no one's way
    holder.end(kill=False)
    assert not (tmp_path / "checkpoint.lock").exists()
    assert mine.save() == str(tmp_path / "ckpt-2")


def test_the_lock_of_a_killed_program_is_taken_over(tmp_path: Path) -> None:
    holder = Holder(tmp_path)
    holder.end(kill=True)
    assert json.loads((tmp_path / "checkpoint.lock").read_text())["pid"] == holder.process.pid
    mine = manager(tmp_path)
    assert mine.save() == str(tmp_path / "ckpt-1")
    assert json.loads((tmp_path / "checkpoint.lock").read_text())["pid"] == os.getpid()


def test_a_save_waits_for_a_program_that_is_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = Holder(tmp_path)
    mine = manager(tmp_path)
    monkeypatch.setattr(directory_lock, "WAIT_SECONDS", 60.0)
    sleep = time.sleep

    def end(seconds: float) -> None:
        if holder.process.returncode is None:
            holder.end(kill=True)
        sleep(seconds)

    monkeypatch.setattr(directory_lock.time, "sleep", end)
    assert mine.save() == str(tmp_path / "ckpt-1")


def test_several_managers_of_one_program_share_a_directory(tmp_path: Path) -> None:
    first, second = manager(tmp_path), manager(tmp_path)
    first.save()
    second.restore_or_initialize()
    second.save()
    linked = tmp_path.with_name("linked")
    linked.symlink_to(tmp_path)
    third = manager(linked)
    third.restore_or_initialize()
    assert third.save() == str(linked / "ckpt-3")
    lock = tmp_path / "checkpoint.lock"
    del first, second
    gc.collect()
    assert lock.exists(), "the third saves there still"
    del third
    gc.collect()
    assert not lock.exists()


def test_a_directory_may_be_moved_or_removed(tmp_path: Path) -> None:
    mine = manager(tmp_path / "here")
    mine.save()
    (tmp_path / "here").rename(tmp_path / "there")
    moved = manager(tmp_path / "there")
    moved.restore_or_initialize()
    assert moved.save() == str(tmp_path / "there" / "ckpt-2")
    assert mine.save() == str(tmp_path / "here" / "ckpt-2")


def test_a_lock_that_was_lost_is_noticed(tmp_path: Path) -> None:
    mine = manager(tmp_path)
    mine.save()
    other = {"name": "other", "host": "far", "pid": 7, "since": "now", "job": None}
    (tmp_path / "checkpoint.lock").write_text(json.dumps(other))
    with pytest.raises(DirectoryInUseError, match="process 7 on 'far' since now"):
        mine.save()
    del mine
    gc.collect()
    assert (tmp_path / "checkpoint.lock").exists(), "it is the other one's"


def test_a_link_in_the_lock_s_place_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "checkpoint.lock").symlink_to(victim)
    with pytest.raises(OSError, match="checkpoint.lock"):
        manager(tmp_path / "d").save()
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": 3}', "\0" * 100, "[" * 4000])
def test_a_lock_that_a_crash_has_cut_counts_for_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "checkpoint.lock").write_text(content)
    assert manager(tmp_path).save() == str(tmp_path / "ckpt-1")


def test_processes_of_one_job_share_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Job:
        """Processes that save together, of which this one writes."""

        def job(self) -> str:
            return "one"

        def write(self, path: str, write: Any) -> bool:
            write()
            return True

    holders = [Holder(tmp_path, "one") for _ in range(2)]
    assert [each.said for each in holders] == ["held", "held"]
    another = Holder(tmp_path, "another")
    assert another.said.startswith("refused")
    mine = manager(tmp_path)
    with pytest.raises(DirectoryInUseError):
        mine.save()
    monkeypatch.setattr(checkpoint_module, "_writers", Job())
    assert mine.save() == str(tmp_path / "ckpt-1")
    holders[0].end(kill=True)
    assert mine.save() == str(tmp_path / "ckpt-2")
    holders[1].end(kill=False)
    another.end(kill=False)


FORKING = """
said = hold()
pid = os.fork()
if not pid:
    os.close(1)
    os.execvp("sleep", ["sleep", "600"]) if {execs} else __import__("time").sleep(600)
print(said, pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("execs", [False, True])
def test_a_child_that_outlives_its_parent_does_not_hold_the_lock(
    tmp_path: Path, execs: bool
) -> None:
    program = holder_program(tmp_path, FORKING.format(execs=execs))
    parent = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=False)
    said, child = parent.stdout.split()
    try:
        assert said == "held" and (tmp_path / "checkpoint.lock").exists()
        assert manager(tmp_path).save() == str(tmp_path / "ckpt-1")
    finally:
        os.kill(int(child), signal.SIGKILL)


FORKED = """
said = hold()
pid = os.fork()
if not pid:
    owner = Owner()
    print(hold()[:7], flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print(said, os.path.exists({directory!r} + "/checkpoint.lock"), flush=True)
"""


def test_a_child_has_none_of_its_parent_s_locks(tmp_path: Path) -> None:
    program = holder_program(tmp_path, FORKED.format(directory=str(tmp_path)))
    parent = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True)
    assert parent.stdout.split() == ["refused", "held", "True"]


def test_where_there_are_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unsupported(*arguments: Any) -> None:
        raise OSError(95, "Operation not supported")

    holder = Holder(tmp_path)
    monkeypatch.setattr(directory_lock.fcntl, "flock", unsupported)
    mine = manager(tmp_path)
    with pytest.raises(DirectoryInUseError, match=f"process {holder.process.pid}"):
        mine.save()
    holder.end(kill=True)
    assert mine.save() == str(tmp_path / "ckpt-1")
    lock = tmp_path / "checkpoint.lock"
    # Another host's may have ended: it is taken over, and notices if it has not.
    theirs = {**json.loads(lock.read_text()), "host": "far", "name": "theirs"}
    lock.write_text(json.dumps(theirs))
    with pytest.raises(DirectoryInUseError, match="on 'far'"):
        mine.save()
    del mine
    gc.collect()
    again = manager(tmp_path)
    again.restore_or_initialize()
    again.save()
    assert "on 'far'" in caplog.text and "taken over" in caplog.text
    assert json.loads(lock.read_text())["host"] != "far"


def test_threads_that_save_to_one_directory_take_turns(tmp_path: Path) -> None:
    shared = dl.train.CheckpointManager(dl.train.Checkpoint(value=dl.Variable(0.0)), tmp_path, 2)
    own = [
        dl.train.CheckpointManager(
            dl.train.Checkpoint(value=dl.Variable(0.0)), tmp_path, 2, checkpoint_name=f"own{number}"
        )
        for number in range(2)
    ]
    managers = [shared, shared, *own]
    begun = threading.Barrier(len(managers))
    saved: list[str] = []

    def save(manager: dl.train.CheckpointManager) -> None:
        begun.wait()
        saved.extend(manager.save() for _ in range(8))

    threads = [threading.Thread(target=save, args=(manager,)) for manager in managers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(saved)) == len(saved) == 8 * len(managers), "each save has its own number"
    left = {str(file.with_suffix("")) for file in tmp_path.glob("*.safetensors")}
    assert left == set(shared.checkpoints), "what is not listed is deleted by nobody"


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    for name in ("folder/ckpt", ""):
        with pytest.raises(ValueError, match="checkpoint_name must be the first part of a file's"):
            dl.train.CheckpointManager(dl.train.Checkpoint(), tmp_path, 2, checkpoint_name=name)
