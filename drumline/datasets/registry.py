"""Finding a dataset's builder by name."""

from __future__ import annotations

import importlib
import os
import pkgutil
from typing import TypeVar

from drumline.data.closest import did_you_mean
from drumline.datasets import builders
from drumline.datasets.builder import DatasetBuilder

_Builder = TypeVar("_Builder", bound=type[DatasetBuilder])

_registered: dict[str, type[DatasetBuilder]] = {}


def register(builder_class: _Builder) -> _Builder:
    """Make a `DatasetBuilder` subclass known by its `name`; a class decorator.

    Raises:
        ValueError: another class has the name already.
        TypeError: it is no subclass of `DatasetBuilder`, or has no `name`.
    """
    if not (isinstance(builder_class, type) and issubclass(builder_class, DatasetBuilder)):
        raise TypeError(f"register takes a subclass of DatasetBuilder, got {builder_class!r}")
    name = getattr(builder_class, "name", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{builder_class.__name__} needs a class attribute `name`, got {name!r}")
    known = _registered.get(name)
    if known is not None and known.__qualname__ != builder_class.__qualname__:
        raise ValueError(f"The dataset name {name!r} is taken by {known.__qualname__}.")
    if known is None and name in _included() and builder_class.__module__ != _module(name):
        raise ValueError(f"The dataset name {name!r} is taken by one that comes with drumline.")
    _registered[name] = builder_class
    return builder_class


def list_builders() -> list[str]:
    """The names of all datasets `load` knows, sorted."""
    return sorted({*_included(), *_registered})


def builder(name: str, data_dir: str | os.PathLike[str] | None = None) -> DatasetBuilder:
    """The builder of the dataset `name`.

    Args:
        name: one of `list_builders`.
        data_dir: see `load`.

    Raises:
        ValueError: there is no such dataset; the message lists those there are.
    """
    if name not in _registered and name in _included():
        importlib.import_module(_module(name))
    if name not in _registered:
        hint = did_you_mean(str(name), list_builders())
        raise ValueError(
            f"Unknown dataset {name!r}. {hint}There are: {', '.join(list_builders())}."
        )
    return _registered[name](data_dir)


def _included() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(builders.__path__)]


def _module(name: str) -> str:
    return f"{builders.__name__}.{name}"
