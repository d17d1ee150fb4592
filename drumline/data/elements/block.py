"""Blocks: runs of elements held as columns, their size in memory, and the elements in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline.data.elements.columns import PackedStrings, concatenated
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import LEAF, STRING, Structure


class Block:
    """``n`` elements as one array per leaf, each with a leading axis of length ``n``.

    All elements of a block have the same shapes, or a column is a ``RaggedArray`` for stages that
    take those; a stage whose elements vary in shape emits a new block where the shape changes.
    ``error`` is raised after the ``n`` elements were delivered: it stands for one further element
    which could not be made.
    """

    __slots__ = ("columns", "error", "n")

    def __init__(self, columns: Sequence[np.ndarray], n: int, error: Exception | None = None):
        self.columns = columns
        self.n = n
        self.error = error

    @property
    def events(self) -> int:
        """How many positions of the stream the block covers: its elements, and its error."""
        return self.n + (self.error is not None)

    def slice(self, start: int, stop: int) -> Block:
        """The positions ``start`` to ``stop``, without copying; the error is the last position."""
        columns = [column[start : min(stop, self.n)] for column in self.columns]
        error = self.error if stop > self.n else None
        return Block(columns, max(0, min(stop, self.n) - start), error)

    def select(self, keep: np.ndarray) -> Block:
        """The elements for which the boolean array ``keep`` (n,) is true; no error."""
        return Block([column[keep] for column in self.columns], int(np.count_nonzero(keep)))

    def same_shapes(self, other: Block) -> bool:
        """Whether elements of both blocks have equal shapes."""
        return all(
            a.shape[1:] == b.shape[1:] for a, b in zip(self.columns, other.columns, strict=True)
        )


def concat(blocks: Sequence[Block]) -> Block:
    """One block with the elements of all; shapes must agree and no block may carry an error."""
    if len(blocks) == 1:
        return blocks[0]
    columns = [concatenated(parts) for parts in zip(*(b.columns for b in blocks), strict=True)]
    return Block(columns, sum(block.n for block in blocks))


UNBOUNDED = 1 << 62
"""Stands for a number of bytes without a limit."""

_SAMPLE = 32


def estimated_nbytes(block: Block) -> int:
    """Bytes of a block's elements; where they are objects, from a sample of them."""
    return sum(map(_estimated, block.columns))


def _estimated(column: np.ndarray | Sequence[Any]) -> int:
    if type(column) is np.ndarray and column.dtype != STRING:
        return column.nbytes
    if isinstance(column, RaggedArray) and column.dtype == STRING:
        column = column.flat_values
    if not isinstance(column, np.ndarray) or column.dtype != object or column.size <= _SAMPLE:
        return nbytes_of(column)
    step = column.size // _SAMPLE
    sample = column.reshape(-1)[::step]
    return nbytes_of(sample) * column.size // len(sample)


def nbytes_of(column: Any) -> int:
    """Bytes of a column's elements (an array, a list, a ``RaggedArray``, ``PackedStrings``); of
    objects, those of what they hold.
    """
    if type(column) is np.ndarray and not column.dtype.hasobject:
        return column.nbytes
    dtype = getattr(column, "dtype", None)
    if isinstance(column, PackedStrings) or (dtype is not None and dtype.kind != "O"):
        return int(column.nbytes)
    items = _flat(column)
    if set(map(type, items)) == {bytes}:
        return sum(map(len, items))
    return sum(map(_nbytes_of_object, items))


def _flat(column: Any) -> list[Any]:
    """The objects of a column; of one with rows of different lengths those of all rows."""
    values = getattr(column, "flat_values", column)
    found: list[Any] = np.asarray(values, object).reshape(-1).tolist()
    return found


def _nbytes_of_object(item: Any) -> int:
    size = getattr(item, "nbytes", None)
    if size is None:
        size = len(item) if isinstance(item, bytes | str) else 8
    return int(size)


Splitter = Callable[[Sequence[np.ndarray]], list[Any]]


def splitter(structure: Structure) -> Splitter:
    """Returns a function from a block's columns to the list of its elements.

    ``Structure.unflatten`` costs about a microsecond an element; code generated once for the
    structure costs a tenth of it.
    """
    if structure.kind == LEAF:
        return lambda columns: _rows(columns[0])
    if structure.kind == "tuple" and all(child.kind == LEAF for child in structure.children):
        return lambda columns: list(zip(*columns, strict=True)) if columns else []
    names = [f"v{i}" for i in range(structure.num_leaves)]
    types: dict[str, Any] = {}
    body = _expression(structure, iter(names), types)
    target = f"({', '.join(names)},)" if names else "_"
    source = f"lambda columns: [{body} for {target} in zip(*columns, strict=True)]"
    split: Splitter = eval(source, types)
    return split


def _rows(column: np.ndarray) -> list[Any]:
    """The rows of a column; ``tolist`` is quicker, and gives objects as they are."""
    return column.tolist() if column.dtype == STRING and column.ndim == 1 else list(column)


def _expression(structure: Structure, names: Any, types: dict[str, Any]) -> str:
    if structure.kind == LEAF:
        return str(next(names))
    if structure.kind == "none":
        return "None"
    inside = [_expression(child, names, types) for child in structure.children]
    if structure.kind == "tuple":
        return f"({''.join(item + ', ' for item in inside)})"
    if structure.kind == "list":
        return f"[{', '.join(inside)}]"
    name = f"t{len(types)}"
    types[name] = structure.type
    if structure.kind == "namedtuple":
        return f"{name}({', '.join(inside)})"
    keys = f"k{len(types)}"
    types[keys] = structure.keys
    pairs = ", ".join(f"{keys}[{i}]: {item}" for i, item in enumerate(inside))
    return f"{{{pairs}}}" if structure.type is dict else f"{name}({{{pairs}}})"
