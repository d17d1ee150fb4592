"""Loading a dataset by name: ``load("mnist", split="train[:80%]")``, and the registry of names."""

from __future__ import annotations

import importlib
import os
import pkgutil
from typing import Any, Literal, TypeVar, overload

from drumline.data import Dataset
from drumline.data.elements.errors import did_you_mean
from drumline.datasets import builders
from drumline.datasets.builder import DatasetBuilder, DatasetInfo

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


@overload
def load(
    name: str,
    *,
    split: str,
    data_dir: str | os.PathLike[str] | None = ...,
    as_supervised: bool = ...,
    with_info: Literal[False] = ...,
) -> Dataset: ...


@overload
def load(
    name: str,
    *,
    split: str,
    data_dir: str | os.PathLike[str] | None = ...,
    as_supervised: bool = ...,
    with_info: Literal[True],
) -> tuple[Dataset, DatasetInfo]: ...


@overload
def load(
    name: str,
    *,
    split: Any = ...,
    data_dir: str | os.PathLike[str] | None = ...,
    as_supervised: bool = ...,
    with_info: bool = ...,
) -> Any: ...


def load(
    name: str,
    *,
    split: Any = None,
    data_dir: str | os.PathLike[str] | None = None,
    as_supervised: bool = False,
    with_info: bool = False,
) -> Any:
    """The named dataset, as ``tfds.load``. Nothing is downloaded.

    Args:
        name: one of `list_builders`.
        split: a split expression such as ``"train"``, ``"train[:80%]"``, ``"train[10:20]"``,
            ``"train[:10%]+test[-5:]"`` or ``"all"``; or a list, tuple or dict of them, which
            gives as many datasets in the same structure. ``None`` gives a dict with every split.
            Boundaries are rows or percent, as in Python slices; percents are rounded to the
            closest row.
        data_dir: the directory with the dataset's files, or one that holds a directory of the
            dataset's name. By default ``$DRUMLINE_DATA_DIR/<name>``, else
            ``~/.cache/drumline/datasets/<name>``.
        as_supervised: yield pairs ``(input, target)`` instead of dicts of all features.
        with_info: return a pair of the result and the `DatasetInfo`.

    Returns:
        A ``drumline.data.Dataset`` in the dataset's fixed order, or a structure of them.

    Raises:
        ValueError: the dataset or a split does not exist, or a split expression is malformed.
        FileNotFoundError: the dataset's files are not there; the message says which and where
            to put them.
    """
    found = builder(name, data_dir)
    result = found.as_dataset(split, as_supervised)
    return (result, found.info) if with_info else result
