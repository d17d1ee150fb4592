"""The cache of compiled programs: where it is, how large it may become, and its use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from drumline import _settings
from drumline._changes import forget, note
from drumline._lazy import jax, jax_is_loaded
from drumline._local_path import has_scheme
from drumline.config.program_files import ProgramFiles

DEFAULT_MAX_BYTES = 4 << 30
DEFAULT_MAX_AGE_DAYS = 30.0
_DAY_SECONDS = 86_400.0
_LEAST_BYTES = 1 << 20
_JAX_DIRECTORY = "jax_compilation_cache_dir"
_JAX_SECONDS = "jax_persistent_cache_min_compile_time_secs"
_NOTED = f"jax.config.{_JAX_DIRECTORY} and {_JAX_SECONDS}"


class CompilationCacheInfo(NamedTuple):
    """What `compilation_cache_info` tells.

    Attributes:
        path: the directory or URL; None where no programs are kept.
        max_bytes: how much its entries may take; None where JAX alone looks after it.
        max_age_days: how long an entry stays that no process uses; None likewise.
        hits: how many programs of this process came from it; 0 where JAX alone looks after it.
        misses: how many were not there, or not whole; 0 likewise.
    """

    path: str | None
    max_bytes: float | None
    max_age_days: float | None
    hits: int
    misses: int


class _Chosen(NamedTuple):
    path: str
    max_bytes: float
    max_age_days: float


_chosen: _Chosen | None = None
_applied: _Chosen | None = None
_files: ProgramFiles | None = None
_before: dict[str, object] = {}
"""What JAX's settings were before the first choice, and are again after `False`."""


def compilation_cache(
    path: str | os.PathLike[str] | bool | None = None,
    *,
    max_bytes: float | None = None,
    max_age_days: float | None = None,
) -> CompilationCacheInfo:
    """Keep the programs that JAX compiles from now on in a directory, for later processes.

    A program is found again when it is compiled from the same computation by the same release of
    JAX, with the same flags, for the same hardware (on CPUs: for the same instructions and as many
    threads); it then gives the same bits. Any number of processes may use a directory at once. What
    is damaged is compiled again, and where a directory cannot be read or written, the program runs
    as without one, with one warning of the logger ``drumline``.

    ``drumline launch`` does this for the processes that it starts, by the environment variable
    ``DRUMLINE_COMPILATION_CACHE``, unless ``JAX_COMPILATION_CACHE_DIR`` or ``jax.config`` names a
    directory: that one is then JAX's to look after. Before JAX 0.12, programs with Python callbacks
    are not kept.
    The programs are run as they are: only you should be able to write to the directory.

    Args:
        path: the directory; None for that of ``JAX_COMPILATION_CACHE_DIR`` or
            ``DRUMLINE_COMPILATION_CACHE``, or else ``drumline/compilation`` in ``$XDG_CACHE_HOME``
            or ``~/.cache``; False to keep no programs from now on. A URL (``gs://...``) is left to
            JAX, which needs ``etils`` for it, and is never pruned.
        max_bytes: how much the entries may take, at least 1 MiB; by default 4 GiB, and ``math.inf``
            for no limit. Those that were used longest ago are removed, when others are written.
        max_age_days: how long an entry stays that no process uses; by default 30 days.

    Returns:
        What holds now, as `compilation_cache_info`.

    Raises:
        ValueError: if a limit is too small, or is given for a URL or with ``False``.

    Example:
        >>> import tempfile
        >>> info = dl.config.compilation_cache(tempfile.mkdtemp(), max_bytes=1 << 30)
        >>> info.max_bytes, info.hits
        (1073741824, 0)
        >>> dl.config.compilation_cache(False).max_bytes is None
        True
    """
    limits = {"max_bytes": max_bytes, "max_age_days": max_age_days}
    given = [name for name, value in limits.items() if value is not None]
    if path is False:
        if given:
            raise ValueError(
                f"{' and '.join(given)} given for no cache (path=False): leave them out."
            )
        _use(None)
        return compilation_cache_info()
    where = _directory() if path is None or path is True else os.fspath(path)
    if has_scheme(where):
        if given:
            raise ValueError(
                f"{' and '.join(given)} given for {where!r}, which drumline does not prune: let "
                "the storage remove what is old, or name a local directory."
            )
    else:
        where = os.path.abspath(os.path.expanduser(where))
    if max_bytes is not None and not max_bytes >= _LEAST_BYTES:
        raise ValueError(f"max_bytes must be at least {_LEAST_BYTES} (1 MiB), got {max_bytes!r}.")
    if max_age_days is not None and not max_age_days > 0:
        raise ValueError(f"max_age_days must be positive, got {max_age_days!r}.")
    _use(
        _Chosen(
            where,
            DEFAULT_MAX_BYTES if max_bytes is None else max_bytes,
            DEFAULT_MAX_AGE_DAYS if max_age_days is None else max_age_days,
        )
    )
    return compilation_cache_info()


def compilation_cache_info() -> CompilationCacheInfo:
    """Tell where compiled programs are kept, and how many of this process's were found there.

    Example:
        >>> dl.config.compilation_cache_info().hits
        0
    """
    if _chosen is None:
        path = getattr(jax.config, _JAX_DIRECTORY) if jax_is_loaded() else None
        return CompilationCacheInfo(path, None, None, 0, 0)
    if has_scheme(_chosen.path):
        return CompilationCacheInfo(_chosen.path, None, None, 0, 0)
    counts = (0, 0) if _files is None else (_files.hits, _files.misses)
    return CompilationCacheInfo(*_chosen, *counts)


def jax_is_imported() -> None:
    """Do what a program chose before JAX was imported, or else what the environment asks for.

    ``DRUMLINE_COMPILATION_CACHE`` is a directory, a URL, ``1`` for the default directory, or ``0``
    for none. A directory that is JAX's setting already, by its variable or by the program, wins.
    """
    if _chosen is not None:
        if _applied != _chosen:
            _apply()
        return
    value = os.environ.get(_settings.CACHE_VARIABLE, "").strip()
    if value in ("", "0") or getattr(jax.config, _JAX_DIRECTORY):
        return
    compilation_cache(None if value == "1" else value)


def _directory() -> str:
    """The directory that the environment names, or that of the user."""
    for name in (_JAX_DIRECTORY.upper(), _settings.CACHE_VARIABLE):
        value = os.environ.get(name, "").strip()
        if value not in ("", "0", "1"):
            return value
    return _settings.cache_directory()


def _use(chosen: _Chosen | None) -> None:
    """Set what was chosen; worker processes of pipelines do the same."""
    global _chosen
    was, _chosen = _chosen, chosen
    _settings.note_choice(_use, chosen)
    if jax_is_loaded() and (chosen is not None or was is not None):
        _apply()


def _apply() -> None:
    global _applied, _files
    from drumline.config import jax_internals

    _applied = _chosen
    if _chosen is None:
        _files = None
        for name, value in _before.items():
            jax.config.update(name, value)
        _before.clear()
        jax_internals.keep_programs(None)
        forget("JAX", _NOTED)
        return
    _files = None
    if not has_scheme(_chosen.path):
        _files = ProgramFiles(
            Path(_chosen.path), _chosen.max_bytes, _chosen.max_age_days * _DAY_SECONDS
        )
    _set(_JAX_DIRECTORY, _chosen.path)
    if _JAX_SECONDS.upper() not in os.environ:
        _set(_JAX_SECONDS, 0.0)
    jax_internals.keep_programs(_files)
    note(
        "JAX",
        _NOTED,
        "compiled programs are kept for later processes, also those that were quick to compile",
        f"{_settings.CACHE_VARIABLE} unset, dl.config.compilation_cache(False)",
    )


def _set(name: str, value: object) -> None:
    _before.setdefault(name, getattr(jax.config, name))
    jax.config.update(name, value)
