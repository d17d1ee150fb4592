"""Digests of values, functions and classes that do not depend on the process that makes them."""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from drumline._function_identity import components, digested_code, digested_parts, is_library
from drumline._lazy import is_jax_array

_PACKAGES_IN_DIGESTS = {
    "drumline.data.functions.native": "drumline.data.native",
    "drumline.random": "drumline.data.random",
}
_NAMES_IN_DIGESTS = {
    "drumline.data.elements.spec.Structure": "drumline.data.structure.Structure",
    "drumline.data.storage.files.records.Format": "drumline.data.files.file_format.Format",
    "drumline.data.storage.files.csv.CsvColumn": "drumline.data.files.csv_columns.CsvColumn",
    "drumline.data.storage.files.csv.CsvRecords": "drumline.data.files.csv_format.CsvRecords",
    "drumline.image.pixels.adjust_brightness": "drumline.image.adjusting.adjust_brightness",
    "drumline.image.pixels.adjust_contrast": "drumline.image.adjusting.adjust_contrast",
    "drumline.image.pixels.adjust_gamma": "drumline.image.adjusting.adjust_gamma",
    "drumline.image.pixels.adjust_hue": "drumline.image.adjusting.adjust_hue",
    "drumline.image.pixels.adjust_saturation": "drumline.image.adjusting.adjust_saturation",
    "drumline.image.pixels.convert_image_dtype": "drumline.image.converting.convert_image_dtype",
    "drumline.image.pixels.grayscale_to_rgb": "drumline.image.converting.grayscale_to_rgb",
    "drumline.image.pixels.hsv_to_rgb": "drumline.image.converting.hsv_to_rgb",
    "drumline.image.pixels.per_image_standardization": (
        "drumline.image.converting.per_image_standardization"
    ),
    "drumline.image.pixels.rgb_to_grayscale": "drumline.image.converting.rgb_to_grayscale",
    "drumline.image.pixels.rgb_to_hsv": "drumline.image.converting.rgb_to_hsv",
    "drumline.audio.wav.DecodeWavFile": "drumline.audio.wav.Decode",
    "drumline.data.functions.native.operation.Arithmetic": (
        "drumline.data.native.arithmetic.Arithmetic"
    ),
    "drumline.data.functions.native.strings.Chain": "drumline.data.native.string_chain.Chain",
    "drumline.data.functions.native.strings.Elementwise": (
        "drumline.data.native.string_elementwise.Elementwise"
    ),
    "drumline.data.functions.native.strings.Equal": "drumline.data.native.comparing.Equal",
    "drumline.data.functions.native.strings.Index": "drumline.data.native.indexing.Index",
    "drumline.data.functions.native.strings.Link": "drumline.data.native.string_chain.Link",
    "drumline.data.functions.native.strings.LookUp": "drumline.data.native.vocabulary.LookUp",
    "drumline.data.functions.native.strings.Vocabulary": (
        "drumline.data.native.vocabulary.Vocabulary"
    ),
    "drumline.data.functions.native.symbol.Call": "drumline.data.native.call.Call",
    "drumline.data.functions.native.symbol.Fixed": "drumline.data.native.call.Fixed",
    "drumline.data.functions.native.symbol.Reshape": "drumline.data.native.reshaping.Reshape",
    "drumline.datasets.folders.images.CropToAspect": (
        "drumline.datasets.folders.aspect.CropToAspect"
    ),
    "drumline.datasets.folders.videos.ReadFrames": "drumline.datasets.folders.frames.ReadFrames",
    "drumline.image.columns.Limits": "drumline.image.limits.Limits",
    "drumline.image.files.EncodeJpeg": "drumline.image.encoding.EncodeJpeg",
    "drumline.image.files.EncodePng": "drumline.image.encoding.EncodePng",
    "drumline.image.geometry.Arrange": "drumline.image.arranging.Arrange",
    "drumline.image.geometry.ShapeOf": "drumline.image.arranging.ShapeOf",
    "drumline.image.jpeg.DecodeResized": "drumline.image.resized.DecodeResized",
    "drumline.image.pixels.Pointwise": "drumline.image.pointwise.Pointwise",
    "drumline.image.random_windows.DistortedBoundingBox": (
        "drumline.image.distorted.DistortedBoundingBox"
    ),
    "drumline.image.resizing.ResizeWithPad": "drumline.image.padded.ResizeWithPad",
    "drumline.io.decoding.DecodeCsv": "drumline.io.csv.DecodeCsv",
    "drumline.io.decoding.DecodeJsonExample": "drumline.io.json_example.DecodeJsonExample",
    "drumline.io.decoding.DecodeRaw": "drumline.io.raw.DecodeRaw",
    "drumline.io.decoding.ParseTensor": "drumline.io.tensors.ParseTensor",
    "drumline.io.decoding.SerializeTensor": "drumline.io.tensors.SerializeTensor",
    "drumline.io.feature_columns.BadRecord": "drumline.io.examples.partitions.BadRecord",
    "drumline.io.feature_columns.Cut": "drumline.io.examples.partitions.Cut",
    "drumline.io.feature_columns.FeatureColumn": "drumline.io.examples.columns.FeatureColumn",
    "drumline.io.feature_columns.FixedColumn": "drumline.io.examples.columns.FixedColumn",
    "drumline.io.feature_columns.PartitionedColumn": (
        "drumline.io.examples.columns.PartitionedColumn"
    ),
    "drumline.io.feature_columns.RaggedFramesColumn": (
        "drumline.io.examples.columns.RaggedFramesColumn"
    ),
    "drumline.io.feature_columns.VaryingColumn": "drumline.io.examples.columns.VaryingColumn",
    "drumline.io.feature_requests.Failed": "drumline.io.examples.wanted.Failed",
    "drumline.io.feature_requests.FeatureRequest": "drumline.io.examples.wanted.Wanted",
    "drumline.io.feature_requests.Parsed": "drumline.io.examples.wanted.Parsed",
    "drumline.io.parsing.ParseExample": "drumline.io.examples.operation.ParseExample",
    "drumline.strings.elementwise.Change": "drumline.strings.changing.Change",
    "drumline.strings.elementwise.Length": "drumline.strings.measuring.Length",
    "drumline.strings.elementwise.Substr": "drumline.strings.measuring.Substr",
    "drumline.strings.numbers.HashBucket": "drumline.strings.hashing.HashBucket",
    "drumline.strings.numbers.StaticVocabularyTable": (
        "drumline.strings.vocabulary_table.StaticVocabularyTable"
    ),
    "drumline.strings.split_join.Join": "drumline.strings.joining.Join",
    "drumline.strings.split_join.Ngrams": "drumline.strings.ngrams.Ngrams",
    "drumline.strings.split_join.ReduceJoin": "drumline.strings.joining.ReduceJoin",
    "drumline.strings.split_join.SplitStrings": "drumline.strings.splitting.Split",
    "drumline.strings.unicode.DecodeUnicode": "drumline.strings.unicode.Decode",
    "drumline.strings.vectorizing.Learned": "drumline.strings.learning.Learned",
    "drumline.video.sampling.SampleFrames": "drumline.video.sampling.Sample",
}
"""Names that classes had when snapshots on disk, which digests name, were first written."""


def qualified_name(value: Any) -> str:
    """Return the module and name of a function or class, as digests have them."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    found = f"{getattr(value, '__module__', None)}.{name}"
    for now, before in _PACKAGES_IN_DIGESTS.items():
        if found.startswith(f"{now}."):
            return _NAMES_IN_DIGESTS.get(found, before + found.removeprefix(now))
    return _NAMES_IN_DIGESTS.get(found, found)


def _class_name(kind: type) -> str:
    known = _NAMES_IN_DIGESTS.get(f"{kind.__module__}.{kind.__qualname__}")
    return kind.__qualname__ if known is None else known.rpartition(".")[2]


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_RENAMED = {
    new.rpartition(".")[2]: old.rpartition(".")[2]
    for new, old in _NAMES_IN_DIGESTS.items()
    if new.rpartition(".")[2] != old.rpartition(".")[2]
}
_RENAMED_IN_TEXT = re.compile(rf"\b(?:{'|'.join(_RENAMED)})(?=\()")


def text_in_digests(text: str) -> bytes:
    """Return a `repr` or a program's text without addresses, and with the names digests have."""
    named = _RENAMED_IN_TEXT.sub(lambda found: _RENAMED[found[0]], text)
    return _ADDRESS.sub("", named).encode()


class Digest:
    """Takes values in order; equal ones give equal digests, in any process.

    Values that contain themselves end where they are met again.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._known: dict[int, tuple[Any, bytes]] = {}
        self._inside: list[int] = []
        self._trail: list[str] = []

    def write(self, kind: str, content: bytes | memoryview = b"") -> None:
        """Adds plain content; what kind it is tells it from others with the same bytes."""
        self._hash.update(f"{kind} {len(content)} ".encode())
        self._hash.update(content)

    def result(self) -> bytes:
        """The digest of all that was added: 32 bytes."""
        return self._hash.digest()

    @contextlib.contextmanager
    def within(self, place: str) -> Iterator[None]:
        """Names where values come from, for errors."""
        self._trail.append(place)
        yield
        self._trail.pop()

    @property
    def place(self) -> str:
        """Where the value that is being added comes from."""
        return ", ".join(reversed(self._trail)) or "the dataset"

    def compound(self, value: Any, add: Callable[[], None], name: str | None = None) -> None:
        """Add the digest of a value whose parts ``add`` adds, which is computed once for each.

        Args:
            value: the value.
            add: adds its parts to this digest.
            name: of its class; by default the one that digests have.
        """
        if id(value) in self._inside:
            depth = len(self._inside) - self._inside.index(id(value))
            self.write("itself", str(depth).encode())
            return
        if id(value) not in self._known:
            outer, self._hash = self._hash, hashlib.sha256()
            self._inside.append(id(value))
            try:
                add()
            finally:
                self._inside.pop()
                found, self._hash = self._hash.digest(), outer
            # Held on to, so that no other value takes its place in memory.
            self._known[id(value)] = (value, found)
        self.write(name or _class_name(type(value)), self._known[id(value)][1])

    def unordered(self, parts: list[Any]) -> None:
        """Adds values in an order that depends on nothing but them."""
        found = []
        for part in parts:
            outer, self._hash = self._hash, hashlib.sha256()
            try:
                put(part, self)
            finally:
                inner, self._hash = self._hash, outer
            found.append(inner.digest())
        self.write("unordered", b"".join(sorted(found)))


@functools.singledispatch
def put(value: Any, into: Digest) -> None:
    """Adds any value: as what it would be pickled as, unless there is a function for its type.

    Raises:
        TypeError: it has no content to compare: an open file, a lock, a running generator.
    """
    wrapped = getattr(value, "__wrapped__", None)
    if is_jax_array(value):
        _array(value, into)
    elif callable(wrapped):
        put(wrapped, into)
    elif isinstance(getattr(value, "_fingerprint", None), str):  # datasets of Hugging Face
        into.write(qualified_name(type(value)), value._fingerprint.encode())
    elif is_library(getattr(value, "__module__", None)) and hasattr(value, "__name__"):
        into.write("library", qualified_name(value).encode())
    else:
        into.compound(value, lambda: _put_object(value, into))


def _put_object(value: Any, into: Digest) -> None:
    try:
        reduced = value.__reduce_ex__(4)
    except Exception as error:
        raise TypeError(
            f"whether {into.place} is the same in another run is unknown: it holds a "
            f"{qualified_name(type(value))} ({error}). Let functions read plain values, arrays and "
            "other functions only"
        ) from error
    if isinstance(reduced, str):
        into.write("global", reduced.encode())
        return
    make, arguments, *rest = reduced
    put(make, into)
    put(arguments, into)
    for part in rest:
        put(list(part) if hasattr(part, "__next__") else part, into)


@put.register(type(None))
@put.register(bool)
@put.register(int)
@put.register(float)
@put.register(complex)
@put.register(str)
@put.register(type(Ellipsis))
def _plain(value: Any, into: Digest) -> None:
    into.write(type(value).__name__, repr(value).encode(errors="surrogatepass"))


@put.register(bytes)
@put.register(bytearray)
@put.register(memoryview)
def _bytes(value: Any, into: Digest) -> None:
    into.write("bytes", bytes(value))


@put.register(enum.Enum)
def _member(value: enum.Enum, into: Digest) -> None:
    into.write(type(value).__qualname__, value.name.encode())
    put(value.value, into)


@put.register(tuple)
@put.register(list)
def _sequence(value: Any, into: Digest) -> None:
    def add() -> None:
        into.write("length", str(len(value)).encode())
        for part in value:
            put(part, into)

    into.compound(value, add)


@put.register(dict)
def _dict(value: dict[Any, Any], into: Digest) -> None:
    into.compound(value, lambda: put(list(value.items()), into))


@put.register(set)
@put.register(frozenset)
def _set(value: Any, into: Digest) -> None:
    into.unordered(list(value))


@put.register(np.dtype)
def _dtype(value: np.dtype, into: Digest) -> None:
    into.write("dtype", f"{value.name} {value.str}".encode())


@put.register(np.ndarray)
@put.register(np.generic)
def _array(value: Any, into: Digest) -> None:
    array = np.asarray(value)
    put(array.dtype, into)
    into.write("shape", str(array.shape).encode())
    if array.dtype == object:
        for item in array.reshape(-1).tolist():
            put(item, into)
    else:
        into.write("values", np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


_NOT_CODE = {
    "__dict__",
    "__weakref__",
    "__doc__",
    "__module__",
    "__qualname__",
    "__annotations__",
    "__annotate_func__",
    "__annotations_cache__",
    "__firstlineno__",
    "__static_attributes__",
}


@put.register(types.FunctionType)
def _function(value: types.FunctionType, into: Digest) -> None:
    if is_library(value.__module__):
        into.write("library", qualified_name(value).encode())
        return

    def add() -> None:
        with into.within(f"the function {value.__qualname__}"):
            put(value.__code__, into)
            put((value.__defaults__, value.__kwdefaults__), into)
            for name, read in digested_parts(value):
                with into.within(f"the variable {name!r}"):
                    put((name, read), into)

    into.compound(value, add)


@put.register(types.CodeType)
def _code(value: types.CodeType, into: Digest) -> None:
    put(digested_code(value), into)


@put.register(types.MethodType)
@put.register(functools.partial)
def _bound(value: Any, into: Digest) -> None:
    put(components(value), into)


@put.register(types.BuiltinFunctionType)
def _builtin(value: types.BuiltinFunctionType, into: Digest) -> None:
    into.write("builtin", qualified_name(value).encode())
    if not isinstance(value.__self__, types.ModuleType | None):
        put(value.__self__, into)


@put.register(types.ModuleType)
def _module(value: types.ModuleType, into: Digest) -> None:
    into.write("module", value.__name__.encode())


@put.register(staticmethod)
@put.register(classmethod)
def _unbound(value: Any, into: Digest) -> None:
    put(value.__func__, into)


@put.register(property)
def _property(value: property, into: Digest) -> None:
    put((value.fget, value.fset), into)


@put.register(type)
def _class(value: type, into: Digest) -> None:
    if is_library(value.__module__):
        into.write("class", qualified_name(value).encode())
        return
    # A script's module has another name when it is imported.
    into.write("class", value.__qualname__.encode())

    def add() -> None:
        put(value.__bases__, into)
        for name, part in sorted(vars(value).items()):
            if name not in _NOT_CODE and not isinstance(part, types.GetSetDescriptorType):
                put((name, part), into)

    into.compound(value, add)
