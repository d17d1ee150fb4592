"""Paths of the local file system, as opposed to URLs.

``pathlib`` and ``os.path`` take ``gs://bucket/x`` for a relative path and make a directory ``gs:``
of it. What can only write locally therefore asks here first, and has the disk keep it.
"""

from __future__ import annotations

import os
import re
import urllib.parse

_SCHEME = re.compile(r"(?:.*::)?([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")
"""``gs:/bucket``, which is what pathlib makes of ``gs://bucket``; one letter may be a drive."""


def has_scheme(path: str | bytes | os.PathLike[str]) -> bool:
    """Whether the path is a URL (``gs://``, ``memory://``, ...); others are local paths.

    Raises:
        ValueError: it is a URL that ``pathlib`` has shortened to one slash.
    """
    text = os.fsdecode(path)
    if "://" in text:
        return True
    shortened = _SCHEME.match(text)
    if shortened and _is_protocol(shortened[1]):
        raise ValueError(
            f"{text!r} is a URL that lost a slash: pathlib.Path and os.path.normpath take URLs for "
            f"relative paths. Give the string {shortened[1]}://..."
        )
    return False


def local_path(path: str | bytes | os.PathLike[str], operation: str, what: str = "it") -> str:
    """The path as a string; ``file://`` URLs become paths.

    Args:
        path: as given by a user.
        operation: what needs it, for the error.
        what: the thing that has to be local, for the error.

    Raises:
        ValueError: it is a URL of another file system.
    """
    text = os.fsdecode(path)
    try:
        if not has_scheme(text):
            return text
    except ValueError:
        text = text.replace(":/", "://", 1)
    parts = urllib.parse.urlsplit(text)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return urllib.parse.unquote(parts.path)
    raise ValueError(
        f"{operation}: {text!r} is a URL, and {what} can only be on a local file system. Give a "
        "local path (a bucket may be mounted, with gcsfuse or s3fs), or copy the files yourself"
    )


def _is_protocol(scheme: str) -> bool:
    from fsspec.registry import available_protocols

    return scheme in available_protocols()


def sync(path: str | os.PathLike[str]) -> None:
    """Have the disk keep a file's bytes, or a directory's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
