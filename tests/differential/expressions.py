"""Functions of programs as small typed trees, drawn by hypothesis and rendered by either side.

A tree's kind is ``int`` (an int64 scalar), ``float`` (float32), ``bool``, ``string`` or ``vector``
(int64 of one dimension). Casts are explicit and operands of one type, where the two libraries'
rules for types differ by decision (``docs/tensorflow/differences.md``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

Path = tuple[Any, ...]
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A leaf of an element: where it is, and what it is."""

    path: Path
    dtype: str
    shape: tuple[int | None, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclasses.dataclass(frozen=True)
class Expression:
    """An operation and its operands: expressions, paths of leaves and constants."""

    kind: str
    operation: str
    operands: tuple[Any, ...] = ()

    def render(self, side: Any, element: Any) -> Any:
        """The value, made of an element (or several, where a function closes over others)."""
        made = [
            operand.render(side, element) if isinstance(operand, Expression) else operand
            for operand in self.operands
        ]
        return _OPERATIONS[self.operation](side, element, *made)

    def __str__(self) -> str:
        if self.operation == "constant":
            return str(self.operands[0])
        if self.operation == "leaf":
            return "e" + "".join(f"[{key!r}]" for key in self.operands[0])
        return f"{self.operation}({', '.join(map(str, self.operands))})"


def leaf_at(element: Any, path: Path) -> Any:
    """The leaf of an element at a path."""
    for key in path:
        element = element[key]
    return element


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "constant": lambda s, e, value, dtype: s.array(value, dtype),
    "leaf": lambda s, e, path: leaf_at(e, path),
    "cast": lambda s, e, x, dtype: s.cast(x, dtype),
    "add": lambda s, e, x, y: x + y,
    "sub": lambda s, e, x, y: x - y,
    "mul": lambda s, e, x, y: (x * y) % 1009,
    "double": lambda s, e, x: x * 2,
    "half": lambda s, e, x: x * 0.5,
    "floordiv": lambda s, e, x, y: x // y,
    "mod": lambda s, e, x, y: x % y,
    "negative": lambda s, e, x: -x,
    "maximum": lambda s, e, x, y: s.maximum(x, y),
    "where": lambda s, e, c, x, y: s.where(c, x, y),
    "less": lambda s, e, x, y: x < y,
    "equal": lambda s, e, x, y: s.equal(x, y),
    "both": lambda s, e, x, y: s.both(x, y),
    "not": lambda s, e, x: s.negate(x),
    "sum": lambda s, e, x: s.sum(x),
    "size": lambda s, e, x: s.size(x),
    "stack": lambda s, e, *xs: s.stack(list(xs)),
    "full": lambda s, e, n, x: s.full(n % 4, x),
    "length": lambda s, e, x: s.length(x),
    "join": lambda s, e, *xs: s.join(list(xs)),
    "as_string": lambda s, e, x: s.as_string(x),
    "upper": lambda s, e, x: s.upper(x),
    "substr": lambda s, e, x: s.substr(x, 0, 1),
}

_INTEGERS = ("int64", "int32", "uint8")


def draw_expression(draw: Draw, kind: str, leaves: Sequence[Leaf], depth: int = 2) -> Expression:
    """An expression of a kind over the leaves of an element."""
    choices = [*_leaves_of(kind, leaves), _constant(kind)]
    if depth > 0:
        choices += _COMPOUND[kind](leaves)
    made = draw(st.sampled_from(choices))
    if isinstance(made, Expression):
        return made
    operation, operands = made
    parts = [
        draw_expression(draw, operand[1:], leaves, depth - 1)
        if isinstance(operand, str) and operand.startswith(":")
        else draw(operand)
        if isinstance(operand, st.SearchStrategy)
        else operand
        for operand in operands
    ]
    return Expression(kind, operation, tuple(parts))


def _constant(kind: str) -> Any:
    values = {
        "int": (st.integers(-4, 7), "int64"),
        "float": (st.integers(-8, 8).map(lambda k: k / 4), "float32"),
        "bool": (st.booleans(), "bool"),
        "string": (st.sampled_from(["", "a", "Zé", "x y"]), "string"),
    }
    if kind == "vector":
        return "stack", (":int", ":int")
    strategy, dtype = values[kind]
    return "constant", (strategy, dtype)


def _leaves_of(kind: str, leaves: Sequence[Leaf]) -> list[Expression]:
    found = []
    for leaf in leaves:
        read = Expression("any", "leaf", (leaf.path,))
        integer = leaf.dtype in _INTEGERS
        if kind == "int" and integer and leaf.rank == 0:
            found.append(Expression(kind, "cast", (read, "int64")))
        elif kind == "int" and integer:
            found += [Expression(kind, name, (read,)) for name in ("sum", "size")]
        elif kind == "float" and leaf.dtype == "float32" and leaf.rank == 0:
            found.append(dataclasses.replace(read, kind=kind))
        elif kind == "float" and leaf.dtype == "float64" and leaf.rank == 0:
            found.append(Expression(kind, "cast", (read, "float32")))
        elif kind == leaf.dtype and leaf.rank == 0:
            found.append(dataclasses.replace(read, kind=kind))
        elif kind == "vector" and integer and leaf.rank == 1:
            found.append(Expression(kind, "cast", (read, "int64")))
    return found


def _compound_int(leaves: Sequence[Leaf]) -> list[Any]:
    strings = any(leaf.dtype == "string" and leaf.rank == 0 for leaf in leaves)
    return [
        ("add", (":int", ":int")),
        ("sub", (":int", ":int")),
        ("mul", (":int", ":int")),
        ("mod", (":int", Expression("int", "constant", (5, "int64")))),
        ("floordiv", (":int", Expression("int", "constant", (3, "int64")))),
        ("floordiv", (":int", ":int")),  # which may be by zero
        ("negative", (":int",)),
        ("maximum", (":int", ":int")),
        ("where", (":bool", ":int", ":int")),
        ("sum", (":vector",)),
        *([("length", (":string",))] if strings else []),
    ]


_COMPOUND: dict[str, Callable[[Sequence[Leaf]], list[Any]]] = {
    "int": _compound_int,
    "float": lambda leaves: [
        ("add", (":float", ":float")),
        ("half", (":float",)),
        ("cast", (":int", "float32")),
        ("maximum", (":float", ":float")),
        ("where", (":bool", ":float", ":float")),
    ],
    "bool": lambda leaves: [
        ("less", (":int", ":int")),
        ("equal", (":int", ":int")),
        ("less", (":float", ":float")),
        ("both", (":bool", ":bool")),
        ("not", (":bool",)),
    ],
    "string": lambda leaves: [
        ("join", (":string", ":string")),
        ("as_string", (":int",)),
        ("upper", (":string",)),
        ("substr", (":string",)),
    ],
    "vector": lambda leaves: [
        ("stack", (":int", ":int", ":int")),
        ("double", (":vector",)),
        ("add", (":vector", ":int")),
        ("full", (":int", ":int")),
    ],
}
