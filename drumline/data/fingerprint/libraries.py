"""Which code belongs to libraries, which is known by its name."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

_INSTALLED = {"site-packages", "dist-packages"}


def is_library(module: str | None) -> bool:
    """Whether a module is Python's own, an installed package's or drumline's."""
    root = (module or "").partition(".")[0]
    if root in sys.stdlib_module_names or root == "drumline":
        return root != "__main__"
    file = getattr(sys.modules.get(root), "__file__", None)
    return file is not None and not _INSTALLED.isdisjoint(pathlib.PurePath(file).parts)


def qualified_name(value: Any) -> str:
    """The module and name of a function or class."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    return f"{getattr(value, '__module__', None)}.{name}"
