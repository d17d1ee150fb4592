"""The start of a process that runs Python functions of datasets.

It leaves JAX to functions that use it: loading it would take longer than most have to do.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

_PACKAGE = "drumline.data"


def main() -> None:
    """Serves the process that started this one."""
    _load_when_used()
    from drumline.data.workers.processes.worker import main as serve

    serve()


def _load_when_used() -> None:
    """Has ``drumline.data`` run its ``__init__`` when somebody asks for one of its names."""
    spec = importlib.util.find_spec(_PACKAGE)
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    loader = spec.loader

    def load(name: str) -> Any:
        if name.startswith("__"):  # asked of every package by the import system
            raise AttributeError(name)
        del vars(package)["__getattr__"]
        loader.exec_module(package)
        return getattr(package, name)

    vars(package)["__getattr__"] = load
    sys.modules[_PACKAGE] = _attached(package)


def _attached(package: ModuleType) -> ModuleType:
    import drumline

    vars(drumline)["data"] = package
    return package
