"""``import drumline.compat.tf as tf`` in place of ``import tensorflow as tf``.

All that is here is in one table, `drumline.compat.symbols`; a name is imported when it is first
used. For a name that is not there the error says why, and what to use.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from drumline.compat.symbols import table

__version__ = "2.21.0"


class Namespace(ModuleType):
    """A module of the look-alike, as ``tf.math``: its names are those of the table.

    Args:
        path: without ``tf.``, as ``"keras.layers"``.
    """

    def __init__(self, path: str):
        super().__init__(f"{__name__}.{path}", f"As ``tf.{path}`` of TensorFlow.")
        self.__path__: list[str] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its name: functions that are sent to other processes refer to it."""
        return importlib.import_module, (self.__name__,)

    def __getattr__(self, name: str) -> Any:
        found = _found(self.__name__.removeprefix(f"{__name__}."), name)
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        path = self.__name__.removeprefix(f"{__name__}.")
        fallback = _fallback(path)
        inherited = dir(fallback) if fallback is not None else []
        return sorted({*table.children(path), *inherited})


def _found(path: str, name: str) -> Any:
    """What a namespace has under a name: an entry's object, a namespace, or a fallback's."""
    full = f"{path}.{name}" if path else name
    if name.startswith("__") and full not in table.entries():
        raise AttributeError(f"module 'tf.{path}' has no attribute {name!r}")
    entry = table.find(full)
    if entry is not None:
        return entry.load()
    if _is_namespace(full):
        return importlib.import_module(f"{__name__}.{full}")
    fallback = _fallback(path)
    if fallback is not None and hasattr(fallback, name):
        from drumline.compat.keras.fallback import keras_attribute

        return keras_attribute(fallback, name)
    raise AttributeError(table.missing(full))


def _is_namespace(path: str) -> bool:
    return table.is_namespace(path) or isinstance(_fallback(path), ModuleType)


def _fallback(path: str) -> Any:
    """Keras's module of this path, which has all that the table has not; None outside of keras."""
    path = table.canonical(path)
    if path.partition(".")[0] != "keras":
        return None
    from drumline.compat.keras.fallback import keras_module

    return keras_module(path)


class _NamespaceFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the namespaces, so that ``from drumline.compat.tf.keras import layers`` works."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        prefix, _, name = fullname.partition(f"{__name__}.")
        if prefix or not name or name.rpartition(".")[2].startswith("__"):
            return None
        if not _is_namespace(name):
            # Without a name of its own the error would be passed over by ``from tf import name``.
            raise ModuleNotFoundError(table.missing(name), name=f"tf.{name}")
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Namespace(spec.name.removeprefix(f"{__name__}."))

    def exec_module(self, module: ModuleType) -> None:
        pass


sys.meta_path.append(_NamespaceFinder())


def __getattr__(name: str) -> Any:
    found = _found("", name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*table.children(""), "compat", "keras", "__version__"})
