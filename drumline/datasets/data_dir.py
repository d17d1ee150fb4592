"""Where the files of named datasets are looked for."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "DRUMLINE_DATA_DIR"


def default_data_dir() -> Path:
    """``$DRUMLINE_DATA_DIR``, else ``drumline/datasets`` in the user's cache directory.

    The cache directory is ``$XDG_CACHE_HOME``, else ``~/.cache`` (XDG Base Directory
    Specification).
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "drumline" / "datasets"


def resolve_data_dir(name: str, data_dir: str | os.PathLike[str] | None) -> Path:
    """The directory for the files of the dataset `name`.

    A directory `name` inside `data_dir` (or the default) is it, else a `data_dir` that was given
    is itself.
    """
    base = default_data_dir() if data_dir is None else Path(data_dir).expanduser()
    own = base / name
    return own if data_dir is None or own.is_dir() else base
