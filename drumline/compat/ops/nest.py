"""``tf.nest``: nested lists, tuples and dicts of any values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from drumline.compat.values.shape import TensorShape


def is_nested(seq: Any) -> bool:
    """Whether it is a list, tuple or dict; a string or tensor is none."""
    return isinstance(seq, (list, tuple, Mapping)) and not isinstance(seq, TensorShape)


def nest_flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """The leaves of a nested value, in order; those of dicts by sorted keys."""
    found: list[Any] = []
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            found += nest_flatten(structure[key])
        return found
    if is_nested(structure):
        for each in structure:
            found += nest_flatten(each)
        return found
    return [structure]


def nest_map_structure(
    func: Callable[..., Any],
    *structure: Any,
    check_types: bool = True,
    expand_composites: bool = False,
) -> Any:
    """A function of the leaves of nested values of one structure.

    Args:
        func: takes a leaf of each value.
        structure: the values.
        check_types: whether lists and tuples, and tuples of differing classes, differ.
        expand_composites: accepted; ragged and sparse tensors are leaves.

    Raises:
        ValueError: they have not the same nested values, or there is none.
        TypeError: they have, in other classes, or `func` is no function.
    """
    if not callable(func):
        raise TypeError(f"`func` must be callable, got: {func}")
    if not structure:
        raise ValueError("Must provide at least one structure")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types)
    rows = zip(*map(nest_flatten, structure), strict=True)
    return _packed(structure[0], (func(*row) for row in rows))


def _packed(structure: Any, leaves: Iterator[Any]) -> Any:
    """A value nested as a structure is, of leaves in the order of `nest_flatten`."""
    if isinstance(structure, Mapping):
        made = {key: _packed(structure[key], leaves) for key in sorted(structure)}
        ordered = [(key, made[key]) for key in structure]
        if hasattr(structure, "default_factory"):
            return type(structure)(structure.default_factory, ordered)  # type: ignore[call-arg]
        return type(structure)(ordered)  # type: ignore[call-arg]
    if not is_nested(structure):
        return next(leaves)
    found = [_packed(each, leaves) for each in structure]
    if hasattr(structure, "_fields"):
        return type(structure)(*found)
    return type(structure)(found)


def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Check that two values are nested in the same way.

    Args:
        nest1: the one.
        nest2: the other.
        check_types: whether lists and tuples, and tuples of differing classes, differ.
        expand_composites: accepted; ragged and sparse tensors are leaves.

    Raises:
        ValueError: they have not the same nested values.
        TypeError: they have, in other classes.
    """
    _same(nest1, nest2, check_types, "")


def _same(one: Any, other: Any, check_types: bool, path: str) -> None:
    where = f" at {path}" if path else ""
    if is_nested(one) != is_nested(other):
        inner, outer = (one, other) if is_nested(one) else (other, one)
        raise ValueError(
            f"The two structures don't have the same nested structure{where}: "
            f"{inner!r:.60} is nested, {outer!r:.60} is not"
        )
    if not is_nested(one):
        return
    if check_types and _kind(one) is not _kind(other):
        raise TypeError(
            f"The two structures don't have the same sequence type{where}: "
            f"{type(one).__name__} and {type(other).__name__}"
        )
    if isinstance(one, Mapping) != isinstance(other, Mapping) or len(one) != len(other):
        raise ValueError(
            f"The two structures don't have the same nested structure{where}: "
            f"{len(one)} and {len(other)} elements in {one!r:.60} and {other!r:.60}"
        )
    if isinstance(one, Mapping):
        if one.keys() != other.keys():
            raise ValueError(
                f"The two dictionaries don't have the same set of keys{where}: {sorted(one)} and "
                f"{sorted(other)}"
            )
        for key in one:
            _same(one[key], other[key], check_types, f"{path}[{key!r}]")
        return
    for place, (a, b) in enumerate(zip(one, other, strict=True)):
        _same(a, b, check_types, f"{path}[{place}]")


def _kind(structure: Any) -> type:
    """The class that counts: dicts of all classes are alike."""
    return dict if isinstance(structure, Mapping) else type(structure)


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """The values of a flat list, nested as a structure is.

    Raises:
        ValueError: there are more values than leaves, or fewer.
        TypeError: `flat_sequence` is no list or tuple.
    """
    if not is_nested(flat_sequence):
        raise TypeError(f"flat_sequence must be a list or tuple, not {type(flat_sequence)}")
    values = nest_flatten(flat_sequence) if isinstance(flat_sequence, Mapping) else flat_sequence
    if not is_nested(structure):
        if len(values) != 1:
            raise ValueError(
                f"The target structure is a single value, but {len(values)} values are given"
            )
        return values[0]
    count = len(nest_flatten(structure))
    if count != len(values):
        raise ValueError(
            f"Could not pack sequence. Structure had {count} atoms, but flat_sequence had "
            f"{len(values)} items. Structure: {structure!r:.80}"
        )
    return _packed(structure, iter(values))
