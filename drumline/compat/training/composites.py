"""Ragged, sparse and extension types as arguments and results of concrete and saved functions.

A saved program takes and gives arrays. Of an extension type it takes the tensors, of a ragged
tensor the innermost values: how these are cut into rows is not part of the program, so that any
rows go in, and a result has the rows of an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from drumline.compat.composite.extension import (
    ExtensionType,
    ExtensionTypeSpec,
    fields_of,
    tensors_within,
    with_fields,
    with_parts,
)
from drumline.compat.composite.extension_fields import ImmutableDict
from drumline.compat.composite.ragged import RaggedTensor
from drumline.compat.composite.sparse import SparseSpec, SparseTensor
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import map_structure
from drumline.compat.values.composite import CompositeTensor
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.specs import ArraySpec, RaggedSpec, TypeSpec
from drumline.compat.values.tensor import Tensor

COMPOSITE_SPECS = (ExtensionTypeSpec, RaggedSpec, SparseSpec)
_PLAIN = (bool, int, float, str, type(None))


def array_specs(tree: Any) -> list[ArraySpec]:
    """The specs of all tensors in nested values, those of composite tensors among them."""
    leaves: list[Any] = []
    map_structure(leaves.append, tree)
    return [each for leaf in leaves for each in _parts(leaf)]


def _parts(leaf: Any) -> list[ArraySpec]:
    if isinstance(leaf, ArraySpec):
        return [leaf]
    if isinstance(leaf, (ExtensionTypeSpec, SavedTypeSpec)):
        parts = leaf.parts if isinstance(leaf, SavedTypeSpec) else tensors_within(leaf)
        return [each for part in parts for each in _parts(part)]
    if isinstance(leaf, RaggedSpec):
        inner = tuple(leaf.shape)[leaf.ragged_rank + 1 :]
        return [ArraySpec([None, *inner], leaf.dtype)]
    return [ArraySpec([None], leaf.dtype)] if isinstance(leaf, SparseSpec) else []


def filled(leaf: Any, fill: Callable[[ArraySpec], Any], size: int = 2) -> Any:
    """What a spec describes, with tensors made of their specs; other values as they are.

    Args:
        leaf: a spec, or another value.
        fill: makes a tensor.
        size: of dimensions that are unknown, where values are cut into rows.
    """
    if isinstance(leaf, ExtensionTypeSpec):
        return with_parts(leaf, [filled(part, fill, size) for part in tensors_within(leaf)])
    if isinstance(leaf, (RaggedSpec, SparseSpec)):
        values = fill(_parts(leaf)[0])
        if isinstance(leaf, SparseSpec):
            return _with_places(leaf, values, size)
        return _with_rows(leaf, values, size)
    return fill(leaf) if isinstance(leaf, ArraySpec) else leaf


def _with_rows(spec: RaggedSpec, values: Any, size: int) -> RaggedTensor:
    """A ragged tensor whose first rows have all values."""
    counts = [spec.shape[0] or size, *[size] * (spec.ragged_rank - 1)]
    made, total = values, int(tuple(values.shape)[0])
    kind = spec.row_splits_dtype.dtype
    for count in reversed(counts):
        made, total = RaggedTensor(made, np.array([0, *[total] * count], kind)), count
    return made


def _with_places(spec: SparseSpec, values: Any, size: int) -> SparseTensor:
    """A sparse tensor whose first places have the values."""
    sizes = [each or size for each in (spec.shape if spec.shape.rank else (None, None))]
    flat = np.arange(int(tuple(values.shape)[0])) % np.prod(sizes)
    return SparseTensor(np.stack(np.unravel_index(flat, sizes), 1), values, sizes)


def spec_of_argument(leaf: Any) -> Any:
    """The spec of a composite tensor; other values as they are."""
    return getattr(leaf, "_type_spec", leaf) if isinstance(leaf, CompositeTensor) else leaf


class ArgumentRows(RaggedTensor):
    """A ragged argument of a function that is saved: any rows, which the function cannot look at.

    Args:
        values: the innermost ones.
        number: which of the ragged arguments it is.
        spec: of the argument.
    """

    def __init__(self, values: Tensor, number: int, spec: RaggedSpec):
        self._flat, self.number, self._spec = values, number, spec

    @property
    def flat_values(self) -> Tensor:
        return self._flat

    @property
    def dtype(self) -> Any:
        return self._flat.dtype

    @property
    def shape(self) -> TensorShape:
        return self._spec.shape

    @property
    def ragged_rank(self) -> int:
        return self._spec.ragged_rank

    @property
    def _type_spec(self) -> RaggedSpec:
        return self._spec

    def with_flat_values(self, new_values: Any) -> RaggedTensor:
        """Other innermost values in these rows."""
        held = new_values if type(new_values) is Tensor else Tensor(new_values)
        return ArgumentRows(held, self.number, self._spec)

    def has_rows_of(self, other: RaggedTensor) -> bool:
        """Whether the rows are known to be those of another one."""
        return isinstance(other, ArgumentRows) and other.number == self.number

    def _refuse(self, *_: Any) -> Any:
        raise NotImplementedError(
            "a saved function is for rows of any lengths, and this one looks at the lengths of its "
            "ragged argument: save a function of its flat_values and row_splits, or of to_tensor()"
        )

    values = splits = levels = property(_refuse)
    __repr__ = __str__ = __getitem__ = __iter__ = __len__ = _refuse


def name_of(cls: type) -> str:
    """The name that a saved function knows an extension type by: its ``__name__``, or its path."""
    declared = vars(cls).get("__name__")
    return str(declared) if declared else f"{cls.__module__}.{cls.__qualname__}"


def _class_named(name: str) -> type | None:
    """The extension type of a name that was declared last; None if there is none."""
    found = None
    waiting = [ExtensionType]
    while waiting:
        cls = waiting.pop(0)
        found = cls if name_of(cls) == name else found
        waiting += cls.__subclasses__()
    return found


class SavedTypeSpec(TypeSpec):
    """An extension type as the argument of a saved function, whose class may not be declared yet.

    Args:
        name: see `name_of`.
        fields: by their names, with specs in place of tensors.
    """

    def __init__(self, name: str, fields: Mapping[str, Any]):
        self.name, self._fields = name, dict(fields)

    @property
    def parts(self) -> list[Any]:
        """The specs of its tensors."""
        found: list[Any] = []

        def note(value: Any) -> None:
            if isinstance(value, TypeSpec):
                found.append(value)
            elif isinstance(value, ImmutableDict):
                for key in sorted(value):
                    note(value[key])
            elif isinstance(value, tuple) and not isinstance(value, TensorShape):
                for each in value:
                    note(each)

        for each in self._fields.values():
            note(each)
        return found

    def resolved(self, cls: type | None = None) -> Any:
        """The spec of the class, if one of this name is declared; else this one."""
        cls = _class_named(self.name) if cls is None else cls
        if cls is None:
            return self
        known = {
            name: each.resolved() if isinstance(each, SavedTypeSpec) else each
            for name, each in self._fields.items()
        }
        return with_fields(cls, known, of_spec=True)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether it is a value of the extension type, of its specs."""
        cls = type(spec_or_value)
        if not issubclass(cls, ExtensionType) or name_of(cls) != self.name:
            return False
        return bool(self.resolved(cls).is_compatible_with(spec_or_value))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={each!r}" for name, each in self._fields.items())
        return f"{self.name}.Spec({fields})"


# Specs in JSON.


def is_portable(value: Any) -> bool:
    """Whether a spec, or a value that is part of a function, can be described."""
    if isinstance(value, ArraySpec | RaggedSpec):
        return True
    if isinstance(value, ExtensionTypeSpec):
        return all(map(_is_portable_field, fields_of(value).values()))
    return isinstance(value, _PLAIN)


def _is_portable_field(value: Any) -> bool:
    if isinstance(value, ImmutableDict):
        return all(map(_is_portable_field, value.values()))
    if isinstance(value, TensorShape | dtypes.DType):
        return True
    if isinstance(value, tuple):
        return all(map(_is_portable_field, value))
    return is_portable(value)


def described_spec(spec: Any, tensor: Callable[[ArraySpec], Any]) -> dict[str, Any]:
    """A spec, or a value that is part of a function, in JSON; `tensor` describes those of arrays.

    It is called in the order of `array_specs`.
    """
    if isinstance(spec, ArraySpec):
        return {"spec": tensor(spec)}
    if isinstance(spec, RaggedSpec):
        shape = None if spec.shape.rank is None else list(spec.shape)
        about = [shape, spec.dtype.name, spec.ragged_rank, spec.row_splits_dtype.name]
        return {"ragged": [*about, tensor(_parts(spec)[0])]}
    if isinstance(spec, ExtensionTypeSpec):
        return _described_fields(spec, lambda each: described_spec(each, tensor))
    return {"constant": spec}


def _described_fields(value: Any, leaf: Callable[[Any], Any]) -> dict[str, Any]:
    cls = value.value_type if isinstance(value, ExtensionTypeSpec) else type(value)

    def described(each: Any) -> Any:
        if isinstance(each, ImmutableDict):
            return {"mapping": [[key, described(each[key])] for key in sorted(each)]}
        if isinstance(each, TensorShape):
            return {"shape": None if each.rank is None else list(each)}
        if isinstance(each, dtypes.DType):
            return {"dtype": each.name}
        if isinstance(each, tuple):
            return {"tuple": list(map(described, each))}
        return leaf(each)

    fields = [[name, described(each)] for name, each in fields_of(value).items()]
    return {"extension": [name_of(cls), fields]}


def _fields(described: Any, leaf: Callable[[Any], Any]) -> dict[str, Any]:
    def made(each: Mapping[str, Any]) -> Any:
        ((kind, inner),) = each.items()
        if kind == "mapping":
            return ImmutableDict({key: made(part) for key, part in inner})
        if kind == "tuple":
            return tuple(map(made, inner))
        if kind == "shape":
            return TensorShape(inner)
        return dtypes.as_dtype(inner) if kind == "dtype" else leaf(each)

    return {name: made(each) for name, each in described}


def spec_described(described: Mapping[str, Any], tensor: Callable[[Any], ArraySpec]) -> Any:
    """Undo `described_spec`."""
    ((kind, inner),) = described.items()
    if kind == "spec":
        return tensor(inner)
    if kind == "ragged":
        tensor(inner[4])
        return RaggedSpec(*inner[:4])
    if kind == "extension":
        name, fields = inner
        return SavedTypeSpec(name, _fields(fields, lambda each: spec_described(each, tensor)))
    return inner


# Values of a program's arguments and results.


def saved_argument(spec: Any, tensors: Iterator[Any], rows: list[RaggedSpec]) -> Any:
    """An argument of a function that is saved, made of the program's arrays.

    Args:
        spec: a spec, or a value that is part of the function.
        tensors: the arrays, in the order of `array_specs`.
        rows: the specs of the ragged arguments so far; one more is noted.
    """
    if isinstance(spec, ExtensionTypeSpec):
        parts = [saved_argument(part, tensors, rows) for part in tensors_within(spec)]
        return with_parts(spec, parts)
    if isinstance(spec, RaggedSpec):
        rows.append(spec)
        return ArgumentRows(next(tensors), len(rows) - 1, spec)
    return next(tensors) if isinstance(spec, ArraySpec) else spec


def arrays_of(value: Any, rows: list[RaggedTensor]) -> list[Any]:
    """The tensors of an argument, in the order of `array_specs`; ragged ones are noted."""
    if isinstance(value, ExtensionType):
        return [each for part in tensors_within(value) for each in arrays_of(part, rows)]
    if isinstance(value, RaggedTensor):
        rows.append(value)
        return [value.flat_values]
    return [value]


def described_result(value: Any, output: Callable[[Any], Any]) -> dict[str, Any]:
    """A composite tensor that a program gives, in JSON; `output` describes its arrays.

    Raises:
        NotImplementedError: it is sparse, or has fields that programs do not give.
    """
    if isinstance(value, RaggedTensor):
        about = {"rank": value.ragged_rank, "values": output(value.flat_values)}
        if isinstance(value, ArgumentRows):
            return {"ragged": {"rows": value.number, **about}}
        return {"ragged": {"splits": [level.splits.tolist() for level in value.levels], **about}}
    if isinstance(value, ExtensionType):
        return _described_fields(
            value,
            lambda each: (
                described_result(each, output)
                if isinstance(each, CompositeTensor)
                else {"constant": each}
                if isinstance(each, _PLAIN)
                else output(each)
            ),
        )
    raise NotImplementedError(
        f"a saved function gives a {type(value).__name__}: give its values and places instead"
    )


def result_described(
    described: Mapping[str, Any], output: Callable[[Any], Any], rows: Sequence[RaggedTensor]
) -> Any:
    """Undo `described_result`.

    Args:
        described: the description.
        output: makes a tensor of its description.
        rows: the ragged arguments.

    Raises:
        NameError: no extension type of this name is declared.
    """
    if "output" in described:
        return output(described)
    ((kind, inner),) = described.items()
    if kind == "ragged":
        values = output(inner["values"])
        if "rows" in inner:
            return rows[inner["rows"]].with_flat_values(values)
        return RaggedTensor.from_nested_row_splits(values, inner["splits"])
    if kind == "extension":
        name, fields = inner
        cls = _class_named(name)
        if cls is None:
            raise NameError(
                f"the saved function gives a {name}, and there is no such extension type here: "
                "declare it, or import the module that does, before the function is called"
            )
        made = _fields(fields, lambda each: result_described(each, output, rows))
        return with_fields(cls, made)
    assert kind == "constant", described
    return inner


def result_spec_described(described: Mapping[str, Any], output: Callable[[Any], Any]) -> Any:
    """The spec of what `result_described` gives; `output` makes the spec of an array."""
    if "output" in described:
        return output(described)
    ((kind, inner),) = described.items()
    if kind == "ragged":
        values = output(inner["values"])
        rank = inner["rank"]
        shape = [None] * (rank + 1) + list(values.shape)[1:]
        return RaggedSpec(shape, values.dtype, rank)
    if kind == "extension":
        name, fields = inner
        made = _fields(fields, lambda each: result_spec_described(each, output))
        return SavedTypeSpec(name, made).resolved()
    return inner if kind == "constant" else output(described)
