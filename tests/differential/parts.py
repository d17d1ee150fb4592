"""What programs are made of: steps, and the functions that steps are given."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.differential.expressions import Draw, Expression, Leaf, draw_expression, leaf_at

KINDS = ("int", "float", "bool", "string", "vector")


@dataclasses.dataclass(frozen=True)
class Step:
    """What a program does next.

    Attributes:
        text: of it, for reports.
        apply: does it, with a side's names; of a source the dataset is None.
        ordered: whether the order of elements is the same on both sides from here on.
        name: of the operation.
        facts: by which it can be told whether a difference is one that is meant.
    """

    text: str
    apply: Callable[[Any, Any], Any]
    ordered: bool = True
    name: str = ""
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Function:
    """A structure of expressions, which is what a function of a program returns."""

    structure: Any

    def __call__(self, side: Any, element: Any) -> Any:
        def build(part: Any) -> Any:
            if isinstance(part, Expression):
                return part.render(side, element)
            if isinstance(part, dict):
                return {key: build(item) for key, item in part.items()}
            made = map(build, part)
            return list(made) if isinstance(part, list) else tuple(made)

        return build(self.structure)

    def of(self, side: Any) -> Callable[..., Any]:
        """As a function that takes the parts of a tuple as its arguments."""
        return lambda *parts: self(side, element_of(parts))

    def __str__(self) -> str:
        if isinstance(self.structure, dict):
            return "{" + ", ".join(f"{k}: {Function(v)}" for k, v in self.structure.items()) + "}"
        if isinstance(self.structure, tuple | list):
            return "(" + ", ".join(str(Function(v)) for v in self.structure) + ",)"
        return str(self.structure)


def element_of(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else tuple(parts)


def leaves_of(spec: Any, path: tuple[Any, ...] = ()) -> list[Leaf] | None:
    """The leaves of an ``element_spec`` of TensorFlow's; None if one is no tensor of known rank."""
    found = []
    for where, leaf in parts_of(spec, path):
        if type(leaf).__name__ != "TensorSpec" or leaf.shape.rank is None:
            return None
        found.append(Leaf(where, leaf.dtype.name, tuple(leaf.shape)))
    return found


def tensors_of(spec: Any, path: tuple[Any, ...] = ()) -> list[Leaf]:
    """Those leaves that are tensors of known rank."""
    found = [leaves_of(leaf, where) for where, leaf in parts_of(spec, path)]
    return list(itertools.chain.from_iterable(leaves for leaves in found if leaves))


def datasets_of(spec: Any) -> list[tuple[tuple[Any, ...], list[Leaf]]]:
    """Leaves that are datasets of tensors: their paths, and the leaves of their elements."""
    found = [
        (where, leaves_of(leaf.element_spec))
        for where, leaf in parts_of(spec)
        if type(leaf).__name__ == "DatasetSpec"
    ]
    return [(where, leaves) for where, leaves in found if leaves]


def parts_of(spec: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """The specs that are no structure, with where they are."""
    if isinstance(spec, dict):
        below = [parts_of(spec[key], (*path, key)) for key in spec]
    elif isinstance(spec, tuple):
        below = [parts_of(item, (*path, i)) for i, item in enumerate(spec)]
    else:
        return [(path, spec)]
    return list(itertools.chain.from_iterable(below))


def draw_function(
    draw: Draw, leaves: Sequence[Leaf], kinds: Sequence[str] = KINDS, *, lists: bool = True
) -> Function:
    """What a map may return; `lists` says whether lists are among it."""

    def one() -> Expression:
        return draw_expression(draw, draw(st.sampled_from(kinds)), leaves)

    forms = ["leaf", "leaf", "pair", "dict", "nested", "keep", *(["list"] * lists)]
    shape = draw(st.sampled_from(forms))
    if shape == "leaf":
        return Function(one())
    if shape == "pair":
        return Function((one(), one()))
    if shape == "list":
        return Function([draw_expression(draw, "int", leaves) for _ in range(2)])
    if shape == "dict":
        return Function({"b": one(), "a": one()})
    if shape == "nested":
        return Function(({"x": one()}, (one(), one())))
    return Function((Expression("any", "leaf", (leaves[0].path,)), one()))


def draw_inner(draw: Draw, leaves: Sequence[Leaf]) -> tuple[str, Callable[[Any, Any], Any]]:
    """What a function that returns a dataset makes of an element."""
    n = draw_expression(draw, "int", leaves, 1)
    value = draw_function(draw, leaves, ("int", "float", "string"))
    inside = [Leaf(("outer", *leaf.path), leaf.dtype, leaf.shape) for leaf in leaves]
    inside.append(Leaf(("inner",), "int64", ()))
    closure = draw_function(draw, inside, ("int", "float", "string", "bool"))
    predicate = draw_expression(draw, "bool", inside, 2)
    vectors = [leaf for leaf in leaves if leaf.rank == 1]
    size = draw(st.integers(1, 3))
    made: dict[str, Callable[[Any, Any], Any]] = {
        "range": lambda s, e: s.D.range(n.render(s, e) % 4),
        "repeat": lambda s, e: s.D.from_tensors(value(s, e)).repeat(n.render(s, e) % 3),
        "map": lambda s, e: s.D.range(3).map(lambda y: closure(s, {"outer": e, "inner": y})),
        "filter": lambda s, e: s.D.range(4).filter(
            lambda y: predicate.render(s, {"outer": e, "inner": y})
        ),
        "batch": lambda s, e: s.D.range(5).skip(n.render(s, e) % 3).batch(size),
        "concatenate": lambda s, e: s.D.from_tensors(n.render(s, e)).concatenate(s.D.range(2)),
        "twice": lambda s, e: s.D.range(2).flat_map(
            lambda y: s.D.range(2).map(lambda z: closure(s, {"outer": e, "inner": y + z}))
        ),
        "zip": lambda s, e: s.D.zip((s.D.range(2), s.D.from_tensors(value(s, e)).repeat())),
    }
    if vectors:
        path = vectors[0].path
        made["slices"] = lambda s, e: s.D.from_tensor_slices(leaf_at(e, path))
    kind = draw(st.sampled_from(sorted(made)))
    return f"{kind}: n={n}, value={value}, closure={closure}, predicate={predicate}", made[kind]
