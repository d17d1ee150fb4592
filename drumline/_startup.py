"""What drumline does to Keras and JAX, done when they are imported, in whatever order.

``import drumline`` imports neither, which a program that reads and batches arrays does not need. A
finder at the front of ``sys.meta_path`` sees when they are imported, and does what drumline does to
them before the statement that imports them is over, so that no program uses them without. Where
they were imported before drumline it is done at once. Within imports of drumline's own packages,
which import them in turn, it is done when the outermost of these is over.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from drumline import _settings
from drumline._changes import note
from drumline.failure_record import STACKS_SIGNAL

_PACKAGE = "drumline."
_MARK = "DRUMLINE_LAUNCH_ID"


class _Thread(threading.local):
    """What a thread is importing.

    Attributes:
        depth: how many of the imports that are watched are under way.
        searching: the module that the other finders are being asked for.
        waiting: modules that were imported, and to which nothing has been done yet.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.searching: str | None = None
        self.waiting: set[str] = set()


_thread = _Thread()


def start() -> None:
    """Watch for JAX and Keras from now on, and do at once what is due to those that are there.

    Raises:
        ImportError: if Keras runs on another backend than JAX, or one of them lacks what drumline
            builds on.
    """
    from drumline import _backend

    if not any(isinstance(finder, _Watcher) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watcher())
        note(
            "process",
            "sys.meta_path[0]: a finder of drumline's",
            "it sees when Keras and JAX are imported, to make the changes that are listed here",
            "no setting; it finds nothing itself",
        )
    _backend.select_keras_backend()
    if _MARK in os.environ:
        faulthandler.register(STACKS_SIGNAL, file=2, all_threads=True)
        note(
            "process",
            f"signal {STACKS_SIGNAL}: writes the stacks of all threads to stderr",
            "the launcher asks for them when the job hangs",
            "no setting; it is done where drumline launch has started the process",
        )
    for name in _DUE:
        module = sys.modules.get(name)
        if module is not None and not _is_initializing(module):
            _thread.waiting.add(name)
    _do_what_is_due()


def _is_initializing(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _jax_is_imported() -> None:
    from drumline import _backend, _jax_start  # noqa: F401 - refuses a version that is unknown

    _backend.keep_cpu_platform()
    if _settings.large_buffers:
        from drumline import _large_buffers

        _large_buffers.reuse()
    if _settings.cpu_kernels:
        from drumline import cpu_kernels

        cpu_kernels.install(_settings.cpu_kernels)
    if _settings.CACHE_VARIABLE in os.environ or "drumline.config.cache" in sys.modules:
        from drumline.config import cache

        cache.jax_is_imported()


def _keras_is_imported() -> None:
    from drumline import _backend

    _backend.require_jax_backend()
    from drumline.keras import hooks

    hooks.install()


_DUE: dict[str, Callable[[], None]] = {"jax": _jax_is_imported, "keras": _keras_is_imported}


def _do_what_is_due() -> None:
    """Run them in order; what becomes due by the imports of one runs after it."""
    while due := [name for name in _DUE if name in _thread.waiting]:
        _thread.waiting.discard(due[0])
        _thread.depth += 1
        try:
            _DUE[due[0]]()
        finally:
            _thread.depth -= 1


class _Watcher:  # `importlib.abc`, with its base class, would take long to import.
    """Finds nothing itself: what the other finders find, it has executed under watch."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        own = fullname.startswith(_PACKAGE) and fullname.count(".") == 1
        if not own and fullname not in _DUE:
            return None
        if _thread.searching == fullname:
            return None
        before, _thread.searching = _thread.searching, fullname
        try:
            spec = _found(fullname, path, target)
        finally:
            _thread.searching = before
        if spec is not None and spec.loader is not None:
            _watch(spec.loader, fullname)
        return spec


def _found(
    fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = None if find is None else find(fullname, path, target)
        if spec is not None:
            return spec
    return None


def _watch(loader: Any, fullname: str) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        vars(loader).pop("exec_module", None)
        _thread.depth += 1
        try:
            if fullname == "keras":
                from drumline import _backend

                with _backend.importing_keras():
                    execute(module)
            else:
                execute(module)
        finally:
            _thread.depth -= 1
        if fullname in _DUE:
            _thread.waiting.add(fullname)
        if _thread.depth == 0:
            _do_what_is_due()

    # On this loader alone, which stays what it is for all that ask it for source or resources.
    loader.exec_module = exec_module
