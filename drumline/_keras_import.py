"""Importing Keras without what two of its packages load.

Where they are installed, ``import keras`` imports matplotlib.pyplot for `keras.visualization` and
scikit-learn for `keras.wrappers`: a third of what ``import drumline`` took, in every process of a
job, for what few programs use. These packages are loaded when something is first asked of them,
by the standard library's own `importlib.util.LazyLoader`, and are then what they always are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

_WHEN_USED = frozenset({"keras.src.visualization", "keras.visualization", "keras.wrappers"})


def import_keras() -> None:
    """Import Keras, unless that has happened, and leave those of its packages for later."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        import keras  # noqa: F401
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds the packages that wait, as the usual finder does, and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _WHEN_USED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec
