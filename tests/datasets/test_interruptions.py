"""A process that is killed, interrupted, or out of space leaves nothing that is taken as whole."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drumline.datasets.prepared import writing
from tests.datasets.interrupted import COUNT, content_of, made
from tests.datasets.sources.test_download import Server, send, server

__all__ = ["server"]

STAGES = [
    *((stage, signal.SIGKILL) for stage in ("download", "extract", "generate", "write")),
    *((stage, signal.SIGINT) for stage in ("download", "generate")),
    *(
        pytest.param(stage, signal.SIGINT, marks=pytest.mark.thorough)
        for stage in ("extract", "write")
    ),
]


def archive() -> bytes:
    """A tar archive with a text for each example."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as files:
        for n in range(COUNT):
            member = tarfile.TarInfo(f"{n}.txt")
            member.size = len(content_of(n))
            files.addfile(member, io.BytesIO(content_of(n)))
    return out.getvalue()


ARCHIVE = archive()


def arguments(server: Server, root: Path, stage: str = "") -> tuple[str, ...]:
    digest = hashlib.sha256(ARCHIVE).hexdigest()
    return (stage, f"{server.url}/texts.tar", str(len(ARCHIVE)), digest, str(root))


def start(server: Server, root: Path, stage: str = "", *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.datasets.interrupted"]
    return subprocess.Popen(
        [*command, *arguments(server, root, stage), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )


def times_prepared(root: Path) -> int:
    return len((root / "prepared.txt").read_text().splitlines())


def unfinished(root: Path) -> list[str]:
    """What is begun below a directory."""
    return sorted(
        path.name
        for path in root.rglob("*")
        if "incomplete" in path.name or path.name.endswith(".part")
    )


def check_whole(server: Server, root: Path) -> None:
    """The next call makes everything, and nothing that was begun is left."""
    builder = made(*arguments(server, root))
    assert not builder.is_prepared and not (root / "interrupted" / "1.0.0").exists()
    with pytest.raises(FileNotFoundError, match="is not prepared"):
        builder.as_dataset("train")
    builder.download_and_prepare()
    for split in ("train", "test"):
        found = {int(each["n"]): each["text"] for each in builder.as_dataset(split)}
        assert found == {n: content_of(n) for n in range(COUNT)}
    assert unfinished(root) == []


@pytest.mark.parametrize(("stage", "number"), STAGES)
def test_the_next_call_begins_again_or_continues(
    server: Server, tmp_path: Path, stage: str, number: signal.Signals
) -> None:
    half, stalled, release = len(ARCHIVE) // 2, threading.Event(), threading.Event()

    def answer(handler: Any, count: int) -> None:
        if stage == "download" and count == 1:
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(ARCHIVE)))
            handler.send_header("ETag", '"one"')
            handler.end_headers()
            handler.wfile.write(ARCHIVE[:half])
            handler.wfile.flush()
            stalled.set()
            release.wait(60)
            handler.close_connection = True
        else:
            send(handler, ARCHIVE)

    server.answers["/texts.tar"] = answer
    child = start(server, tmp_path, stage)
    try:
        if stage == "download":
            assert stalled.wait(60)
            parts = tmp_path / "downloads"
            while not any(path.stat().st_size for path in parts.glob("*.part")):
                assert child.poll() is None
        else:
            assert child.stdout is not None and child.stdout.readline() == "paused\n"
        child.send_signal(number)
        code = child.wait(120)  # without waiting for the server
        error = child.stderr.read() if child.stderr is not None else ""
    finally:
        child.kill()
        child.wait()
        child.__exit__(None, None, None)
        release.set()
    assert code == -number, error
    begun = unfinished(tmp_path)
    assert sum(name.endswith(".part") for name in begun) == (stage == "download")
    directories = sum(name.startswith("incomplete") for name in begun)
    killed = 2 if stage == "extract" else 1  # the archive's directory is one, too
    assert directories == (killed if number == signal.SIGKILL else 0)
    check_whole(server, tmp_path)
    ranges = [part for _, part in server.requests]
    if stage == "download":
        assert len(ranges) == 2 and ranges[1] is not None and ranges[1] != "bytes=0-"
    else:
        assert ranges == [None]
        assert times_prepared(tmp_path) == (1 if stage == "extract" else 2)


@pytest.mark.parametrize(("largest", "where"), [(100_000, "texts.tar.part"), (8_000, "0.txt")])
def test_a_file_that_cannot_be_written_is_named(
    server: Server, tmp_path: Path, largest: int, where: str
) -> None:
    """By a limit on the size of files, which is as an end of space: in a download, an archive."""
    server.answers["/texts.tar"] = lambda handler, count: send(handler, ARCHIVE)
    if where == "0.txt":
        digest = hashlib.sha256(f"{server.url}/texts.tar".encode()).hexdigest()[:16]
        (tmp_path / "downloads").mkdir()
        (tmp_path / "downloads" / f"{digest}-texts.tar").write_bytes(ARCHIVE)
    with start(server, tmp_path, "", str(largest)) as child:
        _, error = child.communicate(timeout=60)
    assert child.returncode == 1
    last = error.strip().splitlines()[-1]
    assert "File too large" in last and "raise the limit" in last and where in last, error
    check_whole(server, tmp_path)


def test_a_shard_that_cannot_be_written_is_named(server: Server, tmp_path: Path) -> None:
    server.answers["/texts.tar"] = lambda handler, count: send(handler, ARCHIVE)
    builder = made(*arguments(server, tmp_path))
    builder.download_and_prepare()
    largest = (builder.data_dir / "interrupted-train.tfrecord-00000-of-00001").stat().st_size
    builder.data_dir.rename(tmp_path / "interrupted" / "other")
    with start(server, tmp_path, "", str(largest - 1)) as child:
        _, error = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "interrupted-train.tfrecord-00000-of-00001" in error.strip().splitlines()[-1], error
    assert unfinished(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Gives a directory that is a file system of so many kilobytes, and may get more."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def resize(kilobytes: int) -> Path:
        is_there = os.path.ismount(disk)
        options = f"{'remount,' if is_there else ''}size={kilobytes}k"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError as error:
            pytest.skip(str(error))
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        return disk

    yield resize
    if os.path.ismount(disk):
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.parametrize(
    ("kilobytes", "held", "where"),
    [
        (200, None, r"/downloads/[0-9a-f]{16}-texts\.tar\.part"),
        (700, None, r"/\d+\.txt"),
        (1050, None, r"/interrupted-train\.tfrecord-00000-of-00001"),
        (1050, 50_000, r"/incomplete\.drumline-[0-9a-f]{8}_1\.0\.0"),
    ],
    ids=["download", "extract", "write", "order"],
)
def test_a_full_disk_is_named_and_leaves_nothing_that_is_taken_as_whole(
    server: Server,
    small_disk: Callable[[int], Path],
    monkeypatch: pytest.MonkeyPatch,
    kilobytes: int,
    held: int | None,
    where: str,
) -> None:
    """Of a file system of its own; once there is room the next call goes on."""
    server.answers["/texts.tar"] = lambda handler, count: send(handler, ARCHIVE)
    if held is not None:  # so that records are ordered on the disk
        monkeypatch.setattr(writing, "_LEAST_HELD", held)
        monkeypatch.setattr(writing, "_MOST_HELD", held)
    root = small_disk(kilobytes)
    with pytest.raises(OSError, match="free space on its disk") as caught:
        made(*arguments(server, root)).download_and_prepare()
    assert caught.value.errno == errno.ENOSPC
    assert re.search(f"{where}$", caught.value.filename), caught.value.filename
    begun = unfinished(root)
    assert begun == ([Path(caught.value.filename).name] if "part" in where else [])
    small_disk(10_000)
    check_whole(server, root)
    assert len(server.requests) == (2 if "part" in where else 1)


def test_of_several_processes_one_prepares(server: Server, tmp_path: Path) -> None:
    server.answers["/texts.tar"] = lambda handler, count: send(handler, ARCHIVE)
    children = [start(server, tmp_path, "together") for _ in range(2)]
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == "starts\n"
    time.sleep(1.0)  # for the second to wait for the first
    (tmp_path / "go").touch()
    for child in children:
        with child:
            _, error = child.communicate(timeout=120)
        assert child.returncode == 0, error
    assert len(server.requests) == 1 and times_prepared(tmp_path) == 1
    builder = made(*arguments(server, tmp_path))
    assert builder.is_prepared
    assert sorted(int(each["n"]) for each in builder.as_dataset("test")) == list(range(COUNT))
