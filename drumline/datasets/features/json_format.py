"""Features as JSON: ``features.json``, in the form of today and in that of before 2022."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from drumline.datasets.features.connector import (
    Documentation,
    FeatureConnector,
    FeatureError,
    Shape,
)
from drumline.datasets.features.containers import (
    DatasetFeature,
    FeaturesDict,
    SequenceFeature,
    TranslationFeature,
    VariableTranslation,
    VideoFeature,
)
from drumline.datasets.features.media import AudioFeature, ImageFeature, LabeledImage
from drumline.datasets.features.tensors import (
    BBoxFeature,
    ClassLabel,
    ScalarFeature,
    TensorFeature,
    TextFeature,
)

_DEEPEST = 64


def feature_to_json(feature: FeatureConnector) -> dict[str, Any]:
    """Return what describes a feature in ``features.json``."""
    kind, content = feature.json_content()
    made: dict[str, Any] = {"pythonClassName": feature.json_name, kind: content}
    if feature.doc.desc:
        made["description"] = feature.doc.desc
    if feature.doc.value_range:
        made["valueRange"] = feature.doc.value_range
    return made


def feature_from_json(value: Any, where: str = "features") -> FeatureConnector:
    """Return the feature that JSON describes.

    Args:
        value: as ``json.loads`` gives it.
        where: what to call it in errors.

    Raises:
        FeatureError: it describes none, or one of a class that is not known.
    """
    return _Reader().feature(value, where, 0)


class _Reader:
    """Reads descriptions; each method names the place of what is wrong there."""

    def feature(self, value: Any, where: str, depth: int) -> FeatureConnector:
        found = _mapping(value, where)
        if depth > _DEEPEST:
            raise FeatureError(f"{where}: features are nested more than {_DEEPEST} times")
        if "type" in found and "pythonClassName" not in found:
            name, kind, content = self._former(found, where)
        else:
            name = _text(found, "pythonClassName", where, "")
            kind, content = self._kind(found, name, where)
        made = self._make(name.rpartition(".")[2], kind, content, where, depth)
        desc = _text(found, "description", where, "")
        made.doc = Documentation(desc, _text(found, "valueRange", where, ""))
        return made

    def _kind(self, found: Mapping[str, Any], name: str, where: str) -> tuple[str, Any]:
        kinds = [key for key in found if key in _KINDS or _camel(key) in _KINDS]
        if "jsonFeature" in found:
            raise FeatureError(
                f"{where}: the class {name!r} describes itself in a way of its own, which is not "
                "known here"
            )
        if len(kinds) != 1:
            raise FeatureError(
                f"{where}: a feature has one of {', '.join(sorted(_KINDS))}; it has "
                f"{', '.join(map(repr, found)) or 'nothing'}"
            )
        return _camel(kinds[0]), _camel_keys(_mapping(found[kinds[0]], f"{where}.{kinds[0]}"))

    def _former(self, found: Mapping[str, Any], where: str) -> tuple[str, str, Any]:
        """Return name, kind and content of ``{"type": ..., "content": ...}``."""
        name = _text(found, "type", where, "")
        content = found.get("content")
        if isinstance(content, str):
            try:
                content = json.loads(content)
            except ValueError as error:
                raise FeatureError(f"{where}.content: it is no JSON: {error}") from None
        short = name.rpartition(".")[2]
        if short not in _KIND_OF:
            raise FeatureError(
                f"{where}: the class {name!r} is none of {', '.join(sorted(_KIND_OF))}"
            )
        kind = _KIND_OF[short]
        inside = _mapping({} if content is None else content, f"{where}.content")
        if kind == "featuresDict" and "features" not in inside:
            return name, kind, {"features": inside}
        return name, kind, _camel_keys(inside)

    def _make(
        self, name: str, kind: str, content: Mapping[str, Any], where: str, depth: int
    ) -> FeatureConnector:
        try:
            return _KINDS[kind](self, name, content, where, depth)
        except FeatureError as error:
            if str(error).startswith(where):
                raise
            raise FeatureError(f"{where}: {error}") from None
        except (TypeError, ValueError, OverflowError, KeyError) as error:
            raise FeatureError(f"{where}: {error}") from None

    def _dict(self, name: str, c: Mapping[str, Any], where: str, depth: int) -> FeatureConnector:
        inside = _mapping(c.get("features", {}), where)
        return FeaturesDict(
            {key: self.feature(each, f"{where}/{key}", depth + 1) for key, each in inside.items()}
        )

    def _sequence(
        self, name: str, c: Mapping[str, Any], where: str, depth: int
    ) -> FeatureConnector:
        inner = self.feature(c.get("feature"), f"{where}/[]", depth + 1)
        length = _integer(c.get("length"), -1)
        cls = DatasetFeature if name == "Dataset" else SequenceFeature
        return cls(inner, None if length < 0 else length)

    def _tensor(self, name: str, c: Mapping[str, Any], where: str, depth: int) -> FeatureConnector:
        optional = bool(c.get("optional", False))
        if name == "Scalar":
            return ScalarFeature(c.get("dtype"), optional=optional)
        if name == "Text":
            return TextFeature()
        return TensorFeature(
            _shape(c.get("shape"), where),
            c.get("dtype"),
            c.get("encoding") or "none",
            minimum=c.get("minimum"),
            maximum=c.get("maximum"),
            optional=optional,
        )

    def _label(self, name: str, c: Mapping[str, Any], where: str, depth: int) -> FeatureConnector:
        if c.get("names") is not None:
            return ClassLabel(names=c["names"])
        count = c.get("numClasses")
        return ClassLabel(None if count is None else _integer(count))

    def _image(self, name: str, c: Mapping[str, Any], where: str, depth: int) -> FeatureConnector:
        shape, dtype = _shape(c.get("shape"), where), c.get("dtype") or "uint8"
        encoding = c.get("encodingFormat") or None
        if name == "LabeledImage":
            labels = c.get("labels", _mapping(c.get("label") or {}, where).get("numClasses"))
            if labels is not None and not isinstance(labels, list):
                labels = _integer(labels)
            return LabeledImage(labels, shape, dtype, encoding)
        return ImageFeature(shape, dtype, encoding, bool(c.get("useColormap")))

    def _video(self, name: str, c: Mapping[str, Any], where: str, depth: int) -> FeatureConnector:
        return VideoFeature(
            _shape(c.get("shape"), where),
            c.get("encodingFormat") or "png",
            [str(each) for each in c.get("ffmpegExtraArgs") or ()],
            bool(c.get("useColormap")),
            c.get("dtype") or "uint8",
        )

    def _audio(self, name: str, c: Mapping[str, Any], where: str, depth: int) -> FeatureConnector:
        rate = c.get("sampleRate")
        return AudioFeature(
            c.get("fileFormat") or None,
            _shape(c.get("shape"), where),
            c.get("dtype") or "int64",
            None if rate is None else _integer(rate),
            c.get("encoding") or "none",
            lazy_decode=bool(c.get("lazyDecode")),
        )

    def _text(self, name: str, c: Mapping[str, Any], where: str, depth: int) -> FeatureConnector:
        if c.get("useEncoder"):
            raise FeatureError("texts that are stored as numbers of an encoder are not read")
        return TextFeature()

    def _box(self, name: str, c: Mapping[str, Any], where: str, depth: int) -> FeatureConnector:
        return BBoxFeature(bbox_format=c.get("bboxFormat", None if "shape" in c else "REL_YXYX"))

    def _translation(
        self, name: str, c: Mapping[str, Any], where: str, depth: int
    ) -> FeatureConnector:
        languages = c.get("languages") or []
        if not isinstance(languages, list):
            raise FeatureError(f"languages must be a list, got {languages!r:.60}")
        if c.get("variableLanguagesPerExample") or name == "TranslationVariableLanguages":
            return VariableTranslation([str(each) for each in languages])
        return TranslationFeature([str(each) for each in languages])


_KINDS: dict[str, Callable[..., FeatureConnector]] = {
    "featuresDict": _Reader._dict,
    "sequence": _Reader._sequence,
    "tensor": _Reader._tensor,
    "classLabel": _Reader._label,
    "image": _Reader._image,
    "video": _Reader._video,
    "audio": _Reader._audio,
    "text": _Reader._text,
    "boundingBox": _Reader._box,
    "translation": _Reader._translation,
}
"""What makes a feature of each kind of description."""

_KIND_OF = {
    "FeaturesDict": "featuresDict",
    "Sequence": "sequence",
    "Dataset": "sequence",
    "Tensor": "tensor",
    "Scalar": "tensor",
    "ClassLabel": "classLabel",
    "Image": "image",
    "LabeledImage": "image",
    "Video": "video",
    "Audio": "audio",
    "Text": "text",
    "BBoxFeature": "boundingBox",
    "Translation": "translation",
    "TranslationVariableLanguages": "translation",
}
"""The kinds of descriptions by the classes that have them."""


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise FeatureError(f"{where}: it is to be an object, got {value!r:.60}")
    return value


def _text(found: Mapping[str, Any], key: str, where: str, default: str) -> str:
    value = found.get(key, default)
    if not isinstance(value, str):
        raise FeatureError(f"{where}.{key}: it is to be a text, got {value!r:.60}")
    return value


def _integer(value: Any, default: int | None = None) -> int:
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise FeatureError(f"{value!r:.60} is no whole number")
    return int(value)


def _shape(value: Any, where: str) -> Shape:
    """Return a shape of ``{"dimensions": ["-1", "3"]}`` or ``[null, 3]``."""
    if isinstance(value, Mapping):
        value = value.get("dimensions", [])
    if value is None:
        return ()
    if not isinstance(value, list):
        raise FeatureError(f"{where}: a shape is a list, got {value!r:.60}")
    dims = [None if dim is None else _integer(dim) for dim in value]
    return tuple(None if dim == -1 else dim for dim in dims)


def _camel(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(other.title() for other in others)


def _camel_keys(content: Mapping[str, Any]) -> dict[str, Any]:
    return {_camel(key): value for key, value in content.items()}
