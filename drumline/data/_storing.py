"""Methods that write elements into files and read them again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from drumline.data.fingerprint.plans import fingerprint_of
from drumline.data.methods.planned import Planned, named
from drumline.data.methods.sharding import with_shards
from drumline.data.plan.buffering import Snapshot
from drumline.data.spec import ElementSpec
from drumline.data.store.compression import checked_compression
from drumline.data.store.reading import by_turns, dataset_of, reader
from drumline.data.store.resumable_save import ResumableSave
from drumline.data.store.save_checkpoints import SaveCheckpoints, checked_arguments
from drumline.data.store.saving import local_path, store_elements
from drumline.data.store.shards import StoredShards, read_shards, same_elements
from drumline.data.store.snapshot_store import SnapshotStore
from drumline.data.store.specs import spec_to_json
from drumline.data.store.unfinished import is_empty, is_stored
from drumline.data.store.writing import elements_writer
from drumline.data.structure import flatten

_RETRY_SECONDS = 1.0


class Storing(Planned):
    """``save``, ``load`` and ``snapshot``."""

    def save(
        self,
        path: str | bytes | os.PathLike[str],
        compression: str | None = None,
        shard_func: Callable[..., Any] | None = None,
        checkpoint_args: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes the elements of one epoch into a directory, for `load`; what it held is replaced.

        Leaves are ``.npy`` files, in a directory for each shard if there are several. The
        directory appears when it is complete.

        Args:
            path: a local one.
            compression: ``"GZIP"``, ``"SNAPPY"`` or ``None``. What is compressed is read in order
                only.
            shard_func: takes an element, returns the number of the shard to write it to, from 0 on;
                by default there is one shard. It is compiled as in ``map``.
            checkpoint_args: for a save that goes on where it was when it is called again, also in
                another process: ``directory``, where its position is kept until it is complete;
                ``checkpoint_interval``, after how many elements (by default ten seconds);
                ``max_to_keep`` (1), ``checkpoint_name`` (``"ckpt"``) and ``step_counter``, a
                variable to which the number of elements is added. Elements are written beside
                ``path`` meanwhile, without compression and shards. By default a save that is
                interrupted leaves nothing behind.

        Raises:
            TypeError: elements hold what no file keeps (datasets, ragged arrays), ``shard_func``
                does not return one integer, or a function reads something that cannot be told to be
                the same in another process.
            ValueError: an argument is none of the above, or checkpoints are of another save.
            FileExistsError: the path is something else than a stored dataset or an empty directory.
            RuntimeError: another process goes on from the same checkpoint.
            OSError: the disk is full, for one; what was stored before stays.
            Exception: what making an element raised; nothing is replaced then.
        """
        packing = checked_compression(compression, "save")
        place = local_path(path, "save")
        if place.exists() and not (is_stored(place) or is_empty(place)):
            raise FileExistsError(
                f"save: {str(place)!r} exists and is no stored dataset; give a path where nothing "
                "is, or an empty directory"
            )
        if place.is_symlink():
            place = place.resolve()  # What it leads to is replaced, not the link.
        sharded, spec = shard_func is not None, self._plan.spec
        plan = with_shards(self._plan, shard_func, "save") if shard_func else self._plan
        if checkpoint_args is None:
            store_elements(plan, self._options, elements_writer(place, spec, packing, sharded))
        else:
            checkpoints = SaveCheckpoints(checked_arguments(checkpoint_args))
            ResumableSave(plan, self._options, place, checkpoints).store(spec, packing, sharded)

    @classmethod
    def load(
        cls,
        path: str | bytes | os.PathLike[str],
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[[Self], Self] | None = None,
        wait: bool = False,
        name: str | None = None,
    ) -> Self:
        """The elements that `save` wrote.

        They are mapped into memory, read when asked for, and can be reached by position; those
        that were compressed are read in order.

        Args:
            path: a local one.
            element_spec: that of the elements; by default as stored.
            compression: with which they were saved; by default as stored.
            reader_func: takes a dataset of datasets, one for each shard by ascending numbers, and
                returns the dataset of elements; by default it takes one element of each shard after
                the other.
            wait: whether to wait until something is stored there.
            name: shown by ``explain()``.

        Raises:
            FileNotFoundError: nothing is stored there.
            ValueError: it is damaged, or has other elements or another compression than said.
            TypeError: ``reader_func`` does not return a dataset.
        """
        place = local_path(path, "load")
        while wait and not is_stored(place):
            time.sleep(_RETRY_SECONDS)
        found = read_shards(place)
        spec = _checked(found, element_spec, compression)
        shards = found.plans(spec)
        if reader_func is None:
            return cls(named(by_turns(shards, spec), name))
        result: Any = reader_func(dataset_of(shards, spec))
        if not isinstance(result, cls):
            raise TypeError(
                f"load: reader_func must return a Dataset, it returned {type(result).__name__}"
            )
        return result

    def snapshot(
        self,
        path: str | bytes | os.PathLike[str],
        compression: str | None = "AUTO",
        reader_func: Callable[[Self], Self] | None = None,
        shard_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Self:
        """Writes the elements into files while they are used, for later passes and later runs.

        The files are known by the `fingerprint` of what makes the elements: after a change to the
        pipeline before it they are written anew, beside the former ones. A pass that does not reach
        the end keeps nothing, as one that is resumed in its midst unless there is a ``shard_func``
        or ``reader_func``: then it runs again from its start.

        Args:
            path: of a local directory, for any number of snapshots.
            compression: ``"GZIP"``, ``"SNAPPY"``, or ``None``, ``"NONE"`` or ``"AUTO"`` for files
                that are mapped into memory, whose elements can be reached by position.
            reader_func: takes a dataset of datasets, one for each shard by ascending numbers, and
                returns a dataset of the same elements; by default it takes one element of each
                shard after the other, which is the order of the first pass if there is one shard.
                Operations inside it that are given no seed get others in each epoch.
            shard_func: takes an element, returns the number of the shard to write it to, from 0 on;
                by default there is one shard.
            name: shown by ``explain()``.

        Raises:
            TypeError: elements hold what no file keeps (datasets, ragged arrays); ``shard_func``
                does not return one integer or ``reader_func`` no dataset; the fingerprint cannot
                be told.
            ValueError: an argument is none of the above; files are damaged (when iterated).
        """
        packing = checked_compression(compression, "snapshot")
        place = local_path(path, "snapshot")
        spec = self._plan.spec
        spec_to_json(spec)
        sharded = shard_func is not None
        plan = with_shards(self._plan, shard_func, "snapshot") if shard_func else self._plan
        store = SnapshotStore(place, fingerprint_of(plan), spec, packing, sharded)
        read = None if reader_func is None else reader(reader_func, "snapshot", spec)
        where = repr(str(place))
        made = Snapshot((plan,), store, where, element=spec, sharded=sharded, reader=read)
        return self._with(made, name)


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
