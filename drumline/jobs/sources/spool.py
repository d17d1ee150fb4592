"""What a job writes to an object store: a folder of this machine first, uploaded from there.

The folder stays with the job, and with it what is uploaded already, so that whatever kills the job,
or the upload itself, another one continues: in the job's next start, or by the supervisor.

What was in the store before is never removed from it. A file that the job itself has written, and
has removed again, is.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from drumline.jobs.sources.object_store import fetch_all, list_objects, naming_store

_QUIET_SECONDS = 2.0
"""A file that was changed since is being written still, unless the job has ended."""

_WRITTEN_EVERY = 20

Stamp = list[int]


class Spool:
    """The folder of one address that a job writes to.

    Args:
        folder: for `files`, which the job sees, and what is known of them.

    Attributes:
        folder: as given.
        files: what the job sees and writes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = folder / "files"

    @property
    def url(self) -> str:
        """The address; empty before `prepare`."""
        return str(self._state().get("url", ""))

    def prepare(self, url: str, say: Callable[[str], None] = lambda text: None) -> Path:
        """Make `files` with what the store holds, or upload what an earlier start has left.

        Raises:
            DataError: the store cannot be reached.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.files.is_dir() and self.url == url:
            if count := self.upload(final=True):
                say(f"{url}: {count} files of the start before are uploaded")
            return self.files
        with self._locked():
            fresh = self.folder / "files.new"
            shutil.rmtree(fresh, ignore_errors=True)
            system, objects = list_objects(url, missing_is_empty=True)
            fetched = fetch_all(system, url, objects, fresh)
            base = dict(_scan(fresh))
            self._write({"url": url, "base": base, "uploaded": {}})
            fresh.rename(self.files)
        say(f"{url}: {len(objects)} files, {fetched / 2**20:.1f} MiB fetched to be written beside")
        return self.files

    def pending(self) -> bool:
        """Whether the job has changed anything that is not uploaded."""
        state = self._state()
        if not state or not self.files.is_dir():
            return False
        found = dict(_scan(self.files))
        uploaded, base = state["uploaded"], state["base"]
        return any(uploaded.get(name, base.get(name)) != found[name] for name in found) or any(
            name not in found for name in uploaded
        )

    def upload(self, final: bool) -> int:
        """Upload what has changed, the oldest first, and return how many files that was.

        Args:
            final: whether files count as written whose last change is recent.

        Raises:
            DataError: the store refuses one; what was uploaded before it stays so.
        """
        from drumline.data.storage.files.remote import asked_again, file_system, remote_reads

        with self._locked():
            state = self._state()
            if not state or not self.files.is_dir():
                return 0
            url, base, uploaded = state["url"], state["base"], state["uploaded"]
            found = dict(_scan(self.files))
            changed = [n for n in found if uploaded.get(n, base.get(n)) != found[n]]
            # A file that says "all is written" comes after what it speaks of.
            changed.sort(key=lambda name: found[name][1])
            latest = time.time_ns() - int(_QUIET_SECONDS * 1e9)
            count = 0

            def done(name: str) -> None:
                nonlocal count
                count += 1
                # What is uploaded and not written down is uploaded once more, which harms none.
                if count % _WRITTEN_EVERY == 0:
                    self._write(state)

            try:
                with naming_store(url):
                    system, root = file_system(url)
                    for name in changed:
                        if not final and found[name][1] > latest:
                            continue
                        target, local = f"{root.rstrip('/')}/{name}", str(self.files / name)
                        system.makedirs(target.rpartition("/")[0], exist_ok=True)
                        try:
                            put = functools.partial(system.put_file, local, target)
                            asked_again(put, target, remote_reads())
                        except FileNotFoundError:
                            if not os.path.exists(local):  # The job has removed it meanwhile.
                                continue
                            raise
                        if _stamp(local) == found[name]:
                            uploaded[name] = found[name]
                            done(name)
                    for name in [name for name in uploaded if name not in found]:
                        with contextlib.suppress(FileNotFoundError):
                            system.rm_file(f"{root.rstrip('/')}/{name}")
                        del uploaded[name]
                        base.pop(name, None)
                        done(name)
            finally:
                self._write(state)
            return count

    def _state(self) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            found = json.loads((self.folder / "state.json").read_text())
            return found if isinstance(found, dict) else {}
        return {}

    def _write(self, state: dict[str, Any]) -> None:
        partial = self.folder / "state.new"
        with open(partial, "w") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.folder / "state.json")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        file = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


def spools(job_folder: Path) -> list[Spool]:
    """Those of a job, of all its starts and machines."""
    return [Spool(path.parent) for path in sorted(job_folder.glob("data/*/state.json"))]


def spool_folder(job_folder: Path, entry: int) -> Path:
    """The folder for an entry of ``data``; on each node of a cluster another."""
    return job_folder / "data" / f"{entry}-{os.environ.get('SLURMD_NODENAME', '0')}"


def spools_of(job_folder: Path, entry: int) -> list[Spool]:
    """Those of an entry of ``data``, of all machines."""
    return [each for each in spools(job_folder) if each.folder.name.startswith(f"{entry}-")]


def expected_uploads(home: Path) -> Path:
    """The folder with a file for each job of a workspace that writes to an object store."""
    return home / "uploads"


def expect_upload(home: Path, job_folder: Path) -> None:
    """Note, before it is started, that a job will leave something to upload, and where."""
    marks = expected_uploads(home)
    marks.mkdir(exist_ok=True, mode=0o700)
    mark = marks / job_folder.name
    mark.with_suffix(".new").write_text(str(job_folder))
    mark.with_suffix(".new").replace(mark)


def _scan(folder: Path) -> Iterator[tuple[str, Stamp]]:
    """Files and their sizes and times; a link to a file counts as that file."""
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if os.path.isfile(path):
                with contextlib.suppress(FileNotFoundError):
                    yield os.path.relpath(path, folder), _stamp(path)


def _stamp(path: str) -> Stamp:
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(path)
        # The last time changes even where the first is set by hand.
        return [found.st_size, found.st_mtime_ns, found.st_ctime_ns]
    return []
