"""Archives of all kinds give their files; none is written outside of its directory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.datasets.sources import archives
from drumline.datasets.sources.archives import (
    ArchiveError,
    extract,
    iter_archive,
    iter_inner_tar,
    read_members,
    safe_name,
)

FILES = {"a/one.txt": b"one", "a/b/two.bin": bytes(range(256)), "empty": b""}


def tar(path: Path, mode: str = "w", files: dict[str, bytes] = FILES) -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def zipped(path: Path, files: dict[str, bytes] = FILES) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.bz2", "tar.xz", "zip", "v7"])
def test_every_kind(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"x.{kind}"
    if kind == "zip":
        zipped(path)
    else:
        tar(path, {"tar.gz": "w:gz", "tar.bz2": "w:bz2", "tar.xz": "w:xz"}.get(kind, "w"))
    if kind == "v7":  # an archive without the name of the format in its headers
        content = bytearray(path.read_bytes())
        for start in range(0, len(content), 512):
            if content[start + 257 : start + 262] == b"ustar":
                content[start + 257 : start + 265] = bytes(8)
                content[start + 148 : start + 156] = b"        "
                total = sum(content[start : start + 512])
                content[start + 148 : start + 156] = f"{total:06o}\0 ".encode()
        path.write_bytes(content)
    assert {name: file.read() for name, file in iter_archive(path)} == FILES
    out = extract(path, tmp_path / "out")
    assert {
        str(each.relative_to(out)): each.read_bytes() for each in out.rglob("*") if each.is_file()
    } == FILES
    path.unlink()
    assert extract(path, tmp_path / "out") == out


@pytest.mark.parametrize(("pack", "end"), [(gzip, "gz"), (bz2, "bz2"), (lzma, "xz")])
def test_a_compressed_file(tmp_path: Path, pack: object, end: str) -> None:
    path = tmp_path / f"data.bin.{end}"
    path.write_bytes(pack.compress(b"some content"))  # type: ignore[attr-defined]
    assert [(name, file.read()) for name, file in iter_archive(path)] == [
        ("data.bin", b"some content")
    ]


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "a/../../evil", "..", "c:\\evil", "..\\e"]
)
@pytest.mark.parametrize("make", [tar, zipped])
def test_names_that_lead_outside_are_refused(tmp_path: Path, make: object, name: str) -> None:
    path = make(tmp_path / "x", files={"good": b"1", name: b"2"})  # type: ignore[operator]
    with pytest.raises(ArchiveError, match="would be written outside"):
        extract(path, tmp_path / "in" / "out")
    assert [each.name for each in (tmp_path / "in").iterdir()] == [".out.lock"]
    assert not (tmp_path / "evil").exists() and not (tmp_path / "in" / "evil").exists()


def test_an_encrypted_file_is_named(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", files={"secret": b"1"})
    content = bytearray(path.read_bytes())
    for record, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.index(record) + flags] |= 1
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match=r"x\.zip: its member 'secret' is encrypted"):
        list(iter_archive(path))


def test_links_are_followed_inside_only(tmp_path: Path) -> None:
    def linked(target: str) -> Path:
        path = tmp_path / "x.tar"
        with tarfile.open(path, "w") as archive:
            member = tarfile.TarInfo("d/real")
            member.size = 2
            archive.addfile(member, io.BytesIO(b"hi"))
            link = tarfile.TarInfo("d/link")
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        return path

    out = extract(linked("real"), tmp_path / "out")
    assert (out / "d/link").read_bytes() == b"hi" and not (out / "d/link").is_symlink()
    for target in ("../../etc/passwd", "/etc/passwd"):
        with pytest.raises(ArchiveError, match="outside"):
            extract(linked(target), tmp_path / "other")
        assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("kind", ["w", "w:gz", "zip"])
def test_a_damaged_archive_is_an_error(tmp_path: Path, kind: str) -> None:
    files = {f"f{i}": bytes(3000) for i in range(5)}
    path = tmp_path / "x"
    zipped(path, files) if kind == "zip" else tar(path, kind, files)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ArchiveError, match=f"{path}: "):
        extract(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ArchiveError, match="neither a tar nor a zip archive"):
        extract(path, tmp_path / "out")


@pytest.mark.parametrize("kind", ["w:gz", "w:bz2", "w:xz"])
def test_a_large_archive_is_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """By a thread, which ends with the loop: at the end, before it, or at what is damaged."""
    monkeypatch.setattr(archives, "_LARGE", 1 << 16)
    files = {f"f{i}": np.random.default_rng(i).bytes(100_000 + i) for i in range(60)}
    path = tar(tmp_path / "x", kind, files)
    assert {name: contents.read() for name, contents in iter_archive(path)} == files

    def ends() -> bool:
        return not [each for each in threading.enumerate() if each.name == "drumline-archive"]

    assert ends()
    members = iter_archive(path)
    name, contents = next(members)
    assert contents.read(7) == files[name][:7] and not ends()
    members.close()
    assert ends()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    found = {}

    def read_all() -> None:
        found.update((name, contents.read()) for name, contents in iter_archive(path))

    with pytest.raises(ArchiveError, match=f"{path}: the archive is damaged or cut off"):
        read_all()
    assert ends() and len(found) > 10 and all(files[name] == each for name, each in found.items())


@given(st.binary(max_size=300), st.sampled_from([b"", b"PK\x03\x04", b"\x1f\x8b\x08", b"BZh9"]))
def test_any_bytes_are_an_archive_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, start: bytes
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "x"
    path.write_bytes(start + content)
    try:
        for _, file in iter_archive(path):
            file.read()
    except (ArchiveError, EOFError, OSError):
        pass


@given(st.text(max_size=20))
def test_a_safe_name_stays_inside(name: str) -> None:
    try:
        found = safe_name(name, Path("x"))
    except ArchiveError:
        return
    assert not found.startswith("/") and ".." not in found.split("/")


def test_an_archive_in_an_archive_is_read_as_it_comes(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as archive:
        for name in ("a/1", "a/2"):
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(name.encode()))
    path = tmp_path / "outer.zip"
    with zipfile.ZipFile(path, "w") as outer:
        outer.writestr("x/in.tar.gz", inner.getvalue())
        outer.writestr("x/other.tar", b"y" * 700)
    found, faults = [], []
    for name, contents in iter_archive(path):
        try:
            for inside, content in iter_inner_tar(contents, path / name):
                found.append((inside, content.read()))
        except ArchiveError as error:
            faults.append(str(error))
    assert found == [("a/1", b"a/1"), ("a/2", b"a/2")]
    assert len(faults) == 1 and "outer.zip/x/other.tar: the archive is damaged" in faults[0]
    assert read_members(path, "x/other.tar") == [b"y" * 700]
    with pytest.raises(ArchiveError, match=r"outer\.zip: there is no x/none in it"):
        read_members(path, "x/other.tar", "x/none")
