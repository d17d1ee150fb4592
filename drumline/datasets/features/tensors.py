"""Features of numbers and strings: tensors, texts, labels, boxes."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from drumline.data.elements.spec import STRING
from drumline.datasets.features.connector import (
    BadItemError,
    Documentation,
    FeatureError,
    Flat,
    LeafFeature,
    SerializedSpec,
    Shape,
    dtype_name,
    dtype_of,
    fits,
    shape_of,
)

ENCODINGS = ("none", "bytes", "zlib")


class TensorFeature(LeafFeature):
    """An array, as ``tfds.features.Tensor``.

    Args:
        shape: of it; ``None`` for dimensions that differ between examples. More than one of these
            need an encoding.
        dtype: of it.
        encoding: ``"none"``: integers are stored as 64 bits and floats as 32; ``"bytes"``: as they
            are; ``"zlib"``: compressed.
        doc: what it means.
        minimum: the least value, for whoever reads it.
        maximum: the largest.
        optional: whether values may be ``None``; these are read as the least value of the type, as
            false, or as ``b""``.

    Raises:
        FeatureError: an argument is invalid.
    """

    json_class = "tensor_feature.Tensor"
    shown_as = "Tensor"

    def __init__(
        self,
        shape: Sequence[int | None],
        dtype: Any,
        encoding: str = "none",
        doc: Documentation | str | None = None,
        *,
        minimum: Any = None,
        maximum: Any = None,
        optional: bool = False,
    ) -> None:
        super().__init__(doc)
        self._shape, self._dtype = shape_of(shape, self.shown_as), dtype_of(dtype)
        name = str(getattr(encoding, "value", encoding)).lower()
        self.encoding: str = name
        self.minimum, self.maximum, self.optional = minimum, maximum, bool(optional)
        if name not in ENCODINGS:
            raise FeatureError(f"encoding must be one of {ENCODINGS}, got {encoding!r}")
        if self._dtype == STRING and name != "none":
            raise FeatureError("strings take no encoding: leave it out")
        if self._dtype.kind == "c" and name == "none":
            raise FeatureError("an Example holds no complex numbers: give encoding='zlib'")

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @property
    def is_encoded(self) -> bool:
        """Whether the values are stored as bytes."""
        return self.encoding != "none"

    @property
    def _is_dynamic(self) -> bool:
        return self._shape.count(None) > 1

    @property
    def serialized(self) -> Mapping[str, SerializedSpec]:
        if self.is_encoded:
            value = SerializedSpec((), STRING, b"" if self.optional else None)
        else:
            value = SerializedSpec(self._shape, self._dtype, self._default())
        if not self._is_dynamic:
            return {"": value}
        return {"shape": SerializedSpec((len(self._shape),), np.dtype(np.int32)), "value": value}

    def _default(self) -> Any:
        if not self.optional:
            return None
        if self._dtype == STRING:
            return b""
        if self._dtype.kind == "b":
            return False
        info: Any = np.iinfo if self._dtype.kind in "iu" else np.finfo
        return info(self._dtype).min

    def encode(self, value: Any) -> dict[str, Any]:
        if value is None and self.optional:
            return {}
        array = self._array(value)
        if not fits(array.shape, self._shape):
            raise FeatureError(f"the shape is {array.shape}, not {self._shape}")
        if self._is_dynamic and not self.is_encoded:
            raise FeatureError(
                f"the shape {self._shape} varies in several dimensions: give {_MORE}"
            )
        stored: Any = array
        if self.is_encoded:
            stored = np.ascontiguousarray(array).tobytes()
            if self.encoding == "zlib":
                stored = zlib.compress(stored)
        if self._is_dynamic:
            return {"shape": np.array(array.shape, np.int32), "value": stored}
        return {"": stored}

    def quick_encoder(self) -> Callable[[Any], Any] | None:
        if self._shape or self.is_encoded:
            return None
        if self._dtype == STRING:
            return _quick_text
        if self._dtype.kind not in "iu" or self._dtype == np.uint64:
            return None
        least, most = int(np.iinfo(self._dtype).min), int(np.iinfo(self._dtype).max)

        def quick(value: Any) -> int | None:
            return value if type(value) is int and least <= value <= most else None

        return quick

    def _array(self, value: Any) -> np.ndarray:
        if self._dtype == STRING:
            return _strings(value)
        if self._dtype.kind == "b" and isinstance(value, str | bytes):
            raise FeatureError(f"{value!r:.60} is no truth value: give True or False")
        given = isinstance(value, np.ndarray)
        try:
            array = value if given else np.array(value, self._dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise FeatureError(f"{value!r:.60} is no {dtype_name(self._dtype)}: {error}") from None
        if array.dtype != self._dtype:
            raise FeatureError(f"the dtype is {array.dtype}, not {dtype_name(self._dtype)}")
        return array

    def decode(self, parts: Mapping[str, np.ndarray], n: int) -> Flat:
        if not self.is_encoded:
            values = parts[""]
            return values if values.dtype == self._dtype else values.astype(self._dtype)
        shapes = parts["shape"] if self._is_dynamic else None
        rows = [
            self._decoded(i, contents, None if shapes is None else shapes[i].tolist())
            for i, contents in enumerate(parts["value" if self._is_dynamic else ""])
        ]
        if None in self._shape:
            return rows
        return np.stack(rows) if rows else np.empty((0, *self._shape), self._dtype)  # type: ignore[arg-type]

    def _decoded(self, item: int, contents: bytes, shape: list[int] | None) -> np.ndarray:
        dims = self._shape if shape is None else tuple(shape)
        known = [dim for dim in dims if dim is not None]
        if not contents and self.optional:
            shown = [dim or 0 for dim in self._shape]
            return np.full(shown, self._default(), self._dtype)
        if min(known, default=0) < 0 or not fits(_filled(dims), self._shape):
            raise BadItemError(item, f"the stored shape {list(dims)} is not {list(self._shape)}")
        step = math.prod(known) * self._dtype.itemsize
        data = self._bytes(item, contents, step if None not in dims else None)
        if len(data) % step if step and None in dims else len(data) != step:
            raise BadItemError(item, f"{len(data)} bytes are no {self._dtype.name} of {list(dims)}")
        shape_ = [(len(data) // step if step else 0) if dim is None else dim for dim in dims]
        return np.frombuffer(data, self._dtype).reshape(shape_)

    def _bytes(self, item: int, contents: bytes, size: int | None) -> bytes:
        if self.encoding == "bytes":
            return contents
        unpacker = zlib.decompressobj()
        try:  # of one byte too many, the size is wrong; of more no memory is taken
            data = unpacker.decompress(contents, _MOST if size is None else size + 1)
        except zlib.error as error:
            raise BadItemError(item, f"the values are damaged: {error}") from None
        if size is None and unpacker.unconsumed_tail:
            raise BadItemError(item, f"the values are more than {_MOST} bytes")
        return data

    def json_content(self) -> tuple[str, dict[str, Any]]:
        content: dict[str, Any] = {
            "shape": shape_json(self._shape),
            "dtype": dtype_name(self._dtype),
            "encoding": self.encoding,
        }
        if self.optional:
            content["optional"] = True
        for name, limit in (("minimum", self.minimum), ("maximum", self.maximum)):
            if limit is not None:
                content[name] = float(limit)
        return "tensor", content

    def inner_repr(self) -> str:
        plain = type(self) is TensorFeature and self._shape == ()
        return dtype_name(self._dtype) if plain else repr(self)


_MORE = "encoding='bytes' or 'zlib'"
_MOST = 1 << 31


def _quick_text(value: Any) -> bytes | None:
    if type(value) is bytes:
        return value
    try:
        return value.encode() if type(value) is str else None
    except UnicodeEncodeError:
        return None


def _filled(dims: Shape) -> list[int]:
    return [0 if dim is None else dim for dim in dims]


def shape_json(shape: Shape) -> dict[str, Any]:
    """Return a shape as protocol buffers' JSON has it."""
    dims = [str(-1 if dim is None else dim) for dim in shape]
    return {"dimensions": dims} if dims else {}


def _strings(value: Any) -> np.ndarray:
    """Return an array of dtype object that holds bytes."""
    found = np.array(value, object) if not isinstance(value, np.ndarray) else value
    flat = np.empty(found.size, object)
    for i, item in enumerate(found.reshape(-1).tolist()):
        if isinstance(item, str):
            flat[i] = item.encode()
        elif isinstance(item, bytes | bytearray):
            flat[i] = bytes(item)
        else:
            raise FeatureError(f"{item!r:.60} is no string")
    return flat.reshape(found.shape)


class ScalarFeature(TensorFeature):
    """A number or string, as ``tfds.features.Scalar``.

    Args:
        dtype: of it.
        doc: what it means.
        optional: whether values may be ``None``.
    """

    json_class = "scalar.Scalar"
    shown_as = "Scalar"

    def __init__(
        self, dtype: Any, doc: Documentation | str | None = None, *, optional: bool = False
    ) -> None:
        super().__init__((), dtype, doc=doc, optional=optional)


class TextFeature(TensorFeature):
    """A text as UTF-8, as ``tfds.features.Text``."""

    json_class = "text_feature.Text"
    shown_as = "Text"

    def __init__(self, doc: Documentation | str | None = None) -> None:
        super().__init__((), STRING, doc=doc)

    def json_content(self) -> tuple[str, dict[str, Any]]:
        return "text", {}


class ClassLabel(TensorFeature):
    """A class by its number, int64, as ``tfds.features.ClassLabel``; -1 for none.

    Args:
        num_classes: how many there are, if they have no names.
        names: of the classes, in the order of their numbers.
        names_file: a file with a name on each line.
        doc: what it means.

    Raises:
        FeatureError: more than one of them is given, or a name comes twice.
    """

    json_class = "class_label_feature.ClassLabel"
    shown_as = "ClassLabel"

    def __init__(
        self,
        num_classes: int | None = None,
        names: Sequence[str] | None = None,
        names_file: str | os.PathLike[str] | None = None,
        doc: Documentation | str | None = None,
    ) -> None:
        super().__init__((), np.int64, doc=doc)
        given = [one for one in (num_classes, names, names_file) if one is not None]
        if len(given) > 1:
            raise FeatureError("ClassLabel takes one of num_classes, names and names_file")
        if num_classes is not None and (
            isinstance(num_classes, bool) or not isinstance(num_classes, int) or num_classes < 0
        ):
            raise FeatureError(f"ClassLabel: num_classes must be a number, got {num_classes!r}")
        self._count = num_classes
        self._names: list[str] | None = None
        self._numbers: dict[str, int] = {}
        if names_file is not None:
            names = names_of(Path(names_file).read_text(encoding="utf-8"))
        if names is not None:
            self.set_names(names)

    def set_names(self, names: Sequence[str]) -> None:
        """Give the classes their names.

        Raises:
            FeatureError: a name comes twice, or their number is another than that of the classes.
        """
        listed = [str(name) for name in names]
        numbers = {name: i for i, name in enumerate(listed)}
        if len(numbers) != len(listed):
            twice = next(name for name in listed if listed.count(name) > 1)
            raise FeatureError(f"ClassLabel: the name {twice!r} is given twice")
        if self._count is not None and self._count != len(listed):
            raise FeatureError(f"ClassLabel: {len(listed)} names for {self._count} classes")
        self._names, self._numbers, self._count = listed, numbers, len(listed)

    @property
    def num_classes(self) -> int | None:
        """How many classes there are."""
        return self._count

    @property
    def names(self) -> list[str]:
        """The names of the classes; their numbers, as text, if they have none."""
        if self._names is not None:
            return list(self._names)
        return [str(number) for number in range(self._count or 0)]

    @property
    def has_names(self) -> bool:
        """Whether they are known by more than numbers."""
        return self._names is not None

    def int2str(self, int_value: Any) -> str:
        """Return the name of a class.

        Raises:
            FeatureError: there is no such class.
        """
        number = int(int_value)
        if not 0 <= number < (self._count or 0):
            raise FeatureError(
                f"There are the classes 0 to {(self._count or 0) - 1}, and not {number}"
            )
        return str(number) if self._names is None else self._names[number]

    def str2int(self, str_value: str) -> int:
        """Return the number of a class.

        Raises:
            FeatureError: there is no such class.
        """
        if self._names is not None:
            if str_value not in self._numbers:
                few = ", ".join(self._names[:20]) + (", ..." if len(self._names) > 20 else "")
                raise FeatureError(f"No class {str_value!r}; there are {few}")
            return self._numbers[str_value]
        if not str_value.isdecimal() or not 0 <= int(str_value) < (self._count or 0):
            raise FeatureError(f"No class {str_value!r}; there are 0 to {(self._count or 0) - 1}")
        return int(str_value)

    def encode(self, value: Any) -> dict[str, Any]:
        if self._count is None:
            raise FeatureError("the number of classes is not known: give num_classes or names")
        if isinstance(value, bytes):
            value = value.decode()
        number = self.str2int(value) if isinstance(value, str) else int(value)
        if not -1 <= number < self._count:
            raise FeatureError(f"the class {number} is not one of -1 to {self._count - 1}")
        return {"": np.int64(number)}

    def quick_encoder(self) -> Callable[[Any], Any] | None:
        def quick(value: Any) -> int | None:
            if type(value) is int and self._count is not None and -1 <= value < self._count:
                return value
            return self._numbers.get(value) if type(value) is str else None

        return quick

    def json_content(self) -> tuple[str, dict[str, Any]]:
        return "classLabel", {} if self._count is None else {"numClasses": str(self._count)}

    def __repr__(self) -> str:
        return f"ClassLabel(shape=(), dtype=int64, num_classes={self._count})"


def names_of(text: str) -> list[str]:
    """Return the names in the text of a file of labels, one on each line."""
    return [line.strip() for line in text.split("\n") if line.strip()]


class BBox(NamedTuple):
    """A box in a picture; each from 0 to 1 unless the format says otherwise.

    Attributes:
        ymin: its upper edge.
        xmin: its left edge.
        ymax: its lower edge.
        xmax: its right edge.
    """

    ymin: float
    xmin: float
    ymax: float
    xmax: float


class BBoxFeature(TensorFeature):
    """A box, float32 (4,): ymin, xmin, ymax, xmax, as ``tfds.features.BBoxFeature``.

    Args:
        doc: what it means.
        bbox_format: ``"REL_YXYX"``, in parts of the picture, ``"REL_XYXY"``, ``"YXYX"``,
            ``"XYXY"``, ``"XYWH"``, or ``None`` if it is not known.

    Raises:
        FeatureError: there is no such format.
    """

    json_class = "bounding_boxes.BBoxFeature"
    shown_as = "BBoxFeature"
    formats: ClassVar[tuple[str, ...]] = ("XYXY", "YXYX", "XYWH", "REL_XYXY", "REL_YXYX")

    def __init__(
        self, doc: Documentation | str | None = None, bbox_format: str | None = "REL_YXYX"
    ) -> None:
        super().__init__((4,), np.float32, doc=doc)
        chosen = getattr(bbox_format, "value", bbox_format)
        if chosen is not None and chosen not in self.formats:
            raise FeatureError(f"bbox_format must be one of {self.formats}, got {bbox_format!r}")
        self.bbox_format: str | None = chosen

    def encode(self, value: Any) -> dict[str, Any]:
        edges = [float(edge) for edge in value]
        if len(edges) != 4:
            raise FeatureError(f"a box has 4 numbers, got {len(edges)}")
        relative = (self.bbox_format or "").startswith("REL_")
        if relative and not all(0.0 <= edge <= 1.0 for edge in edges):
            raise FeatureError(f"{BBox(*edges)}: numbers must lie between 0 and 1")
        if (self.bbox_format or "").endswith("YXYX") and (
            edges[2] < edges[0] or edges[3] < edges[1]
        ):
            raise FeatureError(f"{BBox(*edges)}: the least numbers must come first")
        return {"": np.array(edges, np.float32)}

    def json_content(self) -> tuple[str, dict[str, Any]]:
        content = {"shape": shape_json((4,)), "dtype": "float32"}
        if self.bbox_format is not None:
            content["bboxFormat"] = self.bbox_format
        return "boundingBox", content
