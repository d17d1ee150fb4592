"""From a block to Python elements, at the cost of one generated comprehension per block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline.data.spec import STRING
from drumline.data.structure import LEAF, Structure

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
