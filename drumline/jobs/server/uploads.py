"""Folders of code that come as tar archives: unpacked on the way, within limits, by no links.

Nothing is trusted of an archive. Files are made first, while there is no link in the new folder
through which one could be written; links come last, and may not lead out of it. An upload that was
not received whole is not there.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import io
import os
import queue
import re
import secrets
import shutil
import tarfile
import time
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath

from starlette.concurrency import run_in_threadpool

from drumline.jobs.server.answers import HttpError
from drumline.jobs.sources.code import LARGEST_COPY

MOST_ENTRIES = 20_000
MOST_WAITING = 8
"""Uploads of one member that no job has taken over."""

KEPT_SECONDS = 3600.0
YOUNG_SECONDS = 60.0
"""In which an upload gives way to no newer one: its job follows at once, or is refused."""

CHUNK_SECONDS = 30.0
"""In which the next piece of an archive has to come."""

_LONGEST_NAME = 1000
_PIECES = 16
_COPY = 1 << 20
# Headers and padding: of each file up to 512 bytes before and 511 behind it, and long names.
_LARGEST_ARCHIVE = LARGEST_COPY + MOST_ENTRIES * 2048
_ID = re.compile(r"[0-9a-f]{32}")


class UploadError(HttpError):
    """An archive that is refused; nothing of it is left."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(status, f"the upload is refused: {text}")


class CodeUploads:
    """The uploads of a workspace that wait for their jobs.

    Args:
        home: the workspace.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / "uploads"
        self._folder.mkdir(exist_ok=True, mode=0o700)

    def of(self, member: str, upload: str) -> Path:
        """The folder of an upload.

        Raises:
            HttpError: the member has none of that name; a job may have taken it over.
        """
        if _ID.fullmatch(upload):
            folder = self._folder / _owned(member, upload)
            if folder.is_dir():
                return folder
        raise HttpError(409, "there is no such upload: send the folder again, and the job after it")

    async def receive(
        self, member: str, pieces: AsyncIterator[bytes], request: str | None = None
    ) -> str:
        """Unpack an archive while it comes, and return the upload's name.

        Args:
            member: who sends it.
            pieces: of the archive.
            request: names the request: one that is repeated has one upload, whether its first
                answer was heard or not.

        Raises:
            UploadError: of what is in it, or since it is too large or comes too slowly.
        """
        name = secrets.token_hex(16) if request is None else _named(request)
        await run_in_threadpool(self._make_room, member, name)
        # An earlier try may not have noticed yet that its client has gone.
        partial = self._folder / f".{_owned(member, name)}+{secrets.token_hex(4)}"
        pipe = _Pipe()
        extracting = asyncio.create_task(run_in_threadpool(_extract, pipe, partial))
        received = 0
        try:
            try:
                async for piece in _in_time(pieces):
                    received += len(piece)
                    if received > _LARGEST_ARCHIVE:
                        raise UploadError(f"it has more than {_LARGEST_ARCHIVE} bytes", 413)
                    # What has found a mistake takes no more.
                    while not extracting.done() and not pipe.offer(piece):
                        await asyncio.sleep(0.005)
                    if extracting.done():
                        break
            except BaseException:
                await pipe.finish(extracting, broken=True)
                with contextlib.suppress(Exception):
                    await extracting
                raise
            await pipe.finish(extracting, broken=False)
            await extracting
            await run_in_threadpool(_settle, partial, self._folder / _owned(member, name))
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return name

    def sweep(self, kept_seconds: float = KEPT_SECONDS) -> None:
        """Remove uploads whose jobs never came."""
        for path in self._folder.glob("[!.]*"):
            self._remove_older(path, kept_seconds)

    def sweep_unfinished(self) -> None:
        """Remove what a killed server was receiving. Belongs before anything is received."""
        for path in self._folder.glob(".*"):
            shutil.rmtree(path, ignore_errors=True)

    def _make_room(self, member: str, upload: str) -> None:
        """Refuse another upload, unless there is room for it, or the oldest gives way to it."""
        mine, own = _owned(member, ""), _owned(member, upload)
        others = {
            path: path.name.startswith(".")
            for path in self._folder.iterdir()
            if (name := path.name.removeprefix(".")).startswith(mine) and not name.startswith(own)
        }
        if len(others) < MOST_WAITING:
            return
        whole = [path for path, unfinished in others.items() if not unfinished]
        if not whole or not self._remove_older(min(whole, key=_time), YOUNG_SECONDS):
            raise UploadError(
                f"{MOST_WAITING} uploads of yours wait for their jobs: submit them first, or wait "
                "a minute",
                429,
            )

    def _remove_older(self, path: Path, seconds: float) -> bool:
        """Remove an upload that has waited for so long, if it has; a job has it whole or not."""
        if time.time() - _time(path) <= seconds:
            return False
        gone = self._folder / f".{secrets.token_hex(16)}"
        with contextlib.suppress(FileNotFoundError):  # A job has taken it over.
            path.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
        return True


def _owned(member: str, name: str) -> str:
    # No member's name has a plus; the one of a console without members is empty.
    return f"{member}+{name}"


def _named(request: str) -> str:
    return hashlib.sha256(request.encode(errors="replace")).hexdigest()[:32]


def _settle(partial: Path, whole: Path) -> None:
    """Let an upload be there, unless an earlier try of the same request is."""
    os.utime(partial)
    try:
        partial.rename(whole)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(partial)


def _time(path: Path) -> float:
    """When an upload was there; of one that a job has taken over it is long ago."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0.0


async def _in_time(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(CHUNK_SECONDS):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise UploadError(f"nothing more came within {CHUNK_SECONDS:g} s", 408) from None
        yield piece


class _Broken(Exception):
    """The client has gone, or was refused meanwhile."""


class _Pipe(io.RawIOBase):
    """From the network, which waits for no thread, to the thread that reads the archive."""

    def __init__(self) -> None:
        self._pieces: queue.Queue[bytes | None] = queue.Queue(_PIECES)
        self._rest = b""
        self._over = False
        self._is_broken = False

    def offer(self, piece: bytes) -> bool:
        """Hand over a piece; False if there is no room now."""
        try:
            self._pieces.put_nowait(piece)
        except queue.Full:
            return False
        return True

    async def finish(self, reading: asyncio.Task[None], broken: bool) -> None:
        """Say that no more pieces come, and whether some are missing."""
        self._is_broken = broken
        while not reading.done():
            with contextlib.suppress(queue.Full):
                self._pieces.put_nowait(None)
                return
            await asyncio.sleep(0.005)

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def read(self, size: int = -1) -> bytes:
        """See `io.RawIOBase`; as many bytes as asked for, but at the end."""
        found = bytearray()
        while len(found) < size:
            if not self._rest and not self._over:
                piece = self._pieces.get()
                self._over = piece is None
                self._rest = piece or b""
            if self._is_broken:
                raise _Broken
            if self._over and not self._rest:
                break
            taken = self._rest[: size - len(found)]
            self._rest = self._rest[len(taken) :]
            found += taken
        return bytes(found)


def _extract(pipe: _Pipe, into: Path) -> None:
    into.mkdir(mode=0o700)
    links: list[tuple[PurePosixPath, str]] = []
    total = count = 0
    try:
        # Read once from its beginning to its end. It may not be compressed: what a few bytes would
        # become is as large as who sends them likes.
        with tarfile.open(fileobj=pipe, mode="r|", errorlevel=2) as archive:
            for member in archive:
                count += 1
                if count > MOST_ENTRIES:
                    raise UploadError(f"it has more than {MOST_ENTRIES} files", 413)
                path = _path(member.name)
                if member.isfile():
                    total += member.size
                    if member.size < 0 or total > LARGEST_COPY:
                        raise UploadError(
                            f"its files have more than {LARGEST_COPY >> 20} MiB together; add what "
                            "the job does not need to .gitignore",
                            413,
                        )
                    _write_file(archive, member, into / path)
                elif member.isdir():
                    (into / path).mkdir(mode=0o700, parents=True, exist_ok=True)
                elif member.issym():
                    links.append((path, member.linkname))
                else:
                    kind = "a hard link" if member.islnk() else "a device or something like it"
                    raise UploadError(f"{member.name[:200]!r} is {kind}")
        # Its padding is read, too, so that the client is not cut off while it sends it.
        while pipe.read(_COPY):
            pass
        for path, target in links:
            _link(into, path, target)
    except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno and not isinstance(error, FileExistsError):
            raise UploadError(f"it cannot be stored: {error.strerror}", 507) from None
        raise UploadError(f"it is no whole tar archive: {error}") from None


def _path(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not name or len(name) > _LONGEST_NAME:
        raise UploadError(f"the path {name[:200]!r} leaves the folder, or is too long")
    return path


def _write_file(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = 0o700 if member.mode & 0o100 else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file = os.open(path, flags, mode)
    except FileExistsError:
        raise UploadError(f"{member.name[:200]!r} is in it twice") from None
    source = archive.extractfile(member)
    assert source is not None
    with open(file, "wb") as target:
        left = member.size
        while left and (piece := source.read(min(left, _COPY))):
            target.write(piece)
            left -= len(piece)
    if left:
        raise EOFError("it ends within a file")


def _link(into: Path, path: PurePosixPath, target: str) -> None:
    """Make a link that leads to something in the folder, whatever other links there are.

    Steps upwards come first in its target, and not more of them than its own folder is deep, which
    is no link: so it leads into the folder, and what it goes through there leads into it as well.
    """
    parts = PurePosixPath(target).parts
    ups = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
    folder = into / path.parent
    deep = len(path.parent.parts)
    if PurePosixPath(target).is_absolute() or ".." in parts[ups:] or ups > deep or "\0" in target:
        raise UploadError(f"the link {str(path)[:200]!r} leaves the folder: {target[:200]!r}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.path.realpath(folder) != os.path.join(os.path.realpath(into), *path.parent.parts):
        raise UploadError(f"the link {str(path)[:200]!r} is in a folder that is a link")
    try:
        os.symlink(target, into / path)
    except FileExistsError:
        raise UploadError(f"{str(path)[:200]!r} is in it twice") from None
