"""Files by patterns."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._local_path import has_scheme
from drumline.data.files.remote import file_system


def as_paths(given: Any, operation: str) -> list[str]:
    """A path, or a list or array of paths, as a list of strings.

    Raises:
        TypeError: something else is given.
    """
    if isinstance(given, str | bytes | os.PathLike):
        return [os.fsdecode(given)]
    items: Sequence[Any] = given.reshape(-1).tolist() if isinstance(given, np.ndarray) else given
    if isinstance(items, list | tuple):
        if all(isinstance(item, str | bytes | os.PathLike) for item in items):
            return [os.fsdecode(item) for item in items]
    raise TypeError(
        f"{operation}: expected a path, a list of paths or a Dataset of paths, got {given!r:.80}"
    )


def matching(patterns: Sequence[str]) -> list[str]:
    """The files that match one of the patterns, sorted; as often as patterns match them.

    ``*``, ``?`` and ``[...]`` stand for what they do in a shell, but hidden files match too;
    ``**`` is ``*``.

    Raises:
        FileNotFoundError: there are none.
    """
    found = [path for pattern in patterns for path in _matching(pattern)]
    if not found:
        raise FileNotFoundError(f"list_files: no files matched pattern: {', '.join(patterns)}")
    return sorted(found)


def _matching(pattern: str) -> list[str]:
    if not has_scheme(pattern):
        return glob.glob(pattern, include_hidden=True)
    system, inner = file_system(pattern)
    return [system.unstrip_protocol(path) for path in system.glob(inner)]
