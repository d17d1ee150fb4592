"""Loading a dataset by name: ``load("mnist", split="train[:80%]")``, and the registry of names."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, overload

from drumline.data import Dataset
from drumline.data.elements.errors import did_you_mean
from drumline.datasets import builders
from drumline.datasets.builder import DatasetBuilder
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.builder import PreparedBuilder
from drumline.datasets.prepared.directories import DatasetName, find_prepared, places_to_look
from drumline.datasets.prepared.reading import ReadConfig

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
    if not builder_class.__module__.startswith(f"{builders.__name__}."):
        _import_included()
    known = _registered.get(name)
    if known is not None and known.__qualname__ != builder_class.__qualname__:
        raise ValueError(f"The dataset name {name!r} is taken by {known.__qualname__}.")
    _registered[name] = builder_class
    return builder_class


def _import_included() -> None:
    for module in pkgutil.iter_modules(builders.__path__):
        importlib.import_module(f"{builders.__name__}.{module.name}")


def list_builders() -> list[str]:
    """The names of all datasets `load` can make, sorted; others are read if they are prepared."""
    _import_included()
    return sorted(_registered)


def builder_class(name: str) -> type[DatasetBuilder] | None:
    """Return the class of a name; ``None`` if there is none."""
    if name not in _registered:
        _import_included()
    return _registered.get(name)


def builder(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    config: str | None = None,
    version: str | None = None,
    try_gcs: bool = False,
) -> DatasetBuilder:
    """The builder of the dataset `name`, as ``tfds.builder``.

    Args:
        name: ``"name"``, ``"name/config"`` or ``"name/config:1.0.0"``: one of `list_builders`, or
            that of a dataset that is prepared in `data_dir`.
        data_dir: see `load`.
        config: the configuration, if the name says none.
        version: the version, if the name says none; ``"1.*.*"`` for the newest of that kind.
        try_gcs: must be false: prepared files of Google's are not looked for.

    Raises:
        ValueError: there is no such dataset; the message lists those there are.
        NotImplementedError: `try_gcs` is true.
    """
    if try_gcs:
        raise NotImplementedError(
            "try_gcs: prepared files in Google's bucket are not looked for; give "
            "data_dir='gs://tfds-data/datasets' to read them (with the package gcsfs)"
        )
    wanted = _name_of(name, config, version)
    found = builder_class(wanted.name)
    if found is not None:
        own = getattr(found, "open_named", None)
        if own is not None:
            made: DatasetBuilder = own(wanted, data_dir)
            return made
    places = places_to_look(data_dir)
    folder = find_prepared(wanted, places)
    if folder is not None:
        return PreparedBuilder(folder)
    if found is not None:
        if wanted.config is not None:
            raise ValueError(f"{wanted.name} has no configuration {wanted.config!r}: leave it out")
        return found(data_dir)
    hint = did_you_mean(wanted.name, list_builders())
    raise ValueError(
        f"Unknown dataset {wanted.name!r}. {hint}There are: {', '.join(list_builders())}. Prepared "
        f"datasets of other names are looked for in {', '.join(places)}, where there is none of "
        "this one."
    )


def _name_of(name: str, config: Any, version: Any) -> DatasetName:
    wanted = DatasetName.parse(name)
    given = {"config": getattr(config, "name", config), "version": version}
    for key, value in given.items():
        if value is None:
            continue
        said = getattr(wanted, key)
        if said is not None and said != str(value):
            raise ValueError(f"{name!r} says the {key} {said}, and {key}={value!r} another")
    return DatasetName(
        wanted.name,
        wanted.config or (None if given["config"] is None else str(given["config"])),
        wanted.version or (None if version is None else str(version)),
    )


@overload
def load(
    name: str,
    *,
    split: str,
    data_dir: str | os.PathLike[str] | None = ...,
    batch_size: None = ...,
    shuffle_files: bool = ...,
    download: bool = ...,
    as_supervised: bool = ...,
    decoders: Any = ...,
    read_config: ReadConfig | None = ...,
    with_info: Literal[False] = ...,
    builder_kwargs: Mapping[str, Any] | None = ...,
    download_and_prepare_kwargs: Mapping[str, Any] | None = ...,
    as_dataset_kwargs: Mapping[str, Any] | None = ...,
    try_gcs: bool = ...,
) -> Dataset: ...


@overload
def load(
    name: str,
    *,
    split: str,
    data_dir: str | os.PathLike[str] | None = ...,
    batch_size: None = ...,
    shuffle_files: bool = ...,
    download: bool = ...,
    as_supervised: bool = ...,
    decoders: Any = ...,
    read_config: ReadConfig | None = ...,
    with_info: Literal[True],
    builder_kwargs: Mapping[str, Any] | None = ...,
    download_and_prepare_kwargs: Mapping[str, Any] | None = ...,
    as_dataset_kwargs: Mapping[str, Any] | None = ...,
    try_gcs: bool = ...,
) -> tuple[Dataset, DatasetInfo]: ...


@overload
def load(
    name: str,
    *,
    split: Any = ...,
    data_dir: str | os.PathLike[str] | None = ...,
    batch_size: int | None = ...,
    shuffle_files: bool = ...,
    download: bool = ...,
    as_supervised: bool = ...,
    decoders: Any = ...,
    read_config: ReadConfig | None = ...,
    with_info: bool = ...,
    builder_kwargs: Mapping[str, Any] | None = ...,
    download_and_prepare_kwargs: Mapping[str, Any] | None = ...,
    as_dataset_kwargs: Mapping[str, Any] | None = ...,
    try_gcs: bool = ...,
) -> Any: ...


def load(
    name: str,
    *,
    split: Any = None,
    data_dir: str | os.PathLike[str] | None = None,
    batch_size: int | None = None,
    shuffle_files: bool = False,
    download: bool = True,
    as_supervised: bool = False,
    decoders: Any = None,
    read_config: ReadConfig | None = None,
    with_info: bool = False,
    builder_kwargs: Mapping[str, Any] | None = None,
    download_and_prepare_kwargs: Mapping[str, Any] | None = None,
    as_dataset_kwargs: Mapping[str, Any] | None = None,
    try_gcs: bool = False,
) -> Any:
    """The named dataset, as ``tfds.load``.

    A dataset that is prepared in `data_dir`, by TensorFlow Datasets or by drumline, is read as it
    is, whatever its name. One of `list_builders` that is not is downloaded and prepared first.

    Args:
        name: ``"name"``, ``"name/config"`` or ``"name/config:1.0.0"``.
        split: a split expression such as ``"train"``, ``"train[:80%]"``, ``"train[10:20]"``,
            ``"train[:10%]+test[-5:]"``, ``"train[:4shard]"`` or ``"all"``, a `ReadInstruction`, or
            a part of `even_splits`; or a list, tuple or dict of them, which gives as many datasets
            in the same structure. ``None`` gives a dict with every split. Boundaries are rows,
            percent or files, as in Python slices; percents are rounded to the closest row.
        data_dir: the directory with prepared datasets, or with the dataset's own files. By default
            ``$DRUMLINE_DATA_DIR``, else ``~/.cache/drumline/datasets``; datasets that are prepared
            already are also found in ``$TFDS_DATA_DIR`` and ``~/tensorflow_datasets``.
        batch_size: of batches; -1 gives all of a split as arrays.
        shuffle_files: whether files are read in a random order.
        download: whether what is missing is downloaded and prepared.
        as_supervised: yield pairs ``(input, target)`` instead of dicts of all features; nothing
            else is decoded.
        decoders: what is decoded otherwise: `SkipDecoding`, `PartialDecoding`, `make_decoder`, by
            the names of features.
        read_config: how files are read.
        with_info: return a pair of the result and the `DatasetInfo`.
        builder_kwargs: more arguments of `builder`.
        download_and_prepare_kwargs: arguments of ``download_and_prepare`` of the builder.
        as_dataset_kwargs: more arguments of ``as_dataset`` of the builder.
        try_gcs: must be false.

    Returns:
        A ``drumline.data.Dataset`` in the dataset's fixed order, or a structure of them.

    Raises:
        ValueError: the dataset or a split does not exist, or a split expression is malformed.
        FileNotFoundError: files are not there; the message says which and where to put them.
        PreparedDataError: prepared files are damaged.
        NotImplementedError: an argument asks for what is not done.

    Example:
        >>> train, info = dl.datasets.load(
        ...     "digits", split="train[:80%]", as_supervised=True, with_info=True
        ... )
        >>> info.features["label"].num_classes, len(train)
        (10, 1154)
    """
    found = builder(name, data_dir=data_dir, try_gcs=try_gcs, **(builder_kwargs or {}))
    if download:
        found.download_and_prepare(**(download_and_prepare_kwargs or {}))
    given: dict[str, Any] = {
        "split": split,
        "batch_size": batch_size,
        "shuffle_files": shuffle_files,
        "decoders": decoders,
        "read_config": read_config,
        "as_supervised": as_supervised,
        **(as_dataset_kwargs or {}),
    }
    result = found.as_dataset(**given)
    return (result, found.info) if with_info else result
