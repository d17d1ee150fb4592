"""Iterators in Orbax's checkpoints; importing it imports Orbax."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jax

from drumline._resumable import ResumableIterator

try:
    import orbax.checkpoint as ocp
    from etils import epath
except ImportError as error:
    raise ImportError(
        "dl.data.DatasetIteratorHandler is for checkpoints of Orbax: pip install 'drumline[orbax]'"
    ) from error


class DatasetIteratorHandler(ocp.CheckpointHandler):
    """Saves and restores a dataset's iterator, in each process the one it has.

    Follows Grain's handler: a file ``process_<index>-of-<count>.json`` for each process, with what
    the iterator's ``state()`` gives. It is used by way of `DatasetIteratorSave` and
    `DatasetIteratorRestore`::

        args = ocp.args.Composite(
            model=ocp.args.StandardSave(model), data=dl.data.DatasetIteratorSave(iterator)
        )
        manager.save(step, args=args)
    """

    def save(self, directory: Any, item: Any = None, args: Any = None) -> None:
        """Write the position of the iterator, which may continue as soon as this returns.

        Raises:
            TypeError: it is no iterator of a dataset.
        """
        iterator = _iterator(item, args)
        path = _path(directory) / _file_name(jax.process_index(), jax.process_count())
        path.write_text(json.dumps(iterator.state()))

    def restore(self, directory: Any, item: Any = None, args: Any = None) -> Any:
        """Move an iterator over an equal dataset to the position that was saved; return it.

        Raises:
            FileNotFoundError: no iterator was saved there.
            ValueError: another number of processes saved theirs, or another dataset's was saved.
            TypeError: ``item`` is no iterator of a dataset.
        """
        iterator = _iterator(item, args)
        path = _path(directory) / _file_name(jax.process_index(), jax.process_count())
        if not path.exists():
            raise _lacking(path)
        try:
            state = json.loads(path.read_text())
        except ValueError as error:
            raise ValueError(f"{path} is no iterator's state: {error}") from error
        iterator.restore(state)
        return iterator


@ocp.args.register_with_handler(DatasetIteratorHandler, for_save=True)
@dataclasses.dataclass
class DatasetIteratorSave(ocp.args.CheckpointArgs):
    """The argument of ``save``: an iterator to be saved.

    Attributes:
        item: the iterator.
    """

    item: Any


@ocp.args.register_with_handler(DatasetIteratorHandler, for_restore=True)
@dataclasses.dataclass
class DatasetIteratorRestore(ocp.args.CheckpointArgs):
    """The argument of ``restore``: an iterator to be restored.

    Attributes:
        item: an iterator over a dataset of the same operations, arguments and seeds.
    """

    item: Any


def _iterator(item: Any, args: Any) -> ResumableIterator[Any]:
    found = item if item is not None else getattr(args, "item", None)
    if not isinstance(found, ResumableIterator):
        raise TypeError(f"give the iterator of a dataset, iter(dataset), not {found!r:.60}")
    return found


def _path(directory: Any) -> Any:
    """Return Orbax's path, which may be in a bucket; pathlib would make a local one of it."""
    return epath.Path(directory)


def _file_name(index: int, count: int) -> str:
    return f"process_{index}-of-{count}.json"


def _lacking(path: Any) -> Exception:
    others = sorted(other.name for other in path.parent.glob("process_*-of-*.json"))
    if not others:
        return FileNotFoundError(f"no iterator was saved in {path.parent}")
    return ValueError(
        f"{path.parent} has {', '.join(others)} and no {path.name}: iterators continue where those "
        "of the same process were; restore with as many processes as saved, or begin the epoch "
        "again"
    )
