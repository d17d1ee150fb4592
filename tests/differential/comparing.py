"""What a dataset yields, in a form in which both libraries' can be compared."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass
class Outcome:
    """What became of a program.

    Attributes:
        elements: what came, comparable.
        ending: "end", "more" (the limit was reached) or "error".
        error: the error, if one was raised.
        building: whether it was raised while the program was built.
        spec: of an element, comparable.
        cardinality: as the library says.
    """

    elements: list[Any] = dataclasses.field(default_factory=list)
    ending: str = "end"
    error: Exception | None = None
    building: bool = False
    spec: Any = None
    cardinality: int = 0

    def __str__(self) -> str:
        error = f"{type(self.error).__name__}: {str(self.error)[:300]}" if self.error else ""
        rows = "\n      ".join(map(str, self.elements[:6]))
        return (
            f"{len(self.elements)} elements, then {self.ending} {error}\n      {rows}\n      spec "
            f"{self.spec}\n      cardinality {self.cardinality}"
        )


def outcome_of(program: Any, side: Any, limit: int) -> Outcome:
    """Build a program on a side and take its elements, up to the first error."""
    found = Outcome()
    try:
        ds = program.build(side)
        found.spec = spec_of(ds.element_spec)
        found.cardinality = int(ds.cardinality())
    except Exception as error:
        found.ending, found.error, found.building = "error", error, True
        return found
    try:
        for element in ds:
            if len(found.elements) == limit:
                found.ending = "more"
                break
            found.elements.append(plain(element))
    except Exception as error:
        found.ending, found.error = "error", error
    return found


def plain(value: Any) -> Any:
    """An element as nested tuples, dicts and arrays; a dataset in it as a list of its elements."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, tuple | list):
        return tuple(map(plain, value))
    if hasattr(value, "to_list"):  # ragged, on both sides
        return ("ragged", value.to_list())
    if hasattr(value, "element_spec"):
        return ("dataset", [plain(item) for item in value.take(20)])
    array = np.asarray(value, object if isinstance(value, bytes) else None)
    return (array.dtype.name, array.shape, array.tolist())


def spec_of(spec: Any) -> Any:
    """A spec as nested tuples, dicts and (dtype, shape)."""
    if isinstance(spec, dict):
        return {key: spec_of(spec[key]) for key in sorted(spec)}
    if isinstance(spec, tuple | list):
        return tuple(map(spec_of, spec))
    if hasattr(spec, "element_spec"):
        return ("dataset", spec_of(spec.element_spec))
    if "Ragged" in type(spec).__name__:
        return ("ragged",)
    dtype = getattr(spec.dtype, "name", str(spec.dtype))
    shape = None if getattr(spec.shape, "rank", 0) is None else tuple(spec.shape)
    return ("object" if dtype == "string" else dtype, shape)


def same(ours: Any, theirs: Any) -> bool:
    """Whether two elements are equal: dtypes and shapes too, floats to rounding."""
    if isinstance(theirs, dict) or isinstance(ours, dict):
        alike = isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys()
        return alike and all(same(ours[key], theirs[key]) for key in theirs)
    if _is_array(ours) and _is_array(theirs):
        if ours[:2] != theirs[:2]:
            return False
        if "float" in ours[0]:
            return np.allclose(ours[2], theirs[2], rtol=1e-5, atol=1e-6, equal_nan=True)
        return bool(ours[2] == theirs[2])
    if isinstance(ours, tuple | list) and isinstance(theirs, tuple | list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


def _is_array(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and isinstance(value[0], str)


def narrower(ours: Any, theirs: Any) -> bool:
    """Whether our spec says all that theirs does: the same dtypes, no dimension unknown to us."""
    if isinstance(theirs, dict):
        return (
            isinstance(ours, dict)
            and ours.keys() == theirs.keys()
            and all(narrower(ours[key], theirs[key]) for key in theirs)
        )
    if _is_leaf(theirs):
        if not _is_leaf(ours) or ours[0] != theirs[0]:
            return False
        if theirs[1] is None:
            return True
        return len(ours[1]) == len(theirs[1]) and all(
            t is None or o == t for o, t in zip(ours[1], theirs[1], strict=True)
        )
    if isinstance(theirs, tuple):
        return (
            isinstance(ours, tuple)
            and len(ours) == len(theirs)
            and all(map(narrower, ours, theirs))
        )
    return bool(ours == theirs)


def _is_leaf(spec: Any) -> bool:
    return (
        isinstance(spec, tuple)
        and len(spec) == 2
        and isinstance(spec[0], str)
        and spec[0] != "dataset"
    )


def described(ours: Any, spec: Any) -> bool:
    """Whether an element is what a spec says."""
    if isinstance(spec, dict):
        return all(described(ours[key], spec[key]) for key in spec)
    if _is_leaf(spec):
        dtype, shape = spec
        return ours[0] in (dtype, "object" if dtype == "object" else dtype) and (
            shape is None
            or (
                len(shape) == len(ours[1])
                and all(s in (None, o) for s, o in zip(shape, ours[1], strict=True))
            )
        )
    if isinstance(spec, tuple) and spec and spec[0] not in ("dataset", "ragged"):
        return len(ours) == len(spec) and all(map(described, ours, spec))
    return True
