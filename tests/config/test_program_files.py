"""Files of compiled programs: what comes back, what is removed, and what a disk may do."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from drumline.config.program_files import ProgramFiles

LARGE = 1 << 20


def files_in(path: Path, max_bytes: float = LARGE, max_age: float = 1e6) -> ProgramFiles:
    return ProgramFiles(path, max_bytes, max_age)


def entries(path: Path) -> list[Path]:
    return sorted(path.glob("*.program"))


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_what_was_put_comes_back_also_to_others(tmp_path: Path) -> None:
    files = files_in(tmp_path / "made" / "when needed")
    assert files.get("jit_f-1") is None
    assert not files.path.exists()
    files.put("jit_f-1", b"one")
    files.put("jit_f-2", b"")
    files.put("jit_f-1", b"what is there stays")
    other = files_in(files.path)
    assert [other.get(f"jit_f-{n}") for n in (1, 2, 3)] == [b"one", b"", None]
    assert (other.hits, other.misses) == (2, 1)
    assert all(entry.name.startswith("jit_f-") for entry in entries(files.path))
    assert files.path.stat().st_mode & 0o777 == 0o700
    assert {entry.stat().st_mode & 0o777 for entry in files.path.iterdir()} == {0o600}


def test_keys_may_be_long_and_of_any_signs(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    keys = ["a" * 500 + "-1", "../up/jit_<lambda>-2", "ünï-3", "a" * 500 + "-4"]
    for key in keys:
        files.put(key, key.encode())
    assert [files.get(key) for key in keys] == [key.encode() for key in keys]
    assert len(entries(tmp_path)) == 4


def test_no_damage_is_ever_served(tmp_path: Path) -> None:
    """Each byte changed, and each length that a file may be cut to."""
    files = files_in(tmp_path)
    files.put("jit_f-1", b"a compiled program")
    (entry,) = entries(tmp_path)
    whole = entry.read_bytes()
    flipped = [bytes([*whole[:at], whole[at] ^ 4, *whole[at + 1 :]]) for at in range(len(whole))]
    for damaged in (*flipped, *(whole[:length] for length in range(len(whole))), whole + b"\0"):
        entry.write_bytes(damaged)
        assert files.get("jit_f-1") is None, damaged
        assert not entry.exists(), "it makes place for a whole one"
    files.put("jit_f-1", b"again")
    assert files.get("jit_f-1") == b"again"


def test_of_damage_there_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = files_in(tmp_path)
    for number in range(3):
        files.put(f"jit_f-{number}", b"program")
    for entry in entries(tmp_path):
        entry.write_bytes(b"")
    assert [files.get(f"jit_f-{number}") for number in range(3)] == [None] * 3
    (warning,) = warnings_in(caplog)
    assert str(tmp_path) in warning and "jit_f-" in warning and "checksum" in warning


def test_what_was_used_longest_ago_is_removed_first(tmp_path: Path) -> None:
    files = files_in(tmp_path, max_bytes=10_000)
    now = time.time()
    for number in range(9):
        files.put(f"jit_f{number}-0", bytes(1000))
        (entry,) = tmp_path.glob(f"jit_f{number}-*.program")
        os.utime(entry, (now, now - 5000 + 100 * number))
    assert files_in(tmp_path).get("jit_f0-0") is not None  # used now
    files.put("jit_f9-0", bytes(1000))
    names = {entry.name.partition("-")[0] for entry in entries(tmp_path)}
    assert {"jit_f0", "jit_f8", "jit_f9"} <= names
    assert not {"jit_f1", "jit_f2"} & names
    assert sum(entry.stat().st_size for entry in entries(tmp_path)) <= 10_000


def test_it_never_holds_more_than_it_may(tmp_path: Path) -> None:
    files = files_in(tmp_path, max_bytes=50_000)
    for number in range(300):
        files.put(f"jit_f-{number}", bytes(100 * (number % 30)))
        assert sum(entry.stat().st_size for entry in entries(tmp_path)) <= 50_000
    assert len(entries(tmp_path)) > 10
    assert files.get("jit_f-299") is not None


def test_two_that_write_do_not_exceed_it_by_more_than_a_64th_each(tmp_path: Path) -> None:
    both = files_in(tmp_path, max_bytes=64_000), files_in(tmp_path, max_bytes=64_000)
    for number in range(400):
        both[number % 2].put(f"jit_f-{number}", bytes(400))
        assert sum(entry.stat().st_size for entry in entries(tmp_path)) <= 64_000 * 66 / 64


def test_what_nobody_uses_goes_with_parts_of_writers_that_died(tmp_path: Path) -> None:
    files = files_in(tmp_path, max_age=7200)
    files.put("jit_old-1", b"old")
    files.put("jit_new-1", b"new")
    part, fresh_part, other = (tmp_path / name for name in (".part-1", ".part-2", "notes.txt"))
    for path in (part, fresh_part, other):
        path.write_bytes(b"")
    (old,) = tmp_path.glob("jit_old*")
    for path in (old, part, other):
        os.utime(path, (0, time.time() - 8000))
    files.prune()
    assert set(tmp_path.iterdir()) == {*tmp_path.glob("jit_new*"), fresh_part, other}


def test_what_is_larger_than_all_may_be_is_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = files_in(tmp_path, max_bytes=1000)
    files.put("jit_f-1", bytes(1000))
    assert files.get("jit_f-1") is None
    assert len(warnings_in(caplog)) == 1
    files.put("jit_f-2", bytes(10))
    assert files.get("jit_f-2") == bytes(10)


@pytest.mark.parametrize("where", ["/proc/self", "/proc/self/no/such"])
def test_a_directory_that_cannot_be_written_costs_one_warning(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = files_in(Path(where))
    for number in range(3):
        files.put(f"jit_f-{number}", b"program")
        assert files.get(f"jit_f-{number}") is None
    (warning,) = warnings_in(caplog)
    assert where in warning and "this process writes no more" in warning


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_can_only_be_read_serves(tmp_path: Path) -> None:
    files_in(tmp_path).put("jit_f-1", b"program")
    tmp_path.chmod(0o500)
    try:
        files = files_in(tmp_path)
        files.put("jit_f-2", b"program")
        assert files.get("jit_f-1") == b"program"
    finally:
        tmp_path.chmod(0o700)


def test_a_full_disk_leaves_no_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = files_in(tmp_path)
    files.put("jit_f-1", b"program")

    def full(source: str, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        files.put("jit_f-2", b"program")
    files.put("jit_f-3", b"program")
    assert [files.get(f"jit_f-{n}") for n in (1, 2, 3)] == [b"program", None, None]
    assert len(list(tmp_path.iterdir())) == 1
    (warning,) = warnings_in(caplog)
    assert "No space left" in warning


def test_threads_read_whole_entries_while_others_write_and_remove(tmp_path: Path) -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        files = files_in(tmp_path, max_bytes=20_000)
        for step in range(150):
            number = (step * 7 + seed * 13) % 40
            value = bytes([number]) * (50 * number)
            found = files.get(f"jit_f-{number}")
            if found is None:
                files.put(f"jit_f-{number}", value)
            elif found != value:
                failures.append(f"{number}: {len(found)} bytes")
        if files._warned:
            failures.append("warned")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
