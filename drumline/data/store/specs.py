"""Element specs as JSON."""

from __future__ import annotations

import collections
from typing import Any

from drumline.data.elements.ragged import has_ragged
from drumline.data.elements.spec import ElementSpec, TensorSpec, has_datasets
from drumline.data.elements.structure import LEAF_STRUCTURE, Structure


def spec_to_json(spec: ElementSpec) -> dict[str, Any]:
    """What ``spec_from_json`` makes an equal spec of.

    Raises:
        TypeError: elements hold what no file keeps: datasets, ragged arrays, dimensions after the
            first that vary, dictionary keys other than strings and integers.
    """
    if has_datasets(spec) or has_ragged(spec):
        raise TypeError(
            f"datasets and ragged arrays cannot be stored, elements are {spec.tree()}; unbatch "
            "ragged batches before"
        )
    for i, leaf in enumerate(spec.leaves):
        if None in leaf.shape[1:]:
            raise TypeError(
                f"leaf {i} is {leaf}: only the first dimension of what is stored may vary; pad the "
                "others in a map before"
            )
    leaves = [
        {"shape": list(leaf.shape), "dtype": "string" if leaf.is_string else leaf.dtype.name}
        for leaf in spec.leaves
    ]
    return {"structure": _to_json(spec.structure), "leaves": leaves}


def spec_from_json(text: dict[str, Any]) -> ElementSpec:
    """The spec that was stored; a namedtuple's type is made anew, with its name and fields."""
    leaves = tuple(TensorSpec(leaf["shape"], leaf["dtype"]) for leaf in text["leaves"])
    return ElementSpec(_from_json(text["structure"]), leaves)


def _to_json(structure: Structure) -> Any:
    children = [_to_json(child) for child in structure.children]
    made: dict[str, Any] = {"kind": structure.kind, "children": children}
    if structure.kind == "dict":
        for key in structure.keys:
            if not isinstance(key, str | int):
                raise TypeError(f"elements with the key {key!r} cannot be stored: use strings")
        made["keys"] = list(structure.keys)
    if structure.kind == "namedtuple":
        made["name"], made["keys"] = structure.type.__name__, list(structure.type._fields)
    return made


def _from_json(text: dict[str, Any]) -> Structure:
    kind = text["kind"]
    children = tuple(_from_json(child) for child in text["children"])
    if kind == "dict":
        return Structure(kind, dict, tuple(text["keys"]), children)
    if kind == "namedtuple":
        made: Any = collections.namedtuple(str(text["name"]), text["keys"])  # type: ignore[misc]
        return Structure(kind, made, (), children)
    if kind == "none":
        return Structure("none")
    types = {"tuple": tuple, "list": list}
    return Structure(kind, types[kind], (), children) if kind in types else LEAF_STRUCTURE
