"""What all features have: a shape, a type, how they lie in an ``Example``, their JSON."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from drumline.data.elements.spec import STRING, as_dtype

Shape = tuple[int | None, ...]

Flat = np.ndarray | list[np.ndarray]
"""The values of n items: an array (n, ...), or a list of n arrays if their shapes differ."""

_PREFIX = "tensorflow_datasets.core.features."


class FeatureError(ValueError):
    """A value does not fit its feature, or a description of features is invalid."""


class BadItemError(ValueError):
    """What is stored of an item cannot be decoded.

    Attributes:
        item: the number of the item among those that were decoded together.
    """

    def __init__(self, item: int, message: str) -> None:
        super().__init__(message)
        self.item = item


@dataclasses.dataclass(frozen=True)
class SerializedSpec:
    """How a part of a feature lies in an ``Example``.

    Attributes:
        shape: of one item; at most one dimension is ``None``.
        dtype: of the values; ``bytes`` are numpy's object dtype.
        default: what stands for a missing item; ``None`` if it may not be missing.
    """

    shape: Shape
    dtype: np.dtype
    default: Any = None

    @property
    def kind(self) -> str:
        """The list of an ``Example`` that holds the values."""
        if self.dtype == STRING:
            return "string"
        return "float32" if self.dtype.kind == "f" or self.dtype.name == "bfloat16" else "int64"

    @property
    def count(self) -> int:
        """How many values an item has, or for each step of the dimension that varies."""
        return math.prod(dim for dim in self.shape if dim is not None)


@dataclasses.dataclass(frozen=True)
class Documentation:
    """What a feature means.

    Attributes:
        desc: in words.
        value_range: which values there are, in words.
    """

    desc: str = ""
    value_range: str = ""


def documentation_of(doc: Documentation | str | None) -> Documentation:
    """Return a documentation of what the argument ``doc`` of a feature may be."""
    if isinstance(doc, Documentation):
        return doc
    return Documentation(doc or "")


class FeatureConnector(abc.ABC):
    """What an example has under a name, as ``tfds.features.FeatureConnector``.

    Attributes:
        doc: what it means.
        json_class: the name of the class in ``features.json``.
        shown_as: the name of the class where features are shown.
    """

    json_class: ClassVar[str] = ""
    shown_as: ClassVar[str] = ""

    def __init__(self, doc: Documentation | str | None = None) -> None:
        self.doc = documentation_of(doc)

    @property
    @abc.abstractmethod
    def shape(self) -> Any:
        """The shape of a decoded value, ``None`` for dimensions that differ; nested as it is."""

    @property
    @abc.abstractmethod
    def dtype(self) -> Any:
        """The numpy dtype of a decoded value, object for ``bytes``; nested as it is."""

    @property
    def np_dtype(self) -> Any:
        """The same as `dtype`."""
        return self.dtype

    @abc.abstractmethod
    def json_content(self) -> tuple[str, dict[str, Any]]:
        """Return the field of ``features.json`` that describes it, and what stands there."""

    @property
    def json_name(self) -> str:
        """The full name of the class in ``features.json``."""
        return _PREFIX + self.json_class

    def inner_repr(self) -> str:
        """Return how it is shown inside of other features."""
        return repr(self)

    def __eq__(self, other: object) -> bool:
        same = type(self) is type(other)
        return same and self.json_content() == other.json_content()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), repr(self.json_content())))

    def __repr__(self) -> str:
        return f"{self.shown_as}(shape={self.shape}, dtype={dtype_name(self.dtype)})"


class LeafFeature(FeatureConnector):
    """A feature whose decoded value is one array or string."""

    @property
    @abc.abstractmethod
    def serialized(self) -> Mapping[str, SerializedSpec]:
        """Its parts in an ``Example``, by what follows its name: ``""`` if it is one part."""

    @abc.abstractmethod
    def encode(self, value: Any) -> dict[str, Any]:
        """Return what is stored of a value, for each part.

        Raises:
            FeatureError: the value does not fit.
            OSError: it is the path of a file that cannot be read.
        """

    def quick_encoder(self) -> Callable[[Any], Any] | None:
        """Return a function for what most values are: Python's own, or arrays that fit.

        It returns what an ``Example`` holds of a value, or ``None`` for one that only `encode`
        understands. A class that implements `encode` has none unless it implements this too.
        """
        return None

    @abc.abstractmethod
    def decode(self, parts: Mapping[str, np.ndarray], n: int) -> Flat:
        """Return the values of n items of parts as they are stored.

        Raises:
            BadItemError: one cannot be decoded; the first is named.
        """


def dtype_of(dtype: Any) -> np.dtype:
    """Return a numpy dtype, of what may be numpy's, its name, or TensorFlow's.

    Raises:
        FeatureError: it is none of them.
    """
    given = getattr(dtype, "as_numpy_dtype", dtype)
    try:
        return as_dtype(given)
    except TypeError as error:
        raise FeatureError(str(error)) from None


def dtype_name(dtype: Any) -> str:
    """Return the name of a numpy dtype, ``string`` for ``bytes``."""
    if isinstance(dtype, Mapping):
        return "{" + ", ".join(f"{k!r}: {dtype_name(v)}" for k, v in dtype.items()) + "}"
    return "string" if dtype == STRING else np.dtype(dtype).name


def shape_of(shape: Sequence[int | None], what: str) -> Shape:
    """Return a checked shape.

    Raises:
        FeatureError: a dimension is neither ``None`` nor a number from 0 on.
    """
    dims: list[int | None] = []
    for dim in shape:
        whole = dim is None or (isinstance(dim, int | np.integer) and not isinstance(dim, bool))
        if not whole or (dim is not None and not 0 <= dim < 1 << 40):
            raise FeatureError(f"{what}: shape {tuple(shape)} has the dimension {dim!r}")
        dims.append(None if dim is None else int(dim))
    return tuple(dims)


def fits(shape: Sequence[int], wanted: Shape) -> bool:
    """Return whether an array of a shape is one of those that are wanted."""
    return len(shape) == len(wanted) and all(
        dim is None or dim == given for given, dim in zip(shape, wanted, strict=True)
    )
