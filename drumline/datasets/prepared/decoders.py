"""What a user asks to be decoded otherwise: `SkipDecoding`, `PartialDecoding`, functions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from drumline.datasets.features.connector import FeatureConnector, FeatureError
from drumline.datasets.features.containers import FeaturesDict, SequenceFeature, to_feature
from drumline.datasets.features.stored_values import joined


class Decoder:
    """What decodes a feature in place of itself; see `make_decoder`."""


@dataclasses.dataclass(frozen=True)
class SkipDecoding(Decoder):
    """Leave a feature as it is stored, as ``tfds.decode.SkipDecoding``.

    A picture is then the bytes of its file.

    Example:
        >>> skip = dl.datasets.SkipDecoding()
        >>> # dl.datasets.load("cifar10", split="train", decoders={"image": skip})
    """


@dataclasses.dataclass(frozen=True)
class FunctionDecoder(Decoder):
    """A function of what is stored; made by `make_decoder`.

    Attributes:
        function: takes what is stored of a feature and the feature.
        arguments: others of the function.
        keywords: others of the function, by name.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __call__(self, stored: Any, feature: FeatureConnector) -> Any:
        """Return what the function makes of a value."""
        return self.function(stored, feature, *self.arguments, **self.keywords)


def make_decoder(output_dtype: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a decoder of a function, as ``tfds.decode.make_decoder``; a decorator.

    The function takes what is stored of a feature (``bytes`` of a picture), the feature, and what
    the decoder is called with. It is traced as functions of ``Dataset.map`` are.

    Args:
        output_dtype: accepted as in TFDS, without effect: the function's result is looked at.

    Example:
        >>> @dl.datasets.make_decoder()
        ... def half_size(stored, feature):
        ...     return dl.image.decode_jpeg(stored, ratio=2)
        >>> decoders = {"image": half_size()}
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., FunctionDecoder]:
        @functools.wraps(function)
        def made(*arguments: Any, **keywords: Any) -> FunctionDecoder:
            return FunctionDecoder(function, arguments, keywords)

        return made

    return decorated


class PartialDecoding:
    """Read some of the features only, as ``tfds.decode.PartialDecoding``.

    Args:
        features: names, or a dictionary from names to ``True``, ``False``, names of features
            inside, or features that must be those of the dataset.
        decoders: of the features that are read.

    Example:
        >>> few = dl.datasets.PartialDecoding({"label": True})
    """

    def __init__(self, features: Any, decoders: Mapping[str, Any] | None = None) -> None:
        self.features, self.decoders = features, decoders

    def of(self, features: FeatureConnector) -> FeaturesDict:
        """Return the features that are read.

        Raises:
            FeatureError: one of them is not there, or another one.
        """
        found = _part(features, self.features, "")
        assert isinstance(found, FeaturesDict)
        return found


def _part(feature: FeatureConnector, wanted: Any, path: str) -> FeatureConnector:
    where = f"PartialDecoding: feature {path!r}" if path else "PartialDecoding"
    if wanted is True:
        return feature
    if isinstance(wanted, list | tuple | set | frozenset):
        wanted = dict.fromkeys(wanted, True)
    if isinstance(wanted, FeaturesDict):
        wanted = dict(wanted)
    if isinstance(wanted, Mapping):
        if isinstance(feature, SequenceFeature):
            inner = _part(feature.feature, wanted, path)
            return type(feature)(inner, feature.length, doc=feature.doc)
        if not isinstance(feature, FeaturesDict):
            raise FeatureError(f"{where} has no features inside; it is {feature!r}")
        missing = [name for name in wanted if name not in feature]
        if missing:
            raise FeatureError(f"{where} has no {missing[0]!r}; it has {', '.join(feature)}")
        chosen = {name: each for name, each in wanted.items() if each is not False}
        if not chosen:
            raise FeatureError(f"{where}: no feature is chosen")
        return FeaturesDict(
            {name: _part(feature[name], each, joined(path, name)) for name, each in chosen.items()}
        )
    expected = to_feature(wanted)
    if expected.shape != feature.shape or expected.dtype != feature.dtype:
        raise FeatureError(f"{where} is {feature!r}, not {expected!r}")
    return feature


def decoders_by_path(
    features: FeatureConnector, decoders: Any, path: str = ""
) -> dict[str, Decoder]:
    """Return decoders by the paths of their features.

    Args:
        features: of the dataset.
        decoders: nested as the features are; those that keep their own are left out.
        path: of the features inside of others.

    Raises:
        FeatureError: there is no such feature.
        TypeError: what is given is no decoder.
    """
    if decoders is None:
        return {}
    if isinstance(decoders, Decoder):
        if isinstance(features, FeaturesDict):
            found = {}
            for name, each in features.items():
                found.update(decoders_by_path(each, decoders, joined(path, name)))
            return found
        if isinstance(features, SequenceFeature):
            return decoders_by_path(features.feature, decoders, path)
        return {path: decoders}
    if not isinstance(decoders, Mapping):
        raise TypeError(
            f"decoders: of {path or 'the features'} it is {decoders!r:.60}; give SkipDecoding(), "
            "a decoder of make_decoder, or a dictionary of them"
        )
    if isinstance(features, SequenceFeature):
        return decoders_by_path(features.feature, decoders, path)
    if not isinstance(features, FeaturesDict):
        raise FeatureError(f"decoders: feature {path!r} has no features inside")
    found = {}
    for name, each in decoders.items():
        if name not in features:
            where = f"feature {path!r}" if path else "the dataset"
            raise FeatureError(f"decoders: {where} has no {name!r}; it has {', '.join(features)}")
        found.update(decoders_by_path(features[name], each, joined(path, name)))
    return found
