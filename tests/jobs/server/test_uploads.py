"""Archives that are sent: what is unpacked, and what is refused as a whole."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import stat
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.jobs.server import uploads
from drumline.jobs.server.answers import HttpError
from drumline.jobs.server.uploads import CodeUploads, UploadError


def receive(
    home: Path, data: bytes, piece: int = 1000, member: str = "ada", request: str | None = None
) -> Path:
    async def pieces() -> AsyncIterator[bytes]:
        for i in range(0, len(data), piece):
            yield data[i : i + piece]

    made = CodeUploads(home)
    return made.of(member, asyncio.run(made.receive(member, pieces(), request)))


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644
) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


def packed(*members: tarfile.TarInfo, content: bytes = b"text") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info in members:
            info.size = len(content) if info.type == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


LINK, HARD, FOLDER = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE


def test_files_folders_and_links_within(tmp_path: Path) -> None:
    found = receive(
        tmp_path,
        packed(
            *(member("a/t.py", mode=0o755), member("a/b", FOLDER)),
            *(member("a/b/link", LINK, "../t.py"), member("top", LINK, "a/b")),
            member("näme " + "x" * 200),
        ),
    )
    assert (found / "a" / "b" / "link").read_bytes() == b"text"
    assert os.readlink(found / "top") == "a/b" and (found / ("näme " + "x" * 200)).is_file()
    assert stat.S_IMODE((found / "a" / "t.py").stat().st_mode) == 0o700
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "members",
    [
        [member("../out")],
        [member("/tmp/drumline-out")],
        [member("a/../../out")],
        [member("l", LINK, "/etc/passwd")],
        [member("l", LINK, "../out")],
        [member("a/l", LINK, "../../out")],
        [member("a/l", LINK, "b/../../out")],
        # Written through a link of its own.
        [member("l", LINK, "/tmp"), member("l/drumline-out")],
        [member("d", LINK, "."), member("d/l", LINK, "..")],
        [member("a/b/c/l", LINK, "../../.."), member("m", LINK, "a/b/c/l/../x")],
        [member("h", HARD, "/etc/passwd")],
        [member("a"), member("h", HARD, "a")],
        [member("dev", tarfile.CHRTYPE)],
        [member("pipe", tarfile.FIFOTYPE)],
        [member("a"), member("a")],
        [member("a"), member("a/b")],
        [member("a" * 2000)],
    ],
    ids=lambda members: " ".join(info.name[:20] for info in members),
)
def test_archives_that_are_refused(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    escaped = Path("/tmp/drumline-out")
    escaped.unlink(missing_ok=True)  # of an escape that was found before
    (tmp_path / "home").mkdir()
    with pytest.raises(UploadError, match="is refused: "):
        receive(tmp_path / "home", packed(*members))
    assert list((tmp_path / "home" / "uploads").iterdir()) == [], "nothing of it is left"
    assert not (tmp_path / "out").exists() and not escaped.exists()


def test_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "LARGEST_COPY", 1000)
    monkeypatch.setattr(uploads, "MOST_ENTRIES", 3)
    monkeypatch.setattr(uploads, "MOST_WAITING", 2)
    with pytest.raises(UploadError, match="more than 0 MiB together") as large:
        receive(tmp_path, packed(member("a"), content=b"x" * 1001))
    assert large.value.status == 413
    with pytest.raises(UploadError, match="more than 3 files"):
        receive(tmp_path, packed(*map(member, "abcd")))
    # A file that says it is larger than all there is: nothing of that size is written.
    huge = member("huge")
    huge.size = 1 << 50
    with pytest.raises(UploadError, match="together"):
        receive(tmp_path, huge.tobuf())
    monkeypatch.setattr(uploads, "_LARGEST_ARCHIVE", 20_000)
    with pytest.raises(UploadError, match="more than 20000 bytes"):
        receive(tmp_path, packed(member("a")) + bytes(20_000))
    for _ in range(2):
        receive(tmp_path, packed(member("a")))
    with pytest.raises(UploadError, match="wait for their jobs") as many:
        receive(tmp_path, packed(member("a")))
    assert many.value.status == 429
    receive(tmp_path, packed(member("a")), member="grace")
    CodeUploads(tmp_path).sweep(kept_seconds=-1)
    assert list((tmp_path / "uploads").iterdir()) == []


def test_a_request_that_is_repeated_has_one_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client has not heard that it was received, or had to send it to the next server."""
    monkeypatch.setattr(uploads, "MOST_WAITING", 1)
    for data in (packed(member("a")), packed()):
        first = receive(tmp_path, data, request="ada 1")
        assert receive(tmp_path, data, request="ada 1") == first
        assert list((tmp_path / "uploads").iterdir()) == [first]
        CodeUploads(tmp_path).sweep(kept_seconds=-1)
    one = receive(tmp_path, packed(member("a")), request="ada 1")
    other = receive(tmp_path, packed(member("a")), request="grace 1", member="grace")
    assert one.name.partition("+")[2] != other.name.partition("+")[2]
    with pytest.raises(UploadError, match="wait for their jobs"):
        receive(tmp_path, packed(member("a")), request="ada 2")


def test_the_oldest_upload_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of jobs that were refused: who mends a job nine times in an hour may do so."""
    monkeypatch.setattr(uploads, "MOST_WAITING", 2)
    old, young = (receive(tmp_path, packed(member("a"))) for _ in range(2))
    os.utime(old, (time.time() - uploads.YOUNG_SECONDS - 1,) * 2)
    newest = receive(tmp_path, packed(member("a")))
    assert {*(tmp_path / "uploads").iterdir()} == {young, newest}
    with pytest.raises(UploadError, match="or wait a minute"):
        receive(tmp_path, packed(member("a")))


def test_what_a_killed_server_was_receiving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next server removes it; what had come whole waits for its job."""
    monkeypatch.setattr(uploads, "MOST_WAITING", 2)
    monkeypatch.setattr(uploads, "CHUNK_SECONDS", 0.2)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # It is killed before.
    whole = receive(tmp_path, packed(member("a")))

    async def stopping() -> AsyncIterator[bytes]:
        yield packed(member("a"))[:600]
        await asyncio.sleep(60)

    with pytest.raises(UploadError, match="nothing more came"):
        asyncio.run(CodeUploads(tmp_path).receive("ada", stopping()))
    monkeypatch.undo()
    assert len(list((tmp_path / "uploads").iterdir())) == 2
    CodeUploads(tmp_path).sweep_unfinished()
    assert list((tmp_path / "uploads").iterdir()) == [whole]


def test_an_upload_is_its_members(tmp_path: Path) -> None:
    found = receive(tmp_path, packed(member("a")))
    name = found.name.partition("+")[2]
    assert CodeUploads(tmp_path).of("ada", name) == found
    for who, asked in (("grace", name), ("ada", "../home"), ("ada", name.upper()), ("ada", "")):
        with pytest.raises(HttpError) as refused:
            CodeUploads(tmp_path).of(who, asked)
        assert refused.value.status == 409


@settings(max_examples=60)
@given(st.data())
def test_damaged_archives_leave_nothing(data: st.DataObject) -> None:
    """Cut, or with other bytes: refused or unpacked within the folder, and no other error."""
    whole = bytearray(packed(member("a/t.py"), member("l", LINK, "a"), member("d", FOLDER)))
    cut = data.draw(st.integers(0, len(whole)))
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, 2047))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        try:
            found = receive(home, bytes(whole[:cut]), data.draw(st.integers(1, 700)))
        except UploadError:
            assert list((home / "uploads").iterdir()) == []
        else:
            for path in found.rglob("*"):
                assert path.resolve().is_relative_to(found.resolve())
        assert {path.name for path in Path(folder).iterdir()} == {"home"}


def test_a_client_that_stops_sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "CHUNK_SECONDS", 0.2)
    data = packed(member("a"))

    async def stopping() -> AsyncIterator[bytes]:
        yield data[:600]
        await asyncio.sleep(60)
        yield data[600:]

    async def gone() -> AsyncIterator[bytes]:
        yield data[:600]
        raise ConnectionResetError

    made = CodeUploads(tmp_path)
    with pytest.raises(UploadError, match="nothing more came"):
        asyncio.run(made.receive("ada", stopping()))
    with pytest.raises(ConnectionResetError):
        asyncio.run(made.receive("ada", gone()))
    assert list((tmp_path / "uploads").iterdir()) == []
