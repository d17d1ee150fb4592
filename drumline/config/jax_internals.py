"""What this room uses of JAX that is not public API (jax 0.8 to 0.12): how programs are kept.

JAX keeps compiled programs in a directory itself, but not so that processes could share it: a file
is written in place, so that others read half of it; what is damaged stays, and is complained of for
each program in each process; process 0 alone writes, though on CPUs the keys differ from process to
process; and removing what is old needs a lock that all readers take in turn. Its keys hold what a
program is made of, the versions, the flags and, on CPUs, the instructions that the processor has,
but not how many threads it was divided for, which is added here.
"""

from __future__ import annotations

import inspect
import os
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from drumline import _jax_start
from drumline._changes import forget, full_name, note
from drumline._jax_start import require, require_parameters, unsupported
from drumline.config.program_files import ProgramFiles

try:
    from jax._src import compilation_cache, compiler
    from jax._src.lru_cache import LRUCache
except ImportError as error:
    raise unsupported(str(error)) from error

require(compilation_cache, "get_file_cache", "put_executable_and_time", "reset_cache")
require(compilation_cache, "get_executable_and_time")
require(compiler, "_cache_read", "_cache_write")
require(LRUCache, "put")

_jax_read, _jax_write = compiler._cache_read, compiler._cache_write
_jax_file_cache = compilation_cache.get_file_cache

_files: ProgramFiles | None = None
_every_process_writes = False


def keep_programs(files: ProgramFiles | None) -> None:
    """Let JAX keep its programs in these files from now on, or, with None, as it did before."""
    global _files
    _files = files
    _replace_functions()
    compilation_cache.reset_cache()


def write_cache_from_every_process() -> None:
    """Let every process write JAX's own cache, too, atomically, and not process 0 alone.

    On CPUs the keys differ from process to process, so that what process 0 writes serves no other.
    """
    global _every_process_writes
    _every_process_writes = True
    _replace_functions()
    compilation_cache.reset_cache()


def _replace_functions() -> None:
    """Have JAX call the functions here where there is a reason to, and else its own."""
    changed = _files is not None or _every_process_writes
    for owner, name, ours, theirs in (
        (compiler, "_cache_read", _read, _jax_read),
        (compiler, "_cache_write", _write, _jax_write),
        (compilation_cache, "get_file_cache", _file_cache, _jax_file_cache),
    ):
        setattr(owner, name, ours if changed else theirs)
        if changed:
            note(
                "JAX",
                full_name(owner, name),
                "processes share a cache of compiled programs, and each writes what it compiled",
                "no DRUMLINE_COMPILATION_CACHE, no dl.config.compilation_cache, and one process",
            )
        else:
            forget("JAX", full_name(owner, name))


def _file_cache(path: str) -> tuple[Any, str] | None:
    if _files is not None and path == str(_files.path):
        return _files, path
    if not _every_process_writes:
        kept: tuple[Any, str] | None = _jax_file_cache(path)
        return kept
    max_size: int = jax.config.values["jax_compilation_cache_max_size"]
    return _AtomicCache(path, max_size=max_size), path


def _is_ours() -> bool:
    return _files is not None and jax.config.values["jax_compilation_cache_dir"] == str(_files.path)


def _read(
    module_name: str,
    cache_key: str,
    compile_options: Any,
    backend: Any,
    executable_devices: Any,
    host_callbacks: Sequence[Any] = (),  # given from jax 0.12 on
) -> tuple[Any, int | None]:
    callbacks = [host_callbacks] if _READS_WITH_CALLBACKS else []
    if _files is None or not _is_ours():
        read: tuple[Any, int | None] = _jax_read(
            module_name, cache_key, compile_options, backend, executable_devices, *callbacks
        )
        return read
    key = cache_key + _threads(backend)
    try:
        found: tuple[Any, int | None] = compilation_cache.get_executable_and_time(
            key, compile_options, backend, executable_devices, *callbacks
        )
    except Exception as error:  # whatever decompressing and XLA's loading raise
        _files.failed(key)
        _files.discard(key, f"{type(error).__name__}: {error}")
        return None, None
    return found


def _write(
    cache_key: str,
    compile_time_secs: float,
    module_name: str,
    backend: Any,
    executable: Any,
    host_callbacks: Sequence[Any] = (),  # given until jax 0.10
) -> None:
    ours = _is_ours()
    if not ours and not _every_process_writes:
        arguments = (cache_key, compile_time_secs, module_name, backend, executable)
        _jax_write(*arguments, *([host_callbacks] if _WRITES_WITH_CALLBACKS else []))
        return
    if host_callbacks:
        return
    if compile_time_secs < jax.config.values["jax_persistent_cache_min_compile_time_secs"]:
        return
    key = cache_key + (_threads(backend) if ours else "")
    try:
        compilation_cache.put_executable_and_time(
            key, module_name, executable, backend, int(compile_time_secs)
        )
    except Exception as error:
        if jax.config.values["jax_raise_persistent_cache_errors"]:
            raise
        warnings.warn(
            f"The compilation cache could not take {module_name!r}: {error}", stacklevel=2
        )


def _threads(backend: Any) -> str:
    """How many threads a CPU's program was divided for: XLA does it when it compiles."""
    if backend.platform != "cpu":
        return ""
    processors = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    return f"-{processors}-{os.environ.get('NPROC')}-{_jax_start.threads_of(backend)}"


class _AtomicCache(LRUCache):
    """JAX's cache of files, of which no process ever reads half an entry."""

    def put(self, key: str, value: bytes) -> None:
        if self.eviction_enabled or "://" in str(self.path):
            super().put(key, value)  # a lock file guards these, or the store is atomic itself
            return
        entry = Path(str(self.path)) / f"{key}-cache"
        if entry.exists():
            return
        with tempfile.NamedTemporaryFile(dir=entry.parent, prefix=".part-", delete=False) as part:
            part.write(value)
        os.replace(part.name, entry)


def _without_defaults(function: Any) -> list[str]:
    taken = inspect.signature(function).parameters.items()
    return [name for name, parameter in taken if parameter.default is parameter.empty]


_READS_WITH_CALLBACKS = "host_callbacks" in inspect.signature(_jax_read).parameters
_WRITES_WITH_CALLBACKS = "host_callbacks" in inspect.signature(_jax_write).parameters
for _theirs, _ours in ((_jax_read, _read), (_jax_write, _write), (_jax_file_cache, _file_cache)):
    require_parameters(_theirs, *_without_defaults(_ours))
    if _unknown := set(inspect.signature(_theirs).parameters) - set(
        inspect.signature(_ours).parameters
    ):
        raise unsupported(f"{_theirs.__qualname__} without the parameters {sorted(_unknown)}")
