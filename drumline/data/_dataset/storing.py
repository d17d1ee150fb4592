"""Writes a dataset's elements into a directory and finds them again; pickles datasets.

A pickled dataset holds its plan with the functions in it.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drumline.data._dataset.functions import with_shards
from drumline.data.elements.spec import ElementSpec, flatten
from drumline.data.engine.iterator import digest_of
from drumline.data.engine.saving import (
    ResumableSave,
    SaveCheckpoints,
    checked_arguments,
    store_elements,
    writable_directory,
)
from drumline.data.operations.cache import Cache, CacheStore, Snapshot
from drumline.data.options import Options, check_on_host
from drumline.data.plan.node import Node
from drumline.data.rewrite.fingerprint import fingerprint_of
from drumline.data.storage.saved import (
    FileStore,
    SnapshotStore,
    StoredShards,
    elements_writer,
    read_shards,
    reader,
    same_elements,
)
from drumline.data.storage.store.columns import checked_compression, spec_to_json
from drumline.data.storage.store.directory import is_empty, is_stored
from drumline.data.workers.remote.packing import PickledObject, packed

Path = str | bytes | os.PathLike[str]

_RETRY_SECONDS = 1.0


def save(
    plan: Node,
    options: Options,
    path: Path,
    compression: str | None,
    shard_func: Callable[..., Any] | None,
    checkpoint_args: Mapping[str, Any] | None,
) -> None:
    """Write the elements of one epoch into a directory; see `Dataset.save`."""
    check_on_host(plan, "save")
    packing = checked_compression(compression, "save")
    place = writable_directory(path, "save")
    if place.exists() and not (is_stored(place) or is_empty(place)):
        raise FileExistsError(
            f"save: {str(place)!r} exists and is no stored dataset; give a path where nothing "
            "is, or an empty directory"
        )
    if place.is_symlink():
        place = place.resolve()  # What it leads to is replaced, not the link.
    sharded, spec = shard_func is not None, plan.spec
    if shard_func is not None:
        plan = with_shards(plan, shard_func, "save")
    if checkpoint_args is None:
        store_elements(plan, options, elements_writer(place, spec, packing, sharded))
    else:
        checkpoints = SaveCheckpoints(checked_arguments(checkpoint_args))
        ResumableSave(plan, options, place, checkpoints).store(spec, packing, sharded)


def load(
    path: Path, element_spec: Any, compression: str | None, wait: bool
) -> tuple[Sequence[Node], ElementSpec]:
    """Return a plan for each shard that `save` wrote, and the spec of their elements.

    Raises:
        FileNotFoundError: if nothing is stored there.
        ValueError: if it is damaged, or has other elements or another compression than said.
    """
    place = writable_directory(path, "load")
    while wait and not is_stored(place):
        time.sleep(_RETRY_SECONDS)
    found = read_shards(place)
    spec = _checked(found, element_spec, compression)
    return found.plans(spec), spec


def snapshot(
    plan: Node,
    path: Path,
    compression: str | None,
    reader_func: Callable[[Any], Any] | None,
    shard_func: Callable[..., Any] | None,
) -> Snapshot:
    """Return the operation that writes elements while they are used; see `Dataset.snapshot`."""
    packing = checked_compression(compression, "snapshot")
    place = writable_directory(path, "snapshot")
    spec = plan.spec
    spec_to_json(spec)
    sharded = shard_func is not None
    if shard_func is not None:
        plan = with_shards(plan, shard_func, "snapshot")
    store = SnapshotStore(place, fingerprint_of(plan), spec, packing, sharded)
    read = None if reader_func is None else reader(reader_func, "snapshot", spec)
    where = repr(str(place))
    return Snapshot((plan,), store, where, element=spec, sharded=sharded, reader=read)


def cache(plan: Node, filename: Path) -> Cache:
    """Return the operation that retains elements in memory, or in a directory.

    Raises:
        TypeError: if elements hold what no file keeps.
    """
    if not filename:
        return Cache((plan,), CacheStore())
    spec_to_json(plan.spec)
    path = writable_directory(filename, "cache")
    store = FileStore(path, plan.spec, digest_of(plan))
    return Cache((plan,), store, repr(str(path)))


def _checked(found: StoredShards, element_spec: Any, compression: str | None) -> ElementSpec:
    """The spec of what was stored, as the user gives it if so."""
    where = repr(str(found.path))
    if compression is not None:
        expected = checked_compression(compression, "load")
        if expected != found.compression:
            raise ValueError(
                f"load: {where} was saved with compression {found.compression!r}, not "
                f"{compression!r}"
            )
    if element_spec is None:
        return found.spec
    leaves, structure = flatten(element_spec)
    spec = ElementSpec(structure, tuple(leaves))
    if not same_elements(spec, found.spec):
        raise ValueError(f"load: {where} holds elements of {found.spec.tree()}, not {element_spec}")
    return spec


_REFUSAL = (
    "the dataset cannot be pickled: {what} cannot be ({why}). Make it inside the function, or make "
    "the dataset in the process that reads it."
)


def reduced(
    make: Callable[..., Any], plan: Node, options: Options | None, epoch: int
) -> tuple[Any, ...]:
    """What ``__reduce__`` returns.

    Args:
        make: a class, called with plan and options.
        plan: the dataset's.
        options: those it was given.
        epoch: the number of its next epoch.

    Raises:
        TypeError: a part of it cannot be pickled; the message names the operation and the part.
    """
    return _restored, (make, packed((plan, options), plan, _REFUSAL), epoch, _version())


def _restored(
    make: Callable[..., Any], sent: PickledObject, epoch: int, version: str = "another version"
) -> Any:
    if version != _version():
        raise pickle.UnpicklingError(
            f"this dataset was pickled by drumline {version}, and this is drumline {_version()}: "
            "pickles of datasets hold within one version. Make the dataset by its program again. "
            "Saved datasets, snapshots, cache directories, states of iterators and checkpoints can "
            "be read by later versions."
        )
    plan, options = pickle.loads(sent.content, buffers=sent.buffers)
    dataset = make(plan, options)
    dataset._next_epoch = epoch
    return dataset


@functools.cache
def _version() -> str:
    try:
        return importlib.metadata.version("drumline")
    except importlib.metadata.PackageNotFoundError:
        return "from a folder that is not installed"
