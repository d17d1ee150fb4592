"""Plans for the constructors of ``Dataset``."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from drumline.data.elements.ragged import RaggedArray, objects, spec_of
from drumline.data.elements.rows import single, spec_of_leaf, specs_of_leaves
from drumline.data.elements.spec import (
    LEAF,
    DatasetSpec,
    ElementSpec,
    Structure,
    TensorSpec,
    as_array,
    as_dtype,
    flatten,
    is_array_literal,
    merged_element,
    within,
)
from drumline.data.operations.reading.sources import (
    Generator,
    Range,
    SequenceItems,
    Slices,
    SlicesWithDatasets,
)
from drumline.data.options import BaseDataset
from drumline.data.plan.node import Node


def slices(tensors: Any) -> Slices | SlicesWithDatasets:
    """Return rows along the first axis of every leaf."""
    columns, structure = _columns(tensors, "from_tensor_slices", lists=True)
    paths = structure.paths()
    for path, column in zip(paths, columns, strict=True):
        if isinstance(column, BaseDataset):
            raise ValueError(
                f"from_tensor_slices: {path or 'it'} is a dataset and cannot be sliced; use "
                "from_tensors, or give a list of datasets"
            )
        if not isinstance(column, _Datasets) and column.ndim == 0:
            raise ValueError(
                f"from_tensor_slices: {path or 'it'} is a scalar ({column!r:.40}) and cannot be "
                "sliced; use from_tensors, or give everything a first dimension"
            )
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        found = ", ".join(f"{p}: {len(c)}" for p, c in zip(paths, columns, strict=True))
        raise ValueError(f"from_tensor_slices: first dimensions differ ({found})")
    if any(isinstance(column, _Datasets) for column in columns):
        return _with_datasets(columns, None, structure, lengths.pop())
    spec, columns = ragged_columns(columns)
    return Slices((), ElementSpec(structure, spec), tuple(columns), lengths.pop())


def tensors(value: Any) -> Slices | SlicesWithDatasets:
    """Return one element."""
    columns, structure = _columns(value, "from_tensors")
    if any(isinstance(column, BaseDataset) for column in columns):
        rows: list[Any] = []
        for column in columns:
            if isinstance(column, BaseDataset):
                rows.append(_Datasets([column]))
            else:
                rows.append((single(column) if isinstance(column, RaggedArray) else column)[None])
        return _with_datasets(rows, [spec_of_leaf(c, static=True) for c in columns], structure, 1)
    spec = tuple(spec_of_leaf(column, static=True) for column in columns)
    rows = [single(c) if isinstance(c, RaggedArray) else c for c in columns]
    return Slices((), ElementSpec(structure, spec), tuple(row[None] for row in rows), 1)


class _Datasets(list[BaseDataset]):
    """A column of datasets."""


def _with_datasets(
    columns: Sequence[Any], specs: Sequence[TensorSpec] | None, structure: Structure, length: int
) -> SlicesWithDatasets:
    """Return a plan of columns, of which some hold datasets, with ``specs`` if known."""
    inputs: list[Node] = []
    found: list[TensorSpec] = []
    made: list[Any] = []
    for i, (column, path) in enumerate(zip(columns, structure.paths(), strict=True)):
        if isinstance(column, _Datasets):
            found.append(_spec_of_all(column, path))
            made.append(np.arange(len(inputs), len(inputs) + len(column)))
            inputs += [dataset._plan for dataset in column]
        elif specs is not None:
            found.append(specs[i])
            made.append(column)
        else:
            (spec,), (rows,) = ragged_columns([column])
            found.append(spec)
            made.append(rows)
    return SlicesWithDatasets(
        tuple(inputs), ElementSpec(structure, tuple(found)), tuple(made), length
    )


def _spec_of_all(datasets: Sequence[BaseDataset], path: str) -> DatasetSpec:
    found = datasets[0]._plan.spec
    for i, dataset in enumerate(datasets):
        merged = merged_element(found, dataset._plan.spec)
        if merged is None:
            where = f"from_tensor_slices: {path}" if path else "from_tensor_slices"
            raise TypeError(
                f"{where}: datasets of one list must have elements of one structure and dtype; "
                f"that of dataset {i} is {dataset._plan.spec.tree()}, those before it have "
                f"{found.tree()}"
            )
        found = merged
    return DatasetSpec(found)


def ragged_columns(columns: list[Any]) -> tuple[tuple[TensorSpec, ...], list[Any]]:
    """Return the specs of rows of ``columns``, and these; ragged rows become objects."""
    specs: list[TensorSpec] = []
    made: list[Any] = []
    for column in columns:
        if isinstance(column, RaggedArray) and column.ragged_rank > 1:
            specs.append(spec_of(column).row())
            made.append(objects(column))
        else:
            specs.append(TensorSpec(column.shape[1:], column.dtype))
            made.append(column)
    return tuple(specs), made


def _columns(value: Any, operation: str, lists: bool = False) -> tuple[list[Any], Any]:
    """Return the leaves as columns; datasets are unchanged, ``lists`` of them become columns."""

    def is_leaf(item: Any) -> bool:
        return is_array_literal(item) or (lists and _are_datasets(item))

    leaves, structure = flatten(value, is_leaf)
    if not leaves:
        raise ValueError(f"{operation}: {value!r:.60} has no arrays in it")
    columns: list[Any] = []
    for path, leaf in zip(structure.paths(), leaves, strict=True):
        if isinstance(leaf, RaggedArray | BaseDataset):
            columns.append(leaf)
            continue
        if lists and _are_datasets(leaf):
            columns.append(_Datasets(leaf))
            continue
        try:
            column = as_array(leaf)
            columns.append(np.ascontiguousarray(column) if column.ndim else column)
        except (TypeError, ValueError) as error:
            raise within(error, f"{operation}: {path}" if path else operation) from error
    return columns, structure


def _are_datasets(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, BaseDataset) for item in value)
    )


def integers(arguments: tuple[int, ...], output_type: Any) -> Range:
    """Return Python's ``range`` of these arguments, int64 unless said otherwise."""
    if not 1 <= len(arguments) <= 3:
        raise TypeError(f"range takes 1 to 3 integers, got {len(arguments)}")
    try:
        values = range(*map(operator.index, arguments))
    except TypeError:
        raise TypeError(f"range takes integers, got {arguments!r:.60}") from None
    dtype = as_dtype(output_type)
    if dtype.kind not in "iuf":
        raise TypeError(f"range: output_type must be a number type, not {dtype}")
    if dtype.kind in "iu" and len(values):
        info = np.iinfo(dtype)
        for value in (values[0], values[-1]):
            if not info.min <= value <= info.max:
                raise ValueError(f"range: {value} does not fit {dtype}")
    return Range((), values.start, values.step, len(values), dtype)


def signature(output_types: Any, output_shapes: Any, output_signature: Any) -> Any:
    """Return a structure of ``TensorSpec``, as given or made of types and shapes."""
    if output_signature is not None:
        if output_types is not None or output_shapes is not None:
            raise TypeError(
                "from_generator: give output_signature alone, or output_types and output_shapes"
            )
        return output_signature
    if output_types is None or output_shapes is None:
        raise TypeError(
            "from_generator needs output_signature=dl.TensorSpec(shape, dtype), or output_types "
            "and output_shapes; drumline has no tensors of unknown rank"
        )
    types, structure = flatten(output_types)
    shapes = _shapes(structure, output_shapes)
    return structure.unflatten(map(TensorSpec, shapes, types))


def _shapes(structure: Structure, shapes: Any) -> list[Any]:
    """Return the shapes of a structure's leaves; a shape is itself a tuple or a list."""
    if structure.kind == LEAF:
        return [shapes]
    keys = structure.keys if structure.kind == "dict" else range(len(structure.children))
    if len(shapes) != len(structure.children):
        raise ValueError(
            f"from_generator: output_shapes {shapes!r} do not have the structure {structure} of "
            "output_types"
        )
    parts = [_shapes(s, shapes[key]) for key, s in zip(keys, structure.children, strict=True)]
    return [shape for part in parts for shape in part]


def generator(
    factory: Callable[..., Iterable[Any]], output_signature: Any, args: Sequence[Any] = ()
) -> Generator:
    """Return what calling ``factory`` and iterating over the result yields."""
    if not callable(factory):
        raise TypeError(
            f"from_generator: expected a callable that returns an iterable, got "
            f"{type(factory).__name__}; pass the generator function itself, not a generator"
        )
    element = signed(output_signature, "from_generator")
    name = getattr(factory, "__qualname__", type(factory).__name__).split("<locals>.")[-1]
    arguments = [as_array(argument) for argument in args]
    if arguments:
        factory = functools.partial(factory, *arguments)
        digest = hashlib.sha256(repr([a.tolist() for a in arguments]).encode()).hexdigest()[:8]
        name = f"{name}, args {digest}"
    return Generator((), element, factory, name)


def items(sequence: Sequence[Any], output_signature: Any) -> SequenceItems:
    """Return what ``sequence`` gives for the indices from 0 up to its length."""
    kind = type(sequence).__name__
    if not hasattr(sequence, "__getitem__") or not hasattr(sequence, "__len__"):
        raise TypeError(
            f"from_sequence: {kind} has no length or no indices; use from_generator for what can "
            "only be iterated over"
        )
    length = len(sequence)
    if output_signature is not None:
        return SequenceItems((), signed(output_signature, "from_sequence"), sequence, length, kind)
    if not length:
        raise ValueError(f"from_sequence: {kind} is empty: give an output_signature")
    leaves, structure = flatten(sequence[0], is_array_literal)
    element = specs_of_leaves(leaves, structure, True, f"from_sequence: item 0 of {kind}")
    if isinstance(sequence, list | tuple):
        element = _of_all(sequence, element)
    return SequenceItems((), element, sequence, length, kind)


def _of_all(items: Sequence[Any], first: ElementSpec) -> ElementSpec:
    """Return the spec without the dimensions in which items differ, as ``from_list`` has it.

    An item that differs in other ways raises when its turn has come.
    """
    specs = list(first.leaves)
    for item in items:
        leaves, structure = flatten(item, is_array_literal)
        if structure != first.structure:
            continue
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, np.ndarray) and specs[i].accepts(leaf.shape, leaf.dtype):
                continue
            with contextlib.suppress(TypeError, ValueError):
                specs[i] = specs[i].merged(spec_of_leaf(leaf, static=True)) or specs[i]
    return first.with_leaves(specs)


def signed(output_signature: Any, operation: str) -> ElementSpec:
    """Return the element that a user's ``output_signature`` says.

    Raises:
        TypeError: it holds something else than ``TensorSpec``.
        ValueError: it holds nothing.
    """
    leaves, structure = flatten(output_signature)
    for leaf in leaves:
        if not isinstance(leaf, TensorSpec):
            raise TypeError(f"{operation}: output_signature holds {leaf!r:.60}, not a TensorSpec")
    if not leaves:
        raise ValueError(f"{operation}: output_signature has no TensorSpec in it")
    return ElementSpec(structure, tuple(leaves))
