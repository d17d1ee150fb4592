"""Features of pictures and sound."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
from drumline.datasets.features.sound_files import SoundError, decode_sound
from drumline.datasets.features.tensors import ClassLabel, TensorFeature, shape_json
from drumline.image.columns import get_limits
from drumline.image.files import DecodeImage, EncodeJpeg, EncodePng

_CHANNELS = {None: (0, 1, 2, 3, 4), "png": (0, 1, 2, 3, 4), "jpeg": (0, 1, 3)}


@dataclasses.dataclass(slots=True, eq=False)
class Pixels:
    """A picture that is still to be made a file.

    Attributes:
        array: (height, width, channels) uint8 or uint16.
        form: of the file, ``"png"`` or ``"jpeg"``.
    """

    array: np.ndarray
    form: str


def files_of(pictures: Sequence[Pixels]) -> list[bytes]:
    """Return the files of pictures, which are encoded on all cores.

    Raises:
        BadItemError: one cannot be encoded; the first of its kind is named.
    """
    files: list[bytes] = [b""] * len(pictures)
    kinds: dict[tuple[str, np.dtype], list[int]] = {}
    for number, each in enumerate(pictures):
        kinds.setdefault((each.form, each.array.dtype), []).append(number)
    for (form, _), numbers in kinds.items():
        operation = EncodeJpeg() if form == "jpeg" else EncodePng(-1)
        found = operation.run([[pictures[number].array for number in numbers]], len(numbers))
        made = list(found.columns[0])
        if found.error is not None:
            raise BadItemError(numbers[len(made)], str(found.error))
        for number, file in zip(numbers, made, strict=True):
            files[number] = file
    return files


class ImageFeature(LeafFeature):
    """A picture (height, width, channels), as ``tfds.features.Image``.

    It is stored as a PNG or JPEG file, or as the file that is given, which may be a GIF or BMP too.

    Args:
        shape: of it; (None, None, 3) by default; with a dimension of frames before for GIFs.
        dtype: uint8, uint16 (PNG) or float32 (of one channel, stored as a PNG of four).
        encoding_format: ``"png"`` or ``"jpeg"``: how arrays are stored; PNG by default.
        use_colormap: whether the values are classes, to be shown in colors.
        doc: what it means.

    Raises:
        FeatureError: the arguments do not go together.
    """

    json_class = "image_feature.Image"
    shown_as = "Image"

    def __init__(
        self,
        shape: Sequence[int | None] | None = None,
        dtype: Any = np.uint8,
        encoding_format: str | None = None,
        use_colormap: bool = False,
        doc: Documentation | str | None = None,
    ) -> None:
        super().__init__(doc)
        self._shape = shape_of(shape or (None, None, 3), self.shown_as)
        self._dtype = dtype_of(np.uint8 if dtype is None else dtype)
        self.encoding_format = encoding_format or None
        self.use_colormap = bool(use_colormap)
        self._check()

    def _check(self) -> None:
        if self.encoding_format not in _CHANNELS:
            raise FeatureError(
                f"encoding_format must be 'png' or 'jpeg', got {self.encoding_format!r}"
            )
        known = _CHANNELS[self.encoding_format]
        if len(self._shape) not in (3, 4) or (self._shape[-1] or 0) not in known:
            raise FeatureError(
                f"{self.shown_as}: a shape is (height, width, channels) with channels of {known}, "
                f"got {self._shape}"
            )
        if self._dtype.name not in ("uint8", "uint16", "float32"):
            raise FeatureError(
                f"{self.shown_as}: dtype must be uint8, uint16 or float32, got {self._dtype}"
            )
        if self.encoding_format == "jpeg" and self._dtype != np.uint8:
            raise FeatureError(f"{self.shown_as}: a JPEG file has uint8, not {self._dtype}")
        if self._dtype == np.float32 and self._shape[-1] != 1:
            raise FeatureError(f"{self.shown_as}: float32 needs one channel, got {self._shape}")

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @property
    def serialized(self) -> Mapping[str, SerializedSpec]:
        return {"": SerializedSpec((), STRING)}

    def encode(self, value: Any) -> dict[str, Any]:
        if isinstance(value, np.ndarray):
            return {"": self._pixels(value)}
        if isinstance(value, str | os.PathLike):
            return {"": Path(value).read_bytes()}
        if isinstance(value, bytes):
            return {"": value}
        read = getattr(value, "read", None)
        if read is not None:
            return {"": read()}
        array = np.asarray(value)
        if array.ndim < 2:
            raise FeatureError(f"{value!r:.60} is no array, path, file or bytes of a picture")
        return {"": self._pixels(array if array.ndim > 2 else array[..., None])}

    def quick_encoder(self) -> Callable[[Any], Any] | None:
        shape, dtype, form = self._shape, self._dtype, self.encoding_format or "png"
        whole = len(shape) == 3 and None not in shape and dtype != np.float32

        def quick(value: Any) -> Pixels | bytes | None:
            if type(value) is bytes:
                return value
            if whole and type(value) is np.ndarray:
                if value.shape == shape and value.dtype == dtype:
                    return Pixels(value.copy(), form)  # the caller may write to its array
            return None

        return quick

    def _pixels(self, array: np.ndarray) -> Pixels:
        if array.dtype != self._dtype or not fits(array.shape, self._shape):
            raise FeatureError(
                f"the array is {array.dtype} {array.shape}, not {self._dtype} {self._shape}"
            )
        if array.ndim != 3:
            raise FeatureError("frames are stored as the GIF file that is given, not as an array")
        own = np.array(array, order="C")  # the caller may write to its array
        if self._dtype == np.float32:
            own = own.view(np.uint8)
        return Pixels(own, self.encoding_format or "png")

    def decode(self, parts: Mapping[str, np.ndarray], n: int) -> Flat:
        is_float = self._dtype == np.float32
        channels = 4 if is_float else self._shape[-1] or 0
        dtype = np.dtype(np.uint8) if is_float else self._dtype
        operation = DecodeImage(channels, dtype, len(self._shape) == 4, get_limits())
        result = operation.run([parts[""]], n)
        images = list(result.columns[0])
        if result.error is not None:
            raise BadItemError(len(images), str(result.error))
        if is_float:
            images = [np.ascontiguousarray(picture).view(np.float32) for picture in images]
        for i, picture in enumerate(images):
            if not fits(picture.shape, self._shape):
                raise BadItemError(i, f"a picture of {picture.shape}, not {self._shape}")
        if None in self._shape:
            return images
        return np.stack(images) if images else np.empty((0, *self._shape), self._dtype)  # type: ignore[arg-type]

    def json_content(self) -> tuple[str, dict[str, Any]]:
        content: dict[str, Any] = {
            "shape": shape_json(self._shape),
            "dtype": dtype_name(self._dtype),
        }
        if self.encoding_format is not None:
            content["encodingFormat"] = self.encoding_format
        if self.use_colormap:
            content["useColormap"] = True
        return "image", content


class LabeledImage(ImageFeature):
    """A picture whose values are classes, as ``tfds.features.LabeledImage``.

    Args:
        labels: the classes' names, the path of a file with them, or how many there are.
        shape: of the picture; (None, None, 1) by default.
        dtype: of the picture.
        encoding_format: of the picture.
        doc: what it means.

    Raises:
        FeatureError: the arguments do not go together.
    """

    json_class = "labeled_image.LabeledImage"
    shown_as = "LabeledImage"

    def __init__(
        self,
        labels: Sequence[str] | str | os.PathLike[str] | int | None = None,
        shape: Sequence[int | None] | None = None,
        dtype: Any = np.uint8,
        encoding_format: str | None = None,
        doc: Documentation | str | None = None,
    ) -> None:
        super().__init__(shape or (None, None, 1), dtype, encoding_format, True, doc)
        if self._shape[-1] != 1:
            raise FeatureError(f"LabeledImage: a picture of classes has one channel, got {shape}")
        if isinstance(labels, int):
            self.labels = ClassLabel(labels)
        elif isinstance(labels, str | os.PathLike):
            self.labels = ClassLabel(names_file=labels)
        else:
            self.labels = ClassLabel(names=labels)

    @property
    def num_classes(self) -> int | None:
        """How many classes there are."""
        return self.labels.num_classes

    @property
    def names(self) -> list[str]:
        """The names of the classes."""
        return self.labels.names

    def json_content(self) -> tuple[str, dict[str, Any]]:
        kind, content = super().json_content()
        return kind, {**content, "label": self.labels.json_content()[1]}

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, num_classes={self.num_classes})"


class AudioFeature(TensorFeature):
    """Samples of sound, integers (samples,) or (samples, channels), as ``tfds.features.Audio``.

    Args:
        file_format: of files that are given, as ``"wav"``, for whoever reads it: the contents tell.
            WAV of any numbers is read; FLAC, MP3, Ogg and others need the package soundfile.
        shape: of the samples.
        dtype: of them.
        sample_rate: samples a second, for whoever reads it.
        encoding: of the samples, as of a tensor.
        doc: what it means.
        lazy_decode: whether the file is stored and decoded when it is read.

    Raises:
        FeatureError: the arguments do not go together.
    """

    json_class = "audio_feature.Audio"
    shown_as = "Audio"

    def __init__(
        self,
        file_format: str | None = None,
        shape: Sequence[int | None] = (None,),
        dtype: Any = np.int64,
        sample_rate: int | None = None,
        encoding: str = "none",
        doc: Documentation | str | None = None,
        lazy_decode: bool = False,
    ) -> None:
        super().__init__(shape, dtype, encoding, doc)
        if len(self._shape) not in (1, 2):
            raise FeatureError(f"Audio: a shape is (samples,) or (samples, channels), got {shape}")
        self.file_format = file_format or None
        self.sample_rate = sample_rate
        self.lazy_decode = bool(lazy_decode)
        if self.lazy_decode and self.is_encoded:
            raise FeatureError("Audio: files that are decoded when read take no encoding")

    @property
    def serialized(self) -> Mapping[str, SerializedSpec]:
        return {"": SerializedSpec((), STRING)} if self.lazy_decode else super().serialized

    def encode(self, value: Any) -> dict[str, Any]:
        path = Path(value) if isinstance(value, str | os.PathLike) else None
        read = getattr(value, "read", None)
        if path is not None:
            contents: bytes | None = path.read_bytes()
        elif isinstance(value, bytes):
            contents = value
        else:
            contents = None if read is None else read()
        if contents is None:
            if self.lazy_decode:
                raise FeatureError("Audio: lazy_decode stores files: give a path or bytes of one")
            return super().encode(value)
        if self.lazy_decode:
            return {"": contents}
        try:
            kind = None if path is None else path.suffix[1:] or None
            return super().encode(self._samples(0, contents, kind))
        except BadItemError as error:
            where = "" if path is None else f"{path}: "
            raise FeatureError(f"{where}{error}") from None

    def decode(self, parts: Mapping[str, np.ndarray], n: int) -> Flat:
        if not self.lazy_decode:
            return super().decode(parts, n)
        return [self._samples(i, contents) for i, contents in enumerate(parts[""])]

    def _samples(self, item: int, contents: bytes, kind: str | None = None) -> np.ndarray:
        channels = 1 if len(self._shape) == 1 else self._shape[1]
        try:
            samples = decode_sound(contents, channels, kind or self.file_format)
        except SoundError as error:
            raise BadItemError(item, str(error)) from None
        samples = samples.astype(self._dtype)
        return samples[:, 0] if len(self._shape) == 1 else samples

    def json_content(self) -> tuple[str, dict[str, Any]]:
        content: dict[str, Any] = {
            "shape": shape_json(self._shape),
            "dtype": dtype_name(self._dtype),
            "encoding": self.encoding.upper(),
        }
        if self.file_format is not None:
            content["fileFormat"] = self.file_format
        if self.sample_rate is not None:
            content["sampleRate"] = str(self.sample_rate)
        if self.lazy_decode:
            content["lazyDecode"] = True
        return "audio", content
