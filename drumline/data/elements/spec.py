"""What one element of a dataset looks like: its structure, specs of its leaves, cardinalities.

JAX sorts dictionary keys and turns ``None`` into an empty node; elements of a dataset must come
back exactly as the user built them. So `Structure` is a small tree of its own: tuples, lists, dicts
in their own order, namedtuples.
"""

from __future__ import annotations

import dataclasses
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from drumline.data.elements.errors import did_you_mean

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


STRING = np.dtype(object)
"""The dtype of columns of ``bytes``: numpy's object dtype, every item a ``bytes``."""

_STRING_NAMES = ("string", "bytes", "str", "object")


def as_dtype(dtype: Any) -> np.dtype:
    """Returns the numpy dtype of a column, ``STRING`` for any spelling of a string type.

    Args:
        dtype: a numpy dtype or anything ``np.dtype`` takes, ``bfloat16`` included; ``str``,
            ``bytes`` and ``"string"`` mean bytes columns.

    Raises:
        TypeError: it is none of these, or a dtype no column can have (datetimes, records).
    """
    if dtype in (str, bytes) or (isinstance(dtype, str) and dtype in _STRING_NAMES):
        return STRING
    if isinstance(dtype, str) and hasattr(ml_dtypes, dtype):
        return np.dtype(getattr(ml_dtypes, dtype))
    try:
        result = np.dtype(dtype)
    except TypeError:
        hint = did_you_mean(dtype, [*np.sctypeDict, "string"]) if isinstance(dtype, str) else ""
        raise TypeError(
            f"dtype must be a numpy dtype, its name or 'string', got {dtype!r:.40}. {hint}".rstrip()
        ) from None
    if result.kind in "SUO":
        return STRING
    if result.kind in "biufc" or (
        result.kind == "V" and result.fields is None and result.type != np.void
    ):
        return result
    raise TypeError(f"a dataset column cannot have dtype {result!r}; use a number, bool or bytes")


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of one leaf of an element, as ``tf.TensorSpec``.

    Attributes:
        shape: the dimensions; ``None`` stands for one that varies between elements.
        dtype: a numpy dtype; numpy's object dtype stands for ``bytes``.
        name: shown by ``repr``; it takes no part in comparisons.
    """

    shape: tuple[int | None, ...] = ()
    dtype: np.dtype = dataclasses.field(default_factory=lambda: np.dtype(np.float32))
    name: str | None = dataclasses.field(default=None, compare=False)

    def __init__(
        self, shape: Sequence[int | None], dtype: Any = np.float32, name: str | None = None
    ):
        try:
            dims = tuple(None if d is None else int(d) for d in shape)
        except (TypeError, ValueError):
            raise TypeError(
                "TensorSpec: shape must be a sequence with an integer or None for each dimension, "
                f"got {shape!r:.40}"
            ) from None
        object.__setattr__(self, "shape", dims)
        try:
            object.__setattr__(self, "dtype", as_dtype(dtype))
        except TypeError as error:
            raise TypeError(f"TensorSpec: {error}") from None
        object.__setattr__(self, "name", name)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is known."""
        return None not in self.shape

    @property
    def is_string(self) -> bool:
        """Whether the leaf holds ``bytes``."""
        return self.dtype == STRING

    @property
    def is_symbolic(self) -> bool:
        """Whether functions get symbols of such values: no compiled program can hold them."""
        return self.is_string or not self.is_static

    @property
    def nbytes(self) -> int | None:
        """Bytes of one element of this leaf; ``None`` if a dimension varies or it holds bytes."""
        if self.is_string or not self.is_static:
            return None
        return math.prod(dim or 0 for dim in self.shape) * self.dtype.itemsize

    def accepts(self, shape: Sequence[int], dtype: np.dtype) -> bool:
        """Whether a value of this shape and dtype is described by the spec."""
        return (
            dtype == self.dtype
            and len(shape) == len(self.shape)
            and all(
                mine is None or mine == theirs
                for mine, theirs in zip(self.shape, shape, strict=True)
            )
        )

    def batched(self, size: int | None) -> TensorSpec:
        """The spec of a batch: one more dimension in front."""
        return TensorSpec((size, *self.shape), self.dtype, self.name)

    def merged(self, other: TensorSpec) -> TensorSpec | None:
        """The narrowest spec that describes both, or ``None`` if kinds, ranks or dtypes differ."""
        same = type(self) is type(other) and self.dtype == other.dtype
        if not same or len(self.shape) != len(other.shape):
            return None
        shape = [x if x == y else None for x, y in zip(self.shape, other.shape, strict=True)]
        return TensorSpec(shape, self.dtype, self.name)

    def __repr__(self) -> str:
        dtype = "string" if self.is_string else self.dtype.name
        name = f", name={self.name!r}" if self.name is not None else ""
        return f"TensorSpec(shape={self.shape}, dtype={dtype}{name})"


@dataclasses.dataclass(frozen=True)
class ElementSpec:
    """The structure of an element and the spec of each of its leaves, in the structure's order."""

    structure: Structure
    leaves: tuple[TensorSpec, ...]

    def tree(self) -> Any:
        """The specs in the user's structure, as ``Dataset.element_spec`` shows them."""
        return self.structure.unflatten(self.leaves)

    def named(self, leaf: int) -> str:
        """What messages call the leaf of that number: ``"element['a']"``."""
        return f"element{self.structure.paths()[leaf]}"

    def with_leaves(self, leaves: Sequence[TensorSpec]) -> ElementSpec:
        """The same structure over other leaves."""
        return ElementSpec(self.structure, tuple(leaves))

    def row_nbytes(self, unknown: int = 64) -> int:
        """Estimated bytes of one element; leaves of unknown size count ``unknown`` each."""
        sizes = (leaf.nbytes for leaf in self.leaves)
        return max(1, sum(unknown if size is None else size for size in sizes))


def merge_leaf(a: TensorSpec, b: TensorSpec) -> TensorSpec | None:
    """The narrowest spec that describes both, or ``None`` if ranks or dtypes differ."""
    return a.merged(b)


class DatasetValue:
    """What ``Dataset`` inherits, so that values are known as datasets where it is not imported."""

    _plan: Any


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class DatasetSpec(TensorSpec):
    """Says what the elements of a dataset inside a dataset look like, as ``tf.data.DatasetSpec``.

    Among a dataset's leaves it takes the place of a ``TensorSpec``; a column of such leaves holds
    ``Dataset`` objects.

    Attributes:
        element: the spec of the inner dataset's elements.
    """

    element: ElementSpec = dataclasses.field(kw_only=True)

    def __init__(self, element_spec: Any, dataset_shape: Sequence[int] = ()):
        """Takes a nested structure of specs, as ``Dataset.element_spec`` gives it.

        Raises:
            ValueError: ``dataset_shape`` is not that of a single dataset.
        """
        if tuple(dataset_shape):
            raise ValueError(
                "DatasetSpec: arrays of datasets do not exist; leave dataset_shape out"
            )
        if not isinstance(element_spec, ElementSpec):
            leaves, structure = flatten(element_spec)
            element_spec = ElementSpec(structure, tuple(leaves))
        super().__init__((), STRING)
        object.__setattr__(self, "element", element_spec)

    @property
    def element_spec(self) -> Any:
        """The specs of the inner dataset's elements, in their structure."""
        return self.element.tree()

    @property
    def is_string(self) -> bool:
        return False

    @property
    def nbytes(self) -> int | None:
        return None

    def accepts(self, shape: Sequence[int], dtype: np.dtype) -> bool:
        return not shape and dtype == STRING

    def batched(self, size: int | None) -> TensorSpec:
        raise TypeError(
            f"datasets cannot be stacked: a leaf is {self!r}; make its elements arrays first, with "
            "flat_map(lambda window: window.batch(n))"
        )

    def merged(self, other: TensorSpec) -> TensorSpec | None:
        if not isinstance(other, DatasetSpec):
            return None
        element = merged_element(self.element, other.element)
        return None if element is None else DatasetSpec(element)

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r})"


def merged_element(a: ElementSpec, b: ElementSpec) -> ElementSpec | None:
    """The narrowest spec of elements of both, or ``None`` if there is none."""
    if a == b:
        return a
    if a.structure != b.structure:
        return None
    leaves = [merge_leaf(x, y) for x, y in zip(a.leaves, b.leaves, strict=True)]
    found = [leaf for leaf in leaves if leaf is not None]
    return a.with_leaves(found) if len(found) == len(leaves) else None


def has_datasets(spec: ElementSpec) -> bool:
    """Whether some leaf is a dataset."""
    return any(isinstance(leaf, DatasetSpec) for leaf in spec.leaves)


_INT32 = np.iinfo(np.int32)


def is_array_literal(value: Any) -> bool:
    """Whether a list is a literal of numbers or strings, so that it means one array.

    A list that holds arrays, tuples or dicts is a structure of the user's instead.
    """
    if type(value) is not list:
        return False
    return all(
        isinstance(item, bool | int | float | complex | str | bytes | np.generic)
        or is_array_literal(item)
        for item in value
    )


def as_array(value: Any, exact: bool = False) -> np.ndarray:
    """Returns ``value`` as a numpy array with the dtype a column of it has.

    Arrays keep their dtype; Python integers become int32 (int64 where they do not fit), Python
    floats float32, complex numbers complex64, ``str`` is encoded as UTF-8: the rules of
    ``tf.convert_to_tensor``.

    Args:
        value: of the user's.
        exact: whether Python's numbers are to keep all their digits, for a cast to a dtype that is
            known: they become int64, float64 and complex128.

    Raises:
        TypeError: the value is no number, string or array of these.
        ValueError: a nested list is not rectangular.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        # XLA knows the machine's own byte order only.
        return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))
    if isinstance(value, bytes | str):
        return _encoded(np.array(value, dtype=object))
    if isinstance(value, bool | int | float | complex | list | tuple):
        return _from_python(value, exact)
    array = np.asarray(value)
    if array.dtype.kind in "SUO":
        return _encoded(array)
    as_dtype(array.dtype)
    return array


def within(error: Exception, place: str) -> Exception:
    """An error of ``as_array`` that says where the value was; of a kind that takes a message."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{place}: {error}")


def _from_python(value: Any, exact: bool) -> np.ndarray:
    try:
        array = np.array(value, dtype=object) if _holds_strings(value) else np.array(value)
    except ValueError as error:
        raise _uneven() from error
    kind = array.dtype.kind
    if kind in "SUO":
        return _encoded(array)
    if exact or _holds_numpy(value):
        return array
    if kind == "i":
        fits = array.size == 0 or (array.min() >= _INT32.min and array.max() <= _INT32.max)
        return array.astype(np.int32) if fits else array
    if kind == "f":
        return array.astype(np.float32)
    return array.astype(np.complex64) if kind == "c" else array


def _first(value: Any) -> Any:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return value


def _holds_strings(value: Any) -> bool:
    return isinstance(_first(value), str | bytes)


def _holds_numpy(value: Any) -> bool:
    return isinstance(_first(value), np.generic | np.ndarray)


def _encoded(array: np.ndarray) -> np.ndarray:
    out = np.empty(array.shape, STRING)
    flat = out.reshape(-1)
    for i, item in enumerate(array.reshape(-1)):
        if isinstance(item, bytes):
            flat[i] = item
        elif isinstance(item, str):
            flat[i] = item.encode()
        elif isinstance(item, list | tuple):
            raise _uneven()
        else:
            raise TypeError(
                f"cannot make a column of {type(item).__name__} (item {i}: {item!r:.60}); "
                "columns hold numbers, bools, bytes or str"
            )
    return out


def _uneven() -> ValueError:
    return ValueError(
        "a list whose items differ in length or depth is no array; rows of different lengths are a "
        "dl.RaggedArray.from_rows(...)"
    )


INFINITE: Final = -1
"""The dataset never ends (``tf.data.INFINITE_CARDINALITY``)."""

UNKNOWN: Final = -2
"""The number of elements is known only after iterating (``tf.data.UNKNOWN_CARDINALITY``)."""


def is_known(cardinality: int) -> bool:
    """Whether ``cardinality`` is a number of elements rather than a marker."""
    return cardinality >= 0


AUTOTUNE: Final = -1
"""Leaves a number (of threads, of buffered elements) to drumline, as ``tf.data.AUTOTUNE``."""
