"""`DownloadManager`: what a builder gets its files from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from drumline.datasets.sources.archives import extract, iter_archive
from drumline.datasets.sources.download import DownloadError, fetch, sha256_of
from drumline.datasets.sources.progress import ProgressBars
from drumline.datasets.sources.resource import Resource

_AT_ONCE = 8


class DownloadManager:
    """Downloads and extracts files, as ``tfds.download.DownloadManager``.

    What was downloaded before is used again, by all processes and datasets.

    Args:
        download_dir: for what is downloaded and extracted.
        manual_dir: with files that cannot be downloaded.
        name: of the dataset, for errors.
        resources: sizes and checksums by URL.
        instructions: how to get the files of `manual_dir`.
    """

    def __init__(
        self,
        download_dir: Path,
        manual_dir: Path,
        name: str,
        resources: Mapping[str, Resource] | None = None,
        instructions: str | None = None,
    ) -> None:
        self.download_dir = download_dir.expanduser()
        self._manual_dir = manual_dir.expanduser()
        self._name, self._resources = name, dict(resources or {})
        self._instructions = instructions
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

        Raises:
            FileNotFoundError: none is there; the message says how to get it.
        """
        for name in names:
            path = self.manual_dir / name
            if path.exists():
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
        with ThreadPoolExecutor(_AT_ONCE, "drumline-download") as pool:
            running = [
                pool.submit(fetch, resource, path, self.progress)
                for resource, path in wanted.items()
            ]
            for each in running:
                each.result()
        self.downloaded_size += sum(path.stat().st_size for path in set(wanted.values()))
        return paths

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
        size = path.stat().st_size
        if resource.size is not None and size != resource.size:
            raise DownloadError(
                f"{path}: it has {size:,} bytes, and {resource.size:,} are expected of "
                f"{resource.url}: remove it, or put the whole file there"
            )
        if resource.sha256 is not None and sha256_of(path) != resource.sha256:
            raise DownloadError(
                f"{path}: its SHA-256 is not that of {resource.url}, {resource.sha256}: remove it"
            )

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
