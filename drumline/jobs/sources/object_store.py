"""Data of object stores (s3, gs, oss, hf, ...), by fsspec, in a cache that jobs share.

Each state of a store is a folder of its own, named by what the store lists: a job that runs keeps
the files it began with, whatever changes. It is made beside its place and renamed, under a lock, so
that of jobs that want the same one fetches it. Files that are the same in another state are linked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from drumline.jobs.sources.data import DataError

_AT_ONCE = 8
_TRIES = 3
_PARTIAL = ".partial"

# What stores call the identity of an object's content, the best first.
_TAGS = ["ETag", "etag", "md5Hash", "blob_id", "oid", "generation", "version_id", "checksum"]
_TAGS += ["LastModified", "last_modified", "mtime", "updated", "modified", "created"]


@dataclasses.dataclass(frozen=True)
class StoredObject:
    """An object beneath an address.

    Attributes:
        name: its path from there.
        key: what the store calls it.
        size: in bytes, if the store says it.
        tag: changes with its content; empty if the store has nothing of that kind.
    """

    name: str
    key: str
    size: int | None
    tag: str


def cache_folder() -> Path:
    """Where fetched data are kept: ``drumline/stores`` in the user's cache directory."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "drumline" / "stores"


@contextlib.contextmanager
def naming_store(url: str) -> Iterator[None]:
    """Make of whatever a store's package raises an error that names the address."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # Each package has exceptions of its own.
        said = " ".join(str(error).split())[:500]
        raise DataError(f"{url}: {said or type(error).__name__}") from error


def list_objects(url: str, missing_is_empty: bool = False) -> tuple[Any, list[StoredObject]]:
    """The file system of an address, and what is beneath it, sorted.

    Args:
        url: the address of one object, or of a folder of them.
        missing_is_empty: whether there may be nothing.

    Raises:
        DataError: the store cannot be reached, or has nothing there.
    """
    from drumline.data.storage.files.remote import file_system

    with naming_store(url):
        system, root = file_system(url)
        system.invalidate_cache()
        try:
            listed: dict[str, Any] = system.find(root, detail=True)
        except FileNotFoundError:
            if not missing_is_empty:
                raise
            listed = {}
        found = [
            _object(url, root, key, details)
            for key, details in listed.items()
            if details.get("type") != "directory" and not key.endswith("/")
        ]
    if not found and not missing_is_empty:
        raise DataError(f"{url} is empty or does not exist")
    return system, sorted(found, key=lambda each: each.name)


def _object(url: str, root: str, key: str, details: dict[str, Any]) -> StoredObject:
    top = root.rstrip("/")
    inside = key[len(top) :].removeprefix("/") if key.startswith(f"{top}/") or not top else ""
    name = inside or PurePosixPath(key).name
    if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name:
        raise DataError(f"{url} has an object whose name is no path of a file: {key!r}")
    tag = next((str(details[each]) for each in _TAGS if details.get(each) is not None), "")
    size = details.get("size")
    return StoredObject(name, key, size if isinstance(size, int) else None, tag)


def fetch_all(
    system: Any, url: str, objects: Sequence[StoredObject], into: Path, known: Path | None = None
) -> int:
    """Put objects into a new folder, and return how many bytes were fetched.

    Args:
        system: the file system.
        url: its address, for errors.
        objects: what to fetch.
        into: the folder, which must not exist.
        known: the folder of another state, with its listing beside it.

    Raises:
        DataError: one cannot be had, or is not what was listed.
    """
    from concurrent.futures import ThreadPoolExecutor

    from drumline.data.storage.files.remote import asked_again, remote_reads

    same = _listed(known) if known else {}
    into.mkdir(parents=True)

    def fetch(each: StoredObject) -> int:
        target = into / each.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if known and each.tag and same.get(each.name) == [each.size, each.tag]:
            os.link(known / each.name, target)
            return 0
        asked_again(lambda: system.get_file(each.key, str(target)), each.key, remote_reads())
        size = target.stat().st_size
        if each.size is not None and size != each.size:
            raise DataError(f"{url}: {each.name} has changed while it was fetched")
        return size

    with naming_store(url), ThreadPoolExecutor(_AT_ONCE) as pool:
        return sum(pool.map(fetch, objects))


def fetch_cached(url: str, cache: Path, say: Callable[[str], None] = lambda text: None) -> Path:
    """The folder in the cache with what an address holds now, fetched if it is not there.

    Args:
        url: the address.
        cache: where all are kept.
        say: is given what was done, in a sentence.

    Raises:
        DataError: it cannot be had.
    """
    place = cache / hashlib.sha256(url.encode()).hexdigest()[:16]
    place.mkdir(parents=True, exist_ok=True)
    with _locked(place / "lock", lambda: say(f"{url}: waits for another job that fetches it")):
        for attempt in range(1, _TRIES + 1):
            system, objects = list_objects(url)
            folder = place / _identity(objects)
            if folder.is_dir():
                say(f"{url}: {len(objects)} files, in the cache")
                return folder
            for each in place.glob(f"*{_PARTIAL}"):
                shutil.rmtree(each)
            began = time.monotonic()
            partial = place / f"{folder.name}{_PARTIAL}"
            try:
                newest = max(_versions(place), key=lambda each: each.stat().st_mtime, default=None)
                fetched = fetch_all(system, url, objects, partial, newest)
            except DataError as error:
                shutil.rmtree(partial, ignore_errors=True)
                if "has changed" in str(error) and attempt < _TRIES:
                    continue
                raise
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
            for path in partial.rglob("*"):
                if path.is_file():
                    path.chmod(0o444)
            listing = {each.name: [each.size, each.tag] for each in objects}
            _listing(folder).write_text(json.dumps(listing))
            partial.rename(folder)
            _remove_others(place, folder)
            seconds = time.monotonic() - began
            say(
                f"{url}: {len(objects)} files, {fetched / 2**20:.1f} MiB fetched in {seconds:.1f} s"
            )
            return folder
    raise AssertionError("the last attempt returns or raises")


def hold(folder: Path) -> int | None:
    """A descriptor that keeps a state in the cache, or None if it was removed already."""
    file = os.open(_lock_of(folder), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_SH)
    if folder.is_dir():
        return file
    os.close(file)
    return None


def _identity(objects: Sequence[StoredObject]) -> str:
    if not all(each.tag for each in objects):
        return secrets.token_hex(8)  # A change could not be seen: it is fetched for each start.
    text = json.dumps([[each.name, each.size, each.tag] for each in objects])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _versions(place: Path) -> list[Path]:
    return [each for each in place.iterdir() if each.is_dir() and each.suffix != _PARTIAL]


def _listing(folder: Path) -> Path:
    return folder.with_suffix(".json")


def _lock_of(folder: Path) -> Path:
    return folder.with_suffix(".lock")


def _listed(folder: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(_listing(folder).read_text())
        return found if isinstance(found, dict) else {}
    return {}


def _remove_others(place: Path, kept: Path) -> None:
    """Remove the states that no job holds."""
    for folder in _versions(place):
        if folder == kept:
            continue
        file = os.open(_lock_of(folder), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(folder)
            _listing(folder).unlink(missing_ok=True)
            _lock_of(folder).unlink(missing_ok=True)
        finally:
            os.close(file)


@contextlib.contextmanager
def _locked(path: Path, waits: Callable[[], None]) -> Iterator[None]:
    """Hold a lock that the kernel gives back however this process ends."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
