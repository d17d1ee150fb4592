"""Reading and writing directories as Orbax has them, with TensorStore, which comes with Orbax.

A tree of arrays is a directory with ``_METADATA``, which has the tree, and each array as a Zarr
array: in one database of TensorStore's (OCDBT), as Orbax writes it today, or in a folder for each.
The array of a leaf is called by its keys, joined by dots; here leaves are called by their keys,
joined by slashes. `CheckpointManager`'s directories have such trees in ``STEP/ITEM``.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from drumline._extras import import_extra
from drumline.checkpoints.reader import (
    PIECE_BYTES,
    CheckpointFileError,
    CheckpointFormat,
    Defect,
    SavedTensors,
    TensorEntry,
    blocks,
    dtype_of,
    is_of_ml_dtypes,
    is_possible,
)
from drumline.checkpoints.safetensors_files import read_json

_TREE = "_METADATA"
_COMMITTED = "_CHECKPOINT_METADATA"
_DATABASE = "manifest.ocdbt"
_UNFINISHED = ".orbax-checkpoint-tmp"
_MOST_OF_A_TREE = 1 << 30
_READ_WHOLE = 256 << 20
_DICT = 2  # Orbax's number for keys of dicts
_GROUP_BYTES = 128 << 20
"""How much is written to the database at a time, and is in memory meanwhile."""


def _tensorstore() -> Any:
    return import_extra("tensorstore", "orbax", "A checkpoint of Orbax's")


def trees_of(path: Path) -> tuple[dict[str, Path], int | None] | None:
    """Find the trees in a directory: itself, the items of a step, or those of the newest step.

    Returns:
        The trees' directories by what their names begin with, and the step if there is one; None
        if there is no tree.
    """
    if _is_tree(path):
        return {"": path}, _step_of(path)
    inner = [each for each in sorted(path.iterdir()) if each.is_dir()]
    items = [each for each in inner if _is_tree(each)]
    is_step = (path / _COMMITTED).is_file() or any(not each.name.isdigit() for each in items)
    if items and is_step:
        alone = len(items) == 1
        return {"" if alone else f"{each.name}/": each for each in items}, _step_of(path)
    steps = [each for each in inner if each.name.isdigit()]
    for step in sorted(steps, key=lambda each: int(each.name), reverse=True):
        if (found := trees_of(step)) is not None:
            return found
    return None


def is_unfinished(path: Path) -> bool:
    """Whether it is a directory that Orbax did not finish."""
    return _UNFINISHED in path.name


def _is_tree(path: Path) -> bool:
    return not is_unfinished(path) and any((path / name).is_file() for name in (_TREE, _DATABASE))


def _step_of(path: Path) -> int | None:
    name = path.name if path.name.isdigit() else path.parent.name
    return int(name) if name.isdigit() and len(name) < 19 else None


class OrbaxReader(SavedTensors):
    """Directories that Orbax wrote, or `OrbaxWriter`.

    Args:
        path: what was given.
        trees: the directories of trees by what their names begin with.
        step: which the directory is called by.

    Raises:
        CheckpointFileError: something that describes the arrays is damaged or missing.
        MissingExtraError: TensorStore is not installed.
    """

    format = CheckpointFormat.ORBAX

    def __init__(self, path: Path, trees: dict[str, Path], step: int | None) -> None:
        super().__init__(path)
        self.step = step
        self._arrays: dict[str, _ZarrArray] = {}
        self._trees = [_OrbaxTree(directory, prefix) for prefix, directory in trees.items()]
        writers = 0
        for tree in self._trees:
            self.files += sorted(each for each in tree.directory.rglob("*") if each.is_file())
            writers = max(writers, len(list(tree.directory.glob("ocdbt.process_*"))))
            self.left_out += tree.left_out
            for name, array in tree.arrays().items():
                if name in self._arrays:
                    file = tree.directory / _TREE
                    raise CheckpointFileError(file, None, f"there are two leaves {name!r}")
                self._arrays[name] = array
                self.tensors[name] = TensorEntry(
                    name, array.shape, array.dtype, tree.directory, None, array.chunks
                )
        self.writers = max(writers, 1)

    def pieces(self, name: str) -> Iterator[np.ndarray]:
        """Read the values of a tensor: those of a chunk, or several, at a time."""
        return self._arrays[name].pieces(name)

    def defects(self, *, finite: bool = False) -> Iterator[Defect]:
        """Read everything, and yield what is wrong."""
        for tree in self._trees:
            missing = list(tree.missing_chunks())
            yield from (defect for _, defect in missing)
            names = {name for name, _ in missing}
            for name, entry in self.tensors.items():
                if entry.file == tree.directory and name not in names:
                    yield from self._defects_of(entry, finite)


class _ZarrArray:
    """An array in a store of TensorStore's; its values are not read yet."""

    def __init__(self, tree: _OrbaxTree, key: str, described: Any) -> None:
        self._tree = tree
        self._key = key
        shape, chunk = described["shape"], _chunk_shape(described)
        if not (is_possible(shape) and is_possible(chunk) and len(chunk) == len(shape)):
            raise ValueError(f"{key!r} has the shape {shape!r:.80} in chunks of {chunk!r:.80}")
        if 0 in chunk:
            raise ValueError(f"{key!r} has chunks of no size")
        self.shape = tuple(shape)
        self.dtype = dtype_of(described["data_type" if tree.is_zarr3 else "dtype"])
        self._chunk = tuple(chunk)
        self.chunks = math.prod(-(-size // each) for size, each in zip(shape, chunk, strict=True))

    def pieces(self, name: str) -> Iterator[np.ndarray]:
        ts = _tensorstore()
        nbytes = math.prod(self.shape) * self.dtype.itemsize
        before = self._tree.store.get("path", "")
        spec = {
            "driver": "zarr3" if self._tree.is_zarr3 else "zarr",
            "kvstore": {**self._tree.store, "path": f"{before}{self._key}/"},
        }
        try:
            array = ts.open(spec, open=True, read=True).result()
            if tuple(array.shape) != self.shape:
                raise ValueError(f"it has the shape {array.shape}")
            for rows in self._row_ranges(nbytes):
                value = np.asarray((array if rows is None else array[rows]).read().result())
                yield value.astype(self.dtype, copy=False).reshape(-1)
        except (ValueError, KeyError, TypeError, OverflowError, NotImplementedError) as error:
            reason = f"{name!r} cannot be read: {error}"
            raise CheckpointFileError(self._tree.directory, None, reason) from error

    def _row_ranges(self, nbytes: int) -> Iterator[slice | None]:
        """The rows to read at a time, by whole chunks, none of which is read twice."""
        if nbytes <= _READ_WHOLE or not self.shape or self._chunk[0] >= self.shape[0]:
            yield None
            return
        of_chunk = nbytes // self.shape[0] * self._chunk[0]
        step = self._chunk[0] * max(1, PIECE_BYTES // of_chunk)
        for start in range(0, self.shape[0], step):
            yield slice(start, min(self.shape[0], start + step))


def _chunk_shape(described: Any) -> Any:
    if "chunk_grid" in described:
        return described["chunk_grid"]["configuration"]["chunk_shape"]
    return described["chunks"]


class _OrbaxTree:
    """A directory with one tree of arrays."""

    def __init__(self, directory: Path, prefix: str) -> None:
        self.directory = directory
        self.left_out: list[str] = []
        self._prefix = prefix
        path = f"{directory.resolve()}/"
        base = {"driver": "file", "path": path}
        has_database = (directory / _DATABASE).is_file()
        self.store: dict[str, Any] = {"driver": "ocdbt", "base": base} if has_database else base
        self.is_zarr3 = False
        self._keys = self._leaves() if (directory / _TREE).is_file() else None
        self._arrays: dict[str, _ZarrArray] = {}
        self._names: dict[str, str] = {}

    def _leaves(self) -> dict[str, str]:
        """The arrays' keys in the store, by the leaves' names."""
        file = self.directory / _TREE
        described = read_json(file, _MOST_OF_A_TREE)
        self.is_zarr3 = described.get("use_zarr3") is True
        leaves, left_out = {}, []
        try:
            for leaf in described["tree_metadata"].values():
                keys = [key["key"] for key in leaf["key_metadata"]]
                if not all(isinstance(key, str) for key in keys):
                    raise TypeError(f"{keys!r:.80} are no keys")
                name = self._prefix + "/".join(keys)
                value = leaf["value_metadata"]
                if value.get("skip_deserialize") or value["value_type"] == "string":
                    left_out.append(f"{name} ({value['value_type']})")
                elif name in leaves:
                    raise ValueError(f"there are two leaves {name!r}")
                else:
                    leaves[name] = ".".join(keys)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointFileError(file, 0, f"it describes no tree: {error!r}") from error
        if left_out:
            self.left_out.append(f"leaves that are no arrays: {', '.join(left_out)}")
        return leaves

    def arrays(self) -> dict[str, _ZarrArray]:
        """The arrays by the leaves' names; their descriptions are read, and no values."""
        ts = _tensorstore()
        what = "zarr.json" if self.is_zarr3 else ".zarray"
        try:
            store = ts.KvStore.open(self.store).result()
            keys = self._keys
            if keys is None:
                found = [key.decode() for key in store.list().result()]
                names = [key.removesuffix(f"/{what}") for key in found if key.endswith(f"/{what}")]
                keys = {f"{self._prefix}{name}": name for name in names}
            reads = {name: store.read(f"{key}/{what}".encode()) for name, key in keys.items()}
            answers = {name: read.result() for name, read in reads.items()}
        except (ValueError, KeyError, TypeError, NotImplementedError) as error:
            file = self.directory / _DATABASE
            place = file if file.is_file() else self.directory
            raise CheckpointFileError(place, None, f"it cannot be read: {error}") from error
        for name, answer in answers.items():
            if answer.state != "value":
                reason = f"there is no array for the leaf {name!r}"
                raise CheckpointFileError(self.directory, None, reason)
            try:
                self._arrays[name] = _ZarrArray(self, keys[name], json.loads(answer.value))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                reason = f"the array of the leaf {name!r} is not described: {error}"
                raise CheckpointFileError(self.directory, None, reason) from error
        self._names = keys
        return self._arrays

    def missing_chunks(self) -> Iterator[tuple[str, Defect]]:
        """The arrays that lack chunks of their shapes, which would be read as zeros."""
        ts = _tensorstore()
        counts: dict[str, int] = {}
        try:
            for key in ts.KvStore.open(self.store).result().list().result():
                array, _, chunk = key.partition(b"/")
                if chunk not in (b".zarray", b"zarr.json", b".zattrs"):
                    name = array.decode(errors="replace")
                    counts[name] = counts.get(name, 0) + 1
        except (ValueError, KeyError, NotImplementedError) as error:
            file = self.directory / _DATABASE
            defect = Defect(file, None, f"it cannot be listed: {error}")
            yield from ((name, defect) for name in self._arrays)
            return
        for name, array in self._arrays.items():
            found = counts.get(self._names[name], 0)
            if found < array.chunks:
                reason = f"{name!r} has {found:,} of {array.chunks:,} chunks"
                yield name, Defect(self.directory, None, reason)


def holds(dtype: np.dtype) -> bool:
    """Whether TensorStore has arrays of this dtype in Zarr's format."""
    if not is_of_ml_dtypes(dtype):
        return True
    try:
        _tensorstore().dtype(dtype.name)
    except ValueError:
        return False
    return True


def keys_of(names: Iterable[str]) -> dict[str, list[str]]:
    """The keys in a tree for names of tensors, whose parts are between slashes.

    Raises:
        ValueError: names that no tree has together; it says which, and why.
    """
    keys = {name: name.split("/") for name in names}
    wrong = [f"{name!r} has an empty part" for name, parts in keys.items() if "" in parts]
    inner: dict[tuple[str, ...], str] = {}
    for name, parts in keys.items():
        for stop in range(1, len(parts)):
            inner.setdefault(tuple(parts[:stop]), name)
    stored: dict[str, str] = {}
    for name, parts in keys.items():
        if tuple(parts) in inner:
            wrong.append(f"{name!r} is a tensor, and part of {inner[tuple(parts)]!r}")
        joined = ".".join(parts)
        if joined in stored:
            wrong.append(f"{stored[joined]!r} and {name!r} would be one file")
        stored[joined] = name
    if wrong:
        raise ValueError("; ".join(wrong))
    return keys


class OrbaxWriter:
    """Writes a tree of arrays into an empty directory, one tensor after another.

    What is not on the disk yet is `_GROUP_BYTES`, and a chunk, at most.

    Args:
        directory: where to.
        keys: in the tree, by the tensors' names.

    Raises:
        MissingExtraError: TensorStore is not installed.
    """

    def __init__(self, directory: Path, keys: dict[str, list[str]]) -> None:
        self._ts = _tensorstore()
        self._directory = directory
        self._keys = keys
        base = {"driver": "file", "path": f"{directory.resolve()}/"}
        self._store = {"driver": "ocdbt", "base": base}
        self._context = self._ts.Context()
        self._group = self._ts.Transaction()
        self._waiting = 0

    def write(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype, pieces: Iterable[np.ndarray]
    ) -> None:
        """Write a tensor, whose pieces are given in order."""
        most = max(1, PIECE_BYTES // dtype.itemsize)
        cut = list(blocks(shape, most))
        first = cut[0] if cut else ()
        chunk = [
            size if each.start is None else each.stop - each.start
            for size, each in zip(shape, first, strict=True)
        ]
        array = self._ts.open(
            {
                "driver": "zarr",
                "kvstore": {**self._store, "path": f"{'.'.join(self._keys[name])}/"},
                "metadata": {
                    "shape": list(shape),
                    "chunks": chunk,
                    "dtype": dtype.name if is_of_ml_dtypes(dtype) else dtype.str,
                    "compressor": {"id": "zstd", "level": 1},
                    "fill_value": None,
                    "filters": None,
                    "order": "C",
                    "dimension_separator": ".",
                },
                "create": True,
                "store_data_equal_to_fill_value": True,
            },
            context=self._context,
            transaction=self._group,
        ).result()
        source = _Refill(pieces, dtype)
        for block in cut:
            part = array[block] if block else array
            value = source.take(math.prod(part.shape)).reshape(part.shape)
            part.write(value).result()
            self._waiting += value.nbytes
            if self._waiting >= _GROUP_BYTES:
                self._commit()
                array = array.with_transaction(self._group)

    def _commit(self) -> None:
        self._group.commit_async().result()
        self._group = self._ts.Transaction()
        self._waiting = 0

    def finish(self) -> None:
        """Write what describes the tree."""
        self._commit()
        tree = {
            repr(tuple(keys)): {
                "key_metadata": [{"key": key, "key_type": _DICT} for key in keys],
                "value_metadata": {"value_type": "np.ndarray", "skip_deserialize": False},
            }
            for keys in self._keys.values()
        }
        described = {
            "tree_metadata": tree,
            "use_ocdbt": True,
            "use_zarr3": False,
            "store_array_data_equal_to_fill_value": True,
            "custom_metadata": None,
        }
        (self._directory / _TREE).write_text(json.dumps(described))
        now = time.time_ns()
        handler = "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler"
        committed = {
            "item_handlers": handler,
            "metrics": {},
            "performance_metrics": {},
            "init_timestamp_nsecs": now,
            "commit_timestamp_nsecs": now,
            "custom_metadata": {},
        }
        (self._directory / _COMMITTED).write_text(json.dumps(committed))


class _Refill:
    """Pieces of any sizes, taken in others."""

    def __init__(self, pieces: Iterable[np.ndarray], dtype: np.dtype) -> None:
        self._pieces = iter(pieces)
        self._left = np.empty(0, dtype)

    def take(self, count: int) -> np.ndarray:
        """The next values, of which there are as many."""
        parts, missing = [], count
        while missing:
            if not self._left.size:
                self._left = next(self._pieces)
            parts.append(self._left[:missing])
            self._left = self._left[missing:]
            missing -= parts[-1].size
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
