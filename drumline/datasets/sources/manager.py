"""`DownloadManager`: what a builder gets its files from."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

from drumline.datasets.sources.archives import extract, iter_archive
from drumline.datasets.sources.download import DownloadError, fetch, sha256_of
from drumline.datasets.sources.progress import ProgressBars
from drumline.datasets.sources.resource import Resource

_AT_ONCE = 8
_PATIENCE = 1.0
"""Seconds for a thread to notice that it is to stop."""


class DownloadManager:
    """Downloads and extracts files, as ``tfds.download.DownloadManager``.

    What was downloaded before is used again, by all processes and datasets.

    Args:
        download_dir: for what is downloaded and extracted.
        manual_dir: with files that cannot be downloaded.
        name: of the dataset, for errors.
        resources: sizes and checksums by URL.
        instructions: how to get the files of `manual_dir`.
        manual: sizes and checksums of these, where they are known.
    """

    def __init__(
        self,
        download_dir: Path,
        manual_dir: Path,
        name: str,
        resources: Mapping[str, Resource] | None = None,
        instructions: str | None = None,
        manual: Iterable[Resource] = (),
    ) -> None:
        self.download_dir = download_dir.expanduser()
        self._manual_dir = manual_dir.expanduser()
        self._name, self._resources = name, dict(resources or {})
        self._instructions = instructions
        self._manual = {resource.filename: resource for resource in manual}
        self.progress = ProgressBars()
        self.downloaded_size = 0

    @property
    def manual_dir(self) -> Path:
        """The directory with files that cannot be downloaded.

        Raises:
            FileNotFoundError: there is none; the message says how to get them.
        """
        if not self._manual_dir.is_dir():
            raise FileNotFoundError(self._how(f"{self._manual_dir} is not there"))
        return self._manual_dir

    def manual_file(self, *names: str) -> Path:
        """Return the path of a file that cannot be downloaded, of the first name that is there.

        Its size and SHA-256 are checked if they are known.

        Raises:
            FileNotFoundError: none is there; the message says how to get it.
            DownloadError: it is another file.
        """
        for name in names:
            path = self.manual_dir / name
            if path.exists():
                resource = self._manual.get(name)
                if resource is not None and path.is_file():
                    self._check(path, resource)
                return path
        raise FileNotFoundError(self._how(f"{' or '.join(names)} is not in {self._manual_dir}"))

    def manual_files(self, pattern: str) -> list[Path]:
        """Return the files that were put there by hand and whose names match, sorted; none if none.

        Args:
            pattern: of names in the directory, as ``"c4/en/*.json.gz"``.
        """
        return sorted(self._manual_dir.glob(pattern))

    def _how(self, fault: str) -> str:
        how = (self._instructions or "").strip() or "put the files there"
        return (
            f"{self._name} needs files that cannot be downloaded, and {fault}. {how} (another "
            "directory is given as manual_dir)"
        )

    def download(self, url_or_urls: Any) -> Any:
        """Download files, several at once.

        Args:
            url_or_urls: a URL or `Resource`, or lists and dictionaries of them.

        Returns:
            The paths, in the same structure.

        Raises:
            DownloadError: a file cannot be downloaded, or is another one.
            OSError: it cannot be written.
        """
        wanted: dict[Resource, Path] = {}

        def place(each: Any) -> Path:
            resource = each if isinstance(each, Resource) else self._resource(str(each))
            return wanted.setdefault(resource, self._path_of(resource))

        paths = _mapped(place, url_or_urls)
        self._fetch_all(wanted)
        self.downloaded_size += sum(path.stat().st_size for path in set(wanted.values()))
        return paths

    def _fetch_all(self, wanted: Mapping[Resource, Path]) -> None:
        """Download files in threads; after an error, or Ctrl-C, all of them stop.

        They are daemons, so that nothing waits for a server that sends nothing.
        """
        waiting: deque[tuple[Future[None], Resource, Path]] = deque()
        waiting.extend((Future(), resource, path) for resource, path in wanted.items())
        results = [future for future, *_ in waiting]
        stopped = threading.Event()

        def run() -> None:
            while not stopped.is_set():
                try:
                    future, resource, path = waiting.popleft()
                except IndexError:
                    return
                try:
                    fetch(resource, path, self.progress, stopped=stopped)
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(None)

        threads = [
            threading.Thread(target=run, name=f"drumline-download-{i}", daemon=True)
            for i in range(min(_AT_ONCE, len(wanted)))
        ]
        for thread in threads:
            thread.start()
        try:
            for each in results:
                each.result()
        finally:
            stopped.set()
            for thread in threads:
                thread.join(_PATIENCE)

    def _resource(self, url: str) -> Resource:
        return self._resources.get(url) or Resource(url)

    def _path_of(self, resource: Resource) -> Path:
        """Return where a file is, or will be: one that was put there by its own name is taken."""
        own = self.download_dir / resource.filename
        if own.is_file() and not (self.download_dir / resource.cached_name).exists():
            self._check(own, resource)
            return own
        return self.download_dir / resource.cached_name

    def _check(self, path: Path, resource: Resource) -> None:
        """Raise if a file that was put there by hand is another one.

        What its SHA-256 is stands in a file beside it, with size and time of what was hashed.
        """
        size = path.stat().st_size
        if resource.size is not None and size != resource.size:
            raise DownloadError(
                f"{path}: it has {size:,} bytes, and {resource.size:,} are expected of "
                f"{resource.url}: remove it, or put the whole file there"
            )
        if resource.sha256 is not None and self._sha256_of(path) != resource.sha256:
            raise DownloadError(
                f"{path}: its SHA-256 is not that of {resource.url}, {resource.sha256}: remove it"
            )

    def _sha256_of(self, path: Path) -> str:
        found = path.stat()
        seen = {"size": found.st_size, "mtime_ns": found.st_mtime_ns}
        record = path.with_name(f".{path.name}.sha256.json")
        with contextlib.suppress(OSError, ValueError, TypeError):
            known = json.loads(record.read_text())
            if {name: known[name] for name in seen} == seen:
                return str(known["sha256"])
        with self.progress.task(f"checking {path.name}", found.st_size) as task:
            digest = sha256_of(path, task.advance)
        # Where nothing can be written, as on a shared disk, it is hashed again the next time.
        with contextlib.suppress(OSError):
            written = record.with_name(f"{record.name}.{os.getpid()}")
            written.write_text(json.dumps({**seen, "sha256": digest}))
            written.replace(record)
        return digest

    def extract(self, path_or_paths: Any) -> Any:
        """Extract archives, and return the paths of their directories, in the same structure.

        Raises:
            ArchiveError: an archive is damaged, or would write outside of its directory.
            OSError: the disk is full.
        """

        def directory(each: Any) -> Path:
            path = Path(each)
            return extract(path, self.download_dir / "extracted" / path.name)

        return _mapped(directory, path_or_paths)

    def download_and_extract(self, url_or_urls: Any) -> Any:
        """Download archives, and return the paths of their extracted directories."""
        return self.extract(self.download(url_or_urls))

    def iter_archive(self, path: str | os.PathLike[str]) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield name and contents of the files in an archive, without extracting it."""
        return iter_archive(path)


def _mapped(function: Callable[[Any], Any], nested: Any) -> Any:
    if isinstance(nested, Mapping):
        return {key: _mapped(function, each) for key, each in nested.items()}
    if isinstance(nested, list | tuple):
        return type(nested)([_mapped(function, each) for each in nested])
    return function(nested)
