"""Files behind a scheme (``gs://``, ``memory://``, ...), by fsspec."""

from __future__ import annotations

from typing import Any


def file_system(path: str) -> tuple[Any, str]:
    """The file system of a path with a scheme, and the path in it.

    Raises:
        ImportError: the package that fsspec needs for the scheme is not installed.
        ValueError: there is no such scheme.
    """
    from fsspec.core import url_to_fs

    system, inner = url_to_fs(path)
    return system, inner
