"""Downloading a file: resumed after what broke it off, checked, and shared by processes."""

from __future__ import annotations

import contextlib
import email.utils
import fcntl
import hashlib
import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import IO, Any

from drumline.data.storage.store.disk_errors import naming
from drumline.datasets.sources.progress import ProgressBars, ProgressTask
from drumline.datasets.sources.resource import Resource

_CHUNK = 1 << 20
_TIMEOUT = 60.0
_ATTEMPTS = 6
_LONGEST_WAIT = 30.0
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_LOST = (http.client.HTTPException, urllib.error.URLError, ConnectionError, TimeoutError)
_PAGES = (b"<!doctype html", b"<html", b"<head", b"<!doctype xhtml")


class DownloadError(OSError):
    """A file could not be downloaded, or is not the one that was expected."""


class _BrokenOffError(Exception):
    """The connection ended early: what follows is asked for again."""


def fetch(
    resource: Resource,
    path: Path,
    progress: ProgressBars,
    first_wait: float = 1.0,
    stopped: threading.Event | None = None,
) -> None:
    """Download a file to a path, unless it is there; what is there is whole.

    A part that an earlier attempt, or process, left is continued if the server says that the file
    is the same. Of processes that want the same file one downloads it.

    Args:
        resource: what to download.
        path: where to.
        progress: for a bar.
        first_wait: seconds before the second attempt; it doubles for each later one.
        stopped: is set when the file is not wanted any more.

    Raises:
        CancelledError: that happened; what was downloaded is kept.
        DownloadError: the server refuses, breaks off again and again, gives a page of HTML, or the
            file has another size or checksum; the message says which and what to do.
        OSError: the disk is full, or the file cannot be written.
    """
    if path.exists():
        return
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        if path.exists():  # another process was quicker
            return
        with progress.task(resource.filename, resource.size) as task:
            _Download(resource, path, task, stopped or threading.Event()).run(first_wait)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = path.with_name(f".{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class _Download:
    """One file on its way."""

    def __init__(
        self, resource: Resource, path: Path, task: ProgressTask, stopped: threading.Event
    ) -> None:
        self._resource, self._path, self._task = resource, path, task
        self._stopped = stopped
        self._part = path.with_name(path.name + ".part")
        self._state = path.with_name(path.name + ".part.json")

    def run(self, wait: float) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            if self._stopped.is_set():
                raise CancelledError(f"{self._resource.url}: the download was stopped")
            before = self._held()
            try:
                self._attempt()
                break
            except _BrokenOffError as error:
                if attempt == _ATTEMPTS:
                    raise self._error(
                        f"{error}, {_ATTEMPTS} times; {self._held():,} bytes are kept, and the "
                        "next attempt continues behind them"
                    ) from None
                moved = self._held() > before
                self._stopped.wait(min(getattr(error, "wait", None) or wait, _LONGEST_WAIT))
                wait = wait if moved else wait * 2
        self._check()
        with naming(self._path):
            with self._part.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(self._part, self._path)
        self._state.unlink(missing_ok=True)

    def _held(self) -> int:
        try:
            return self._part.stat().st_size
        except FileNotFoundError:
            return 0

    def _validator(self) -> str | None:
        """Return what the server called the file of which a part is held."""
        try:
            known = json.loads(self._state.read_text())
        except (OSError, ValueError):
            return None
        same = isinstance(known, dict) and known.get("url") == self._resource.url
        value = known.get("validator") if same else None
        return value if isinstance(value, str) else None

    def _attempt(self) -> None:
        held, validator = self._held(), self._validator()
        if held and validator is None:
            held = 0
        request = urllib.request.Request(self._resource.url, headers={"User-Agent": "drumline"})
        if held:
            assert validator is not None
            request.add_header("Range", f"bytes={held}-")
            request.add_header("If-Range", validator)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
                self._read(response, held)
        except urllib.error.HTTPError as error:
            self._refused(error, held)
        except (
            http.client.HTTPException,
            urllib.error.URLError,
            ConnectionError,
            TimeoutError,
        ) as error:
            reason = getattr(error, "reason", None) or error
            raise _BrokenOffError(
                f"the connection failed ({reason or type(error).__name__})"
            ) from None

    def _refused(self, error: urllib.error.HTTPError, held: int) -> None:
        with error:
            if error.code == 416 and held:  # nothing follows what is held, or it is another file
                if held != self._resource.size:
                    self._part.unlink(missing_ok=True)
                    raise _BrokenOffError("the server has another file now")
                return
            if error.code in _AGAIN:
                broken = _BrokenOffError(f"the server answered {error.code} {error.reason}")
                broken.wait = _seconds(error.headers.get("Retry-After"))  # type: ignore[attr-defined]
                raise broken
            hint = {
                401: "it wants a password",
                403: "it refuses",
                404: "there is no such file (any more)",
                407: "the proxy wants a password",
            }.get(error.code, "it refuses")
            raise self._error(f"the server answered {error.code} {error.reason}: {hint}") from None

    def _read(self, response: Any, held: int) -> None:
        if held and response.status != 206:
            held = 0
        headers = response.headers
        if held and not (headers.get("Content-Range") or "").startswith(f"bytes {held}-"):
            self._part.unlink(missing_ok=True)
            raise _BrokenOffError("the server sent another part than was asked for")
        length = headers.get("Content-Length")
        total = held + int(length) if length and length.isdigit() else None
        if total is not None and self._resource.size not in (None, total):
            self._look_at_page(response.read(_CHUNK), headers)
            raise self._error(
                f"the file has {total:,} bytes, and {self._resource.size:,} are expected: it has "
                "changed, or something else is given in its place"
            )
        if not held:
            self._remember(headers)
        with naming(self._part), self._part.open("ab" if held else "wb") as file:
            self._copy(response, file, held, total)

    def _remember(self, headers: Any) -> None:
        etag, modified = headers.get("ETag"), headers.get("Last-Modified")
        strong = etag if etag and not etag.startswith("W/") else None
        known = {"url": self._resource.url, "validator": strong or modified}
        with naming(self._state):
            self._state.write_text(json.dumps(known))

    def _copy(self, response: Any, file: IO[bytes], held: int, total: int | None) -> None:
        self._task.set(held, total or self._resource.size)
        done = held
        while True:
            try:
                chunk = response.read1(_CHUNK)
            except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
                raise _BrokenOffError(f"the connection broke off ({error})") from None
            if self._stopped.is_set():
                raise CancelledError(f"{self._resource.url}: the download was stopped")
            if not chunk:
                break
            if not done:
                self._look_at_page(chunk, response.headers)
            done += len(chunk)
            file.write(chunk)
            self._task.advance(len(chunk))
            if self._resource.size is not None and done > self._resource.size:
                file.flush()
                self._part.unlink(missing_ok=True)
                raise self._error(f"the server sends more than {self._resource.size:,} bytes")
        if total is not None and done < total:
            file.flush()
            raise _BrokenOffError(f"the connection broke off after {done:,} of {total:,} bytes")

    def _look_at_page(self, start: bytes, headers: Any) -> None:
        """Raise if a page for people is given in place of a file."""
        if self._resource.filename.lower().endswith((".html", ".htm", ".xhtml")):
            return
        beginning = start[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
        if beginning.startswith(_PAGES):
            shown = " ".join(start[:300].decode("utf-8", "replace").split())[:160]
            raise self._error(
                "a page of HTML is given in place of the file, as proxies and sites that want a "
                f"login do; it begins: {shown!r}"
            )

    def _check(self) -> None:
        size, expected = self._held(), self._resource.size
        if expected is not None and size != expected:
            self._part.unlink(missing_ok=True)
            raise self._error(f"it has {size:,} bytes, and {expected:,} are expected")
        if self._resource.sha256 is None:
            return
        found = sha256_of(self._part)
        if found != self._resource.sha256:
            self._part.unlink(missing_ok=True)
            self._state.unlink(missing_ok=True)
            raise self._error(
                f"its SHA-256 is {found}, and {self._resource.sha256} is expected: the file was "
                "damaged on its way, has changed, or is another one. It is deleted; try again"
            )

    def _error(self, fault: str) -> DownloadError:
        return DownloadError(
            f"{self._resource.url}: {fault}. A file from another place can be put at {self._path}"
        )


def _seconds(value: str | None) -> float | None:
    """Return the seconds that a header ``Retry-After`` asks to wait."""
    if not value:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def sha256_of(path: Path, advance: Callable[[int], None] = lambda count: None) -> str:
    """Return the SHA-256 of a file in hexadecimal digits.

    Args:
        path: of the file.
        advance: is called with how many further bytes were hashed.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            advance(len(chunk))
    return digest.hexdigest()
