"""Nested structures of the user's making: tuples, lists, dicts in their own order, namedtuples.

JAX sorts dictionary keys and turns ``None`` into an empty node; elements of a dataset must come
back exactly as the user built them, so drumline keeps its own small tree.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

LEAF = "leaf"


@dataclasses.dataclass(frozen=True)
class Structure:
    """The shape of a nested value without its leaves.

    Attributes:
        kind: ``"leaf"``, ``"none"``, ``"tuple"``, ``"list"``, ``"dict"`` or ``"namedtuple"``.
        type: the Python type to build.
        keys: for dicts, their keys in order.
        children: the structures inside.
    """

    kind: str = LEAF
    type: Any = None
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()

    @property
    def num_leaves(self) -> int:
        """How many leaves a value of this structure has."""
        return 1 if self.kind == LEAF else sum(child.num_leaves for child in self.children)

    def paths(self) -> list[str]:
        """How to get at each leaf, in order: ``"['a'][0]"``, and ``""`` for a value that is one."""
        if self.kind == LEAF:
            return [""]
        keys = self.keys if self.kind == "dict" else range(len(self.children))
        pairs = zip(keys, self.children, strict=False)
        return [f"[{key!r}]{path}" for key, child in pairs for path in child.paths()]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Builds the nested value from its leaves, in order."""
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.kind == LEAF:
            return next(leaves)
        if self.kind == "none":
            return None
        items = [child._build(leaves) for child in self.children]
        if self.kind == "dict":
            return self.type(zip(self.keys, items, strict=True))
        return self.type(*items) if self.kind == "namedtuple" else self.type(items)

    def flatten(self, value: Any, arrays: bool = False) -> list[Any]:
        """The leaves of ``value``, which must have this structure (dict order aside).

        Args:
            value: of this structure.
            arrays: whether tuples in the places of leaves are leaves: arrays, as lists are.

        Raises:
            StructureError: it has another structure; the message says where.
        """
        leaves: list[Any] = []
        self._flatten(value, leaves, "", (dict,) if arrays else (dict, tuple))
        return leaves

    def _flatten(self, value: Any, leaves: list[Any], path: str, nodes: tuple[type, ...]) -> None:
        if self.kind == LEAF:
            if isinstance(value, nodes) or value is None:
                raise StructureError(path, self, value)
            leaves.append(value)
        elif self.kind == "none":
            if value is not None:
                raise StructureError(path, self, value)
        elif self.kind == "dict":
            if not isinstance(value, dict) or set(value) != set(self.keys):
                raise StructureError(path, self, value)
            for key, child in zip(self.keys, self.children, strict=True):
                child._flatten(value[key], leaves, f"{path}[{key!r}]", nodes)
        else:
            if type(value) is not self.type or len(value) != len(self.children):
                raise StructureError(path, self, value)
            for i, child in enumerate(self.children):
                child._flatten(value[i], leaves, f"{path}[{i}]", nodes)

    def __str__(self) -> str:
        if self.kind == LEAF:
            return "*"
        if self.kind == "none":
            return "None"
        inside = [str(child) for child in self.children]
        if self.kind == "dict":
            return (
                "{" + ", ".join(f"{k!r}: {c}" for k, c in zip(self.keys, inside, strict=True)) + "}"
            )
        if self.kind == "list":
            return "[" + ", ".join(inside) + "]"
        name = self.type.__name__ if self.kind == "namedtuple" else ""
        return f"{name}({', '.join(inside)}{',' if len(inside) == 1 and not name else ''})"


LEAF_STRUCTURE = Structure()


class StructureError(TypeError):
    """A value does not have the structure that was promised."""

    def __init__(self, path: str, expected: Structure, value: Any):
        found, _ = _describe(value)
        where = f" at element{path}" if path else ""
        super().__init__(f"expected the structure {expected}{where}, found {found}")


def _describe(value: Any) -> tuple[str, int]:
    leaves, structure = flatten(value)
    return f"{structure} ({type(value).__name__})", len(leaves)


def is_namedtuple(value: Any) -> bool:
    """Whether ``value`` is an instance of a ``collections.namedtuple`` class."""
    return isinstance(value, tuple) and hasattr(type(value), "_fields")


def flatten(
    value: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], Structure]:
    """Splits a nested value into its leaves and its structure.

    Args:
        value: tuples, lists, dicts and namedtuples nested in any way; anything else is a leaf.
        is_leaf: says of a container that it counts as a leaf.
    """
    leaves: list[Any] = []
    return leaves, _structure_of(value, leaves, is_leaf)


def _structure_of(
    value: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None
) -> Structure:
    if is_leaf is not None and is_leaf(value):
        leaves.append(value)
        return LEAF_STRUCTURE
    if value is None:
        return Structure("none")
    if isinstance(value, dict):
        cls = OrderedDict if isinstance(value, OrderedDict) else dict
        children = [_structure_of(item, leaves, is_leaf) for item in value.values()]
        return Structure("dict", cls, tuple(value), tuple(children))
    if is_namedtuple(value):
        children = [_structure_of(item, leaves, is_leaf) for item in value]
        return Structure("namedtuple", type(value), (), tuple(children))
    if type(value) in (tuple, list):
        children = [_structure_of(item, leaves, is_leaf) for item in value]
        kind = "tuple" if type(value) is tuple else "list"
        return Structure(kind, type(value), (), tuple(children))
    leaves.append(value)
    return LEAF_STRUCTURE


def tuple_of(structures: Sequence[Structure]) -> Structure:
    """The structure of a plain tuple of values."""
    return Structure("tuple", tuple, (), tuple(structures))
