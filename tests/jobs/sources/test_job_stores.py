"""The cache of object stores, and what is uploaded of what a job has written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fsspec import register_implementation

from drumline.jobs.sources.data import DataError
from drumline.jobs.sources.object_store import fetch_cached, hold, list_objects
from drumline.jobs.sources.spool import Spool
from tests.jobs.launch.launching import ROOT, wait_until
from tests.jobs.sources.disk_store.disk_store import DiskStore

PLUGIN = str(Path(__file__).parent / "disk_store")


class Bucket:
    """What the tests see of a store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "b").mkdir(parents=True)

    def put(self, name: str, text: str) -> None:
        path = self.root / "b" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def all(self) -> dict[str, str]:
        found = (self.root / "b").rglob("*")
        return {str(p.relative_to(self.root / "b")): p.read_text() for p in found if p.is_file()}

    def fail(self, *faults: str) -> None:
        (self.root / ".faults").write_text("\n".join(faults))

    def took(self, verb: str) -> list[str]:
        """The objects that went in or out since the last call."""
        log = self.root / ".log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.write_text("")
        return sorted(line.split("/", 1)[1] for line in lines if line.startswith(f"{verb} "))


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    register_implementation("disk", DiskStore, clobber=True)
    monkeypatch.setenv("DISK_STORE", str(tmp_path / "stores"))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{PLUGIN}")
    return Bucket(tmp_path / "stores")


def files(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_what_did_not_change_is_not_fetched(bucket: Bucket, tmp_path: Path) -> None:
    said: list[str] = []
    bucket.put("d/a", "1")
    bucket.put("d/deep/b", "2")
    bucket.put("other", "3")
    first = fetch_cached("disk://b/d", tmp_path / "cache", said.append)
    assert files(first) == {"a": "1", "deep/b": "2"} and bucket.took("get") == ["d/a", "d/deep/b"]
    assert fetch_cached("disk://b/d", tmp_path / "cache", said.append) == first
    assert bucket.took("get") == []
    held = hold(first)
    bucket.put("d/a", "changed")
    bucket.put("d/c", "new")
    (bucket.root / "b/d/deep/b").unlink()
    bucket.put("d/deep2/b", "2")
    second = fetch_cached("disk://b/d", tmp_path / "cache", said.append)
    assert files(second) == {"a": "changed", "c": "new", "deep2/b": "2"}
    assert files(first) == {"a": "1", "deep/b": "2"}  # as long as a job holds it
    bucket.took("get")
    bucket.put("d/c", "newer")
    third = fetch_cached("disk://b/d", tmp_path / "cache", said.append)
    assert bucket.took("get") == ["d/c"]
    assert files(third)["a"] == "changed" and first.exists() and not second.exists()
    assert held is not None
    os.close(held)
    bucket.put("d/c", "newest")
    fetch_cached("disk://b/d", tmp_path / "cache", said.append)
    assert not first.exists() and hold(first) is None
    assert said[0].startswith("disk://b/d: 2 files, 0.0 MiB fetched")
    assert said[1] == "disk://b/d: 2 files, in the cache"


def test_one_object_is_a_folder_with_it(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("d/a.csv", "1,2")
    assert files(fetch_cached("disk://b/d/a.csv", tmp_path)) == {"a.csv": "1,2"}


FETCH = """
import drumline_command, sys
from pathlib import Path
from drumline.jobs.sources.object_store import fetch_cached
print(fetch_cached("disk://b/d", Path(sys.argv[1])))
"""


def fetcher(cache: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", FETCH, str(cache)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_of_processes_at_once_one_fetches(bucket: Bucket, tmp_path: Path) -> None:
    for i in range(5):
        bucket.put(f"d/{i}", "x" * i)
    bucket.fail("slow-get:d/3")
    running = [fetcher(tmp_path / "cache") for _ in range(4)]
    found = {each.communicate(timeout=120)[0] for each in running}
    assert len(found) == 1 and bucket.took("get") == [f"d/{i}" for i in range(5)]
    assert files(Path(found.pop().strip())) == {str(i): "x" * i for i in range(5)}


def test_a_killed_fetcher_leaves_nothing_in_the_way(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("d/a", "1")
    bucket.put("d/b", "2")
    bucket.fail("slow-get:d/b")
    running = fetcher(tmp_path / "cache")
    wait_until(lambda: list((tmp_path / "cache").glob("*/*.partial/a")) != [], 60)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    bucket.fail()
    assert files(fetch_cached("disk://b/d", tmp_path / "cache")) == {"a": "1", "b": "2"}
    assert not list((tmp_path / "cache").glob("*/*.partial"))


def test_errors_name_the_address(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="^disk://b/none is empty or does not exist$"):
        fetch_cached("disk://b/none", tmp_path)
    (bucket.root / "b" / "empty").mkdir()
    with pytest.raises(DataError, match="^disk://b/empty is empty or does not exist$"):
        list_objects("disk://b/empty")
    bucket.put("d/a", "1")
    bucket.fail("get:d/a")
    with pytest.raises(DataError, match="^disk://b/d: get of b/d/a is forbidden$"):
        fetch_cached("disk://b/d", tmp_path)
    with pytest.raises(DataError, match="^s4://b/d: .*[Pp]rotocol.*s4"):
        fetch_cached("s4://b/d", tmp_path)


def test_hostile_names(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b/d/../../x", "b/d//x", "b/d/./x", "b/d/a\0"):
        listing = {name: {"type": "file", "size": 1, "ETag": "1"}}
        monkeypatch.setattr(DiskStore, "find", lambda *_, found=listing, **__: found)
        with pytest.raises(DataError, match="whose name is no path"):
            fetch_cached("disk://b/d", tmp_path)


def test_a_size_that_is_not_the_listed_one(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("d/a", "1")
    real, calls = DiskStore.get_file, []

    def changing(self: DiskStore, rpath: str, lpath: str, **_: object) -> None:
        calls.append(rpath)
        if len(calls) == 1:
            bucket.put("d/a", "changed")
        real(self, rpath, lpath)

    monkeypatch.setattr(DiskStore, "get_file", changing)
    assert files(fetch_cached("disk://b/d", tmp_path)) == {"a": "changed"}
    assert len(calls) == 2


@pytest.fixture
def spool(bucket: Bucket, tmp_path: Path) -> Spool:
    bucket.put("out/old", "old")
    spool = Spool(tmp_path / "job" / "data" / "0-0")
    spool.prepare("disk://b/out")
    bucket.took("put")
    return spool


def test_what_is_written_is_uploaded(bucket: Bucket, spool: Spool) -> None:
    assert files(spool.files) == {"old": "old"} and not spool.pending()
    (spool.files / "sub").mkdir()
    (spool.files / "sub" / "new").write_text("1")
    (spool.files / "link").symlink_to("sub/new")
    assert spool.pending() and spool.upload(final=True) == 2 and not spool.pending()
    assert bucket.all() == {"out/old": "old", "out/sub/new": "1", "out/link": "1"}
    assert spool.upload(final=True) == 0 and bucket.took("put") == ["out/link", "out/sub/new"]
    # Of the same size, and with the time set back.
    before = (spool.files / "old").stat()
    (spool.files / "old").write_text("OLD")
    os.utime(spool.files / "old", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert spool.pending() and spool.upload(final=True) == 1
    assert bucket.all()["out/old"] == "OLD"


def test_only_what_the_job_has_written_is_removed(bucket: Bucket, spool: Spool) -> None:
    (spool.files / "mine").write_text("1")
    spool.upload(final=True)
    bucket.put("out/another's", "2")
    (spool.files / "mine").unlink()
    (spool.files / "old").unlink()
    assert spool.pending() and spool.upload(final=True) == 1
    assert bucket.all() == {"out/old": "old", "out/another's": "2"} and not spool.pending()


def test_what_is_being_written_waits_for_the_end(bucket: Bucket, spool: Spool) -> None:
    (spool.files / "quiet").write_text("1")
    (spool.files / "busy").write_text("2")
    past = time.time() - 60
    os.utime(spool.files / "quiet", (past, past))
    assert spool.upload(final=False) == 1 and bucket.took("put") == ["out/quiet"]
    assert spool.pending() and spool.upload(final=True) == 1


def test_the_oldest_goes_first(bucket: Bucket, spool: Spool) -> None:
    for age, name in enumerate(["index", "b", "c", "a"]):
        (spool.files / name).write_text(name)
        moment = time.time() - 100 - 10 * age
        os.utime(spool.files / name, (moment, moment))
    bucket.fail("put:b")
    with pytest.raises(DataError, match="put of b/out/b is forbidden"):
        spool.upload(final=True)
    assert bucket.took("put") == ["out/a", "out/c"] and spool.pending()
    bucket.fail()
    assert spool.upload(final=True) == 2 and bucket.took("put") == ["out/b", "out/index"]


def test_the_next_start_continues(bucket: Bucket, spool: Spool) -> None:
    (spool.files / "late").write_text("not uploaded when it was killed")
    bucket.put("out/of another", "seen by another job")
    said: list[str] = []
    again = Spool(spool.files.parent)
    assert again.prepare("disk://b/out", said.append) == spool.files
    assert bucket.all()["out/late"] and said == [
        "disk://b/out: 1 files of the start before are uploaded"
    ]
    assert files(spool.files) == {"old": "old", "late": "not uploaded when it was killed"}


def test_an_address_with_nothing_yet(bucket: Bucket, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s")
    (spool.prepare("disk://b/new/place") / "a").write_text("1")
    spool.upload(final=True)
    assert bucket.all() == {"new/place/a": "1"}


def test_a_folder_that_was_removed_removes_nothing(bucket: Bucket, spool: Spool) -> None:
    import shutil

    (spool.files / "mine").write_text("1")
    spool.upload(final=True)
    shutil.rmtree(spool.files)
    assert not spool.pending() and spool.upload(final=True) == 0
    assert bucket.all() == {"out/old": "old", "out/mine": "1"}


def test_fsspecs_own_store_in_memory(tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/jobs/in/a", b"1")
    try:
        assert files(fetch_cached("memory://jobs/in", tmp_path / "cache")) == {"a": "1"}
        memory.pipe("/jobs/in/a", b"2")
        assert files(fetch_cached("memory://jobs/in", tmp_path / "cache")) == {"a": "2"}
        spool = Spool(tmp_path / "spool")
        (spool.prepare("memory://jobs/out") / "b").write_text("3")
        spool.upload(final=True)
        assert memory.cat("/jobs/out/b") == b"3"
    finally:
        memory.rm("/jobs", recursive=True)
