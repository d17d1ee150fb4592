"""`Resource`: a file of the network, with what it must be."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.resources
import posixpath
import re
import urllib.parse

_UNSAFE = re.compile(r"[^\w.\-]+")
_LONGEST_NAME = 80


@dataclasses.dataclass(frozen=True)
class Resource:
    """A file that is downloaded.

    Attributes:
        url: where it is: http or https.
        size: how many bytes it has, if that is known.
        sha256: its SHA-256 in hexadecimal digits, if that is known.
        name: what to call it; the last part of the path unless given.
    """

    url: str
    size: int | None = None
    sha256: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        scheme = urllib.parse.urlsplit(self.url).scheme
        if scheme not in ("http", "https"):
            raise ValueError(f"Resource: a URL begins with http:// or https://, got {self.url!r}")

    @property
    def filename(self) -> str:
        """The file's name, of letters, digits and ``.-_``."""
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.url).path)
        name = self.name or posixpath.basename(path.rstrip("/")) or "file"
        return _UNSAFE.sub("_", name)[-_LONGEST_NAME:].lstrip(".") or "file"

    @property
    def cached_name(self) -> str:
        """The name of the file among all downloads: no two URLs have the same."""
        digest = hashlib.sha256(self.url.encode()).hexdigest()[:16]
        return f"{digest}-{self.filename}"


def listed(dataset: str) -> dict[str, Resource]:
    """The files of a dataset that is made here, by name, from ``downloads.tsv``.

    Their URLs, sizes and checksums are those that TensorFlow Datasets records, where it has them;
    `docs/data/named_datasets.md` says whose the others are.
    """
    return dict(_all_listed().get(dataset, {}))


@functools.cache
def _all_listed() -> dict[str, dict[str, Resource]]:
    found: dict[str, dict[str, Resource]] = {}
    text = importlib.resources.files(__package__).joinpath("downloads.tsv").read_text("utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        dataset, name, url, size, digest, file = (*line.split("\t"), "", "", "")[:6]
        found.setdefault(dataset, {})[name] = Resource(
            url, int(size) if size else None, digest or None, file or None
        )
    return found
