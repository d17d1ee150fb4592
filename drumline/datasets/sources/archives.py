"""Archives: their files, in order or extracted; none is written outside."""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import lzma
import os
import posixpath
import queue
import shutil
import stat
import struct
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from drumline._core import ByteReader
from drumline.data.storage.store.disk_errors import naming
from drumline.datasets.prepared.writing import complete_directory, locked

_GZIP = b"\x1f\x8b"

_PACKED: dict[bytes, Callable[..., Any]] = {
    _GZIP: gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
"""What opens files that are compressed, by how they begin."""


class ArchiveError(ValueError):
    """A file is no archive, is damaged, or would write outside of its directory."""


_LARGE = 4 << 20
"""Bytes of a compressed archive that is worth a thread."""

_CHUNK, _CHUNKS = 1 << 20, 4
_TAR_BYTES = 64 << 10

_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError),
    # Of zip: numbers that lead nowhere, names in no encoding, methods that are not known.
    *(struct.error, ValueError, OverflowError, NotImplementedError, RuntimeError),
)
"""What the standard library raises for damaged archives."""


class _Contents(io.RawIOBase):
    """What a file in an archive holds; errors name the archive."""

    def __init__(self, contents: IO[bytes], archive: Path) -> None:
        super().__init__()
        self._contents, self._archive = contents, archive

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            read = self._contents.read(len(buffer))
        except _DAMAGED as error:
            raise _damaged(self._archive, error) from error
        buffer[: len(read)] = read
        return len(read)

    def readall(self) -> bytes:
        try:
            return self._contents.read()
        except _DAMAGED as error:
            raise _damaged(self._archive, error) from error


def _damaged(archive: Path, error: BaseException) -> BaseException:
    """Return what is raised for an error in reading an archive."""
    if isinstance(error, FileNotFoundError | ArchiveError) or _is_of_disk(error):
        return error
    return ArchiveError(f"{archive}: the archive is damaged or cut off: {error}")


def safe_name(name: str, archive: Path) -> str:
    """Return the name of a member, which leads to a place inside of the archive's directory.

    Raises:
        ArchiveError: it leads outside.
    """
    plain = posixpath.normpath(name.replace("\\", "/"))
    if plain.startswith(("/", "../")) or plain == ".." or ":" in plain.split("/")[0][1:2]:
        raise ArchiveError(
            f"{archive}: its member {name!r:.200} would be written outside of the directory; the "
            "archive is not extracted"
        )
    if "\0" in plain:
        raise ArchiveError(f"{archive}: its member {name!r:.200} has no usable name")
    return plain


def iter_archive(path: str | os.PathLike[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield name and contents of the files in an archive, in its order; nothing is extracted.

    Args:
        path: of a tar archive, compressed or not, a zip archive, or a compressed file, which is
            given under its name without the ending.

    Yields:
        Names, and open files that can be read until the next one is asked for.

    Raises:
        ArchiveError: the file is damaged or no archive.
        FileNotFoundError: there is no such file.
    """
    yield from _members(Path(path), [])


def _members(archive: Path, links: list[tarfile.TarInfo]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files of an archive; its links are put into a list."""
    with archive.open("rb") as file:
        start = file.read(512)
    if start.startswith(b"PK"):
        members = _of_zip(archive)
    elif _is_tar(archive):
        members = _of_tar(archive, links)
    else:
        opened = _opener(start)
        if opened is None:
            raise ArchiveError(
                f"{archive}: it is neither a tar nor a zip archive nor compressed; it begins with "
                f"{start[:8]!r}"
            )
        with opened(archive, "rb") as unpacked:
            yield archive.stem, _open(unpacked, archive)
        return
    yield from _checked(members, archive)


def _checked(
    members: Iterator[tuple[str, IO[bytes]]], archive: Path
) -> Iterator[tuple[str, IO[bytes]]]:
    while True:
        try:
            member = next(members, None)
        except _DAMAGED as error:
            raise _damaged(archive, error) from error
        if member is None:
            return
        yield member[0], _open(member[1], archive)


@contextlib.contextmanager
def member_of(path: str | os.PathLike[str], name: str) -> Iterator[IO[bytes]]:
    """Open a file in an archive, without extracting it; a context manager.

    Args:
        path: of the archive; see `iter_archive`.
        name: of the file.

    Raises:
        ArchiveError: the archive is damaged, or has no such file.
    """
    members = iter_archive(path)
    for found, contents in members:
        if found == name:
            yield contents
            return
    raise ArchiveError(f"{path}: the archive has no file {name!r}: it is another one")


def iter_inner_tar(
    contents: IO[bytes], name: str | os.PathLike[str]
) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield name and contents of the files in a tar archive that is a file of another archive.

    It is read as it comes: neither held nor extracted.

    Args:
        contents: of it, compressed or not, as `iter_archive` gives them.
        name: for errors.

    Raises:
        ArchiveError: it is damaged or no archive.
    """
    yield from _checked(_of_stream(Path(name), contents, []), Path(name))


def read_members(path: str | os.PathLike[str], *names: str) -> list[bytes]:
    """Return the contents of files in an archive, by their names in it.

    Raises:
        ArchiveError: the archive is damaged, or has no file of such a name.
        FileNotFoundError: there is no such archive.
    """
    found: dict[str, bytes] = {}
    for name, contents in iter_archive(path):
        if name in names:
            found[name] = contents.read()
            if len(found) == len(names):
                break
    missing = next((name for name in names if name not in found), None)
    if missing is not None:
        raise ArchiveError(f"{path}: there is no {missing} in it: it is another archive")
    return [found[name] for name in names]


def _open(contents: IO[bytes], archive: Path) -> IO[bytes]:
    return io.BufferedReader(_Contents(contents, archive), 1 << 16)


def _is_of_disk(error: BaseException) -> bool:
    # A place that the archive names and that cannot be is EINVAL.
    return isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)


def _opener(start: bytes) -> Callable[..., Any] | None:
    return next((opened for magic, opened in _PACKED.items() if start.startswith(magic)), None)


def _is_tar(archive: Path) -> bool:
    with archive.open("rb") as file:
        start = file.read(8)
    opened = _opener(start) or open
    try:
        with opened(archive, "rb") as unpacked:
            block = unpacked.read(512)
    except _DAMAGED:
        return False
    return len(block) == 512 and (block[257:262] == b"ustar" or _has_sum(block))


def _has_sum(block: bytes) -> bool:
    """Return whether a block is the header of an archive older than POSIX's."""
    try:
        stored = int(block[148:156].split(b"\0")[0].strip() or b"x", 8)
    except ValueError:
        return False
    return stored == sum(block[:148]) + 8 * 32 + sum(block[156:])


def _decompressed(file: IO[bytes], start: bytes) -> Any:
    """Return what reads the contents of a compressed file, which is not buffered."""
    if start.startswith(_GZIP):
        return ByteReader(file.fileno(), "GZIP", _CHUNK)
    opened = _opener(start)
    assert opened is not None
    return opened(file, "rb")


class _ReadAhead:
    """The decompressed bytes of a file, which a thread reads ahead.

    Args:
        file: which is read by its descriptor.
        start: how it begins.
    """

    def __init__(self, file: IO[bytes], start: bytes) -> None:
        self._read = _decompressed(file, start).read
        self._chunks: queue.Queue[bytes | BaseException] = queue.Queue(_CHUNKS)
        self._stopped = threading.Event()
        self._held, self._at = b"", 0
        self._thread = threading.Thread(target=self._run, name="drumline-archive", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        chunk: bytes | BaseException = b" "
        while chunk and not isinstance(chunk, BaseException):
            try:
                chunk = self._read(_CHUNK)
            except Exception as error:
                chunk = error
            self._chunks.put(chunk)
            if self._stopped.is_set():
                return

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, none at the end."""
        if self._at == len(self._held):
            chunk = self._chunks.get()
            if not chunk or isinstance(chunk, BaseException):
                self._chunks.put(chunk)  # for whoever asks again
                if isinstance(chunk, BaseException):
                    raise chunk
                return b""
            self._held, self._at = chunk, 0
        part = self._held[self._at : self._at + size]
        self._at += len(part)
        return part

    def close(self) -> None:
        """End the thread."""
        self._stopped.set()
        while self._thread.is_alive():
            with contextlib.suppress(queue.Empty):
                self._chunks.get(timeout=0.01)
        self._thread.join()


def _of_tar(archive: Path, links: list[tarfile.TarInfo]) -> Iterator[tuple[str, IO[bytes]]]:
    with archive.open("rb", buffering=0) as file:
        start = file.read(8)
        file.seek(0)
        if _opener(start) is None or archive.stat().st_size < _LARGE:
            yield from _of_stream(archive, file, links)
            return
        ahead = _ReadAhead(file, start)
        try:
            yield from _of_stream(archive, ahead, links)
        finally:
            ahead.close()


def _of_stream(
    archive: Path, stream: Any, links: list[tarfile.TarInfo]
) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(fileobj=stream, mode="r|*", bufsize=_TAR_BYTES) as members:
        for member in members:
            if member.isfile():
                file = members.extractfile(member)
                assert file is not None
                yield safe_name(member.name, archive), file
            elif member.issym() or member.islnk():
                links.append(member)


def _of_zip(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as members:
        for member in members.infolist():
            if member.is_dir():
                continue
            name = safe_name(member.filename, archive)
            if member.flag_bits & 1:
                raise ArchiveError(f"{archive}: its member {name!r} is encrypted")
            with members.open(member) as contents:
                yield name, contents


def extract(path: Path, directory: Path) -> Path:
    """Write the files of an archive into a directory, unless they are there.

    Links inside of a tar archive are followed to the file they name; those that lead outside are
    an error, like names that do. The directory appears when it is complete.

    Args:
        path: of the archive.
        directory: where to.

    Returns:
        The directory.

    Raises:
        ArchiveError: the archive is damaged, or a member leads outside.
        OSError: the disk is full.
    """
    if directory.is_dir():
        return directory
    with locked(directory.with_name(f".{directory.name}.lock")):
        if not directory.is_dir():
            with complete_directory(directory) as place:
                links: list[tarfile.TarInfo] = []
                for name, contents in _members(path, links):
                    _write(contents, place / name)
                _copy_links(path, place, links)
    return directory


def _write(contents: IO[bytes], target: Path) -> None:
    with naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(contents, file, 1 << 20)


def _copy_links(path: Path, place: Path, links: list[tarfile.TarInfo]) -> None:
    for link in links:
        base = "" if link.islnk() else posixpath.dirname(link.name)
        source = place / safe_name(posixpath.join(base, link.linkname), path)
        target = place / safe_name(link.name, path)
        if source.is_file() and stat.S_ISREG(source.lstat().st_mode):
            with source.open("rb") as contents:
                _write(contents, target)


def lines_of(path: str | os.PathLike[str], name: str) -> Iterator[str]:
    """Yield the lines of a text, UTF-8, in an archive; nothing is extracted.

    Raises:
        ArchiveError: the archive is damaged, or has no such file.
    """
    with member_of(path, name) as contents:
        yield from io.TextIOWrapper(contents, "utf-8")


def opened(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file whose contents may be compressed (gzip, bzip2, xz), for reading."""
    with open(path, "rb") as file:
        start = file.read(8)
    unpacked: IO[bytes] = (_opener(start) or io.open)(path, "rb")
    return unpacked
