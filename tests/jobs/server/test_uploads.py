"""Archives that are sent: what is unpacked, and what is refused as a whole."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import tarfile
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.jobs.server import uploads
from drumline.jobs.server.answers import HttpError
from drumline.jobs.server.uploads import CodeUploads, UploadError


def receive(home: Path, data: bytes, piece: int = 1000, member: str = "ada") -> Path:
    async def pieces() -> AsyncIterator[bytes]:
        for i in range(0, len(data), piece):
            yield data[i : i + piece]

    made = CodeUploads(home)
    return made.of(member, asyncio.run(made.receive(member, pieces())))


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
