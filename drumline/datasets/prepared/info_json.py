"""``dataset_info.json`` and ``features.json``: reading and writing them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from drumline.datasets.features.connector import FeatureConnector, FeatureError
from drumline.datasets.features.containers import FeaturesDict, SequenceFeature
from drumline.datasets.features.json_format import feature_from_json, feature_to_json
from drumline.datasets.features.media import LabeledImage
from drumline.datasets.features.tensors import ClassLabel, names_of
from drumline.datasets.info import DatasetInfo, SplitInfo, Splits, SupervisedKeys
from drumline.datasets.prepared.directories import (
    FEATURES,
    INFO,
    TEMPLATE,
    Folder,
    PreparedDataError,
    shard_names,
)

_SUFFIX = ".labels.txt"
_MOST_SHARDS = 1 << 20


def read_info(folder: Folder) -> DatasetInfo:
    """Return what is known of a prepared dataset.

    Raises:
        FileNotFoundError: it has no description, or no features.
        PreparedDataError: a description is damaged; the message names the file and the place.
    """
    for name, what in ((INFO, "no prepared dataset"), (FEATURES, "prepared by too old a TFDS")):
        if not folder.has(name):
            raise FileNotFoundError(
                f"{folder.file(name)} is not there: {folder.path} holds {what}. Prepare it again, "
                "or give the directory of a version, which has dataset_info.json and features.json"
            )
    found = _InfoReader(folder, folder.read_json(INFO)).info()
    where = folder.file(FEATURES)
    try:
        features = feature_from_json(folder.read_json(FEATURES))
    except FeatureError as error:
        raise PreparedDataError(f"{where}: {error}") from None
    if not isinstance(features, FeaturesDict):
        raise PreparedDataError(f"{where}: the features of an example are a FeaturesDict")
    if not features:
        raise PreparedDataError(f"{where}: an example has no features")
    _read_labels(folder, features)
    return DatasetInfo(features=features, **found)


class _InfoReader:
    """Reads a description; errors name the file and the field."""

    def __init__(self, folder: Folder, value: Any) -> None:
        self._folder, self._where = folder, folder.file(INFO)
        self._value: Mapping[str, Any] = self._mapping(value, "it")

    def info(self) -> dict[str, Any]:
        """Return the arguments of a `DatasetInfo`, without its features."""
        name, form = self._text("name"), self._text("fileFormat") or "tfrecord"
        splits = [
            self._split(each, name, form, f"splits[{i}]")
            for i, each in enumerate(self._list(self._value, "splits"))
        ]
        location = self._mapping(self._value.get("location") or {}, "location")
        urls = self._list(location, "urls")
        license_ = self._value.get("redistributionInfo") or {}
        return {
            "name": name,
            "splits": Splits({each.name: each for each in splits}),
            "supervised_keys": self._supervised(),
            "description": self._text("description"),
            "source": str(urls[0]) if urls else "",
            "citation": self._text("citation"),
            "license": str(self._mapping(license_, "redistributionInfo").get("license") or ""),
            "version": self._text("version"),
            "config_name": self._text("configName"),
            "config_description": self._text("configDescription"),
            "download_size": self._number(self._value.get("downloadSize", 0), "downloadSize"),
            "data_dir": self._folder.path,
            "file_format": form,
            "disable_shuffling": bool(self._value.get("disableShuffling", False)),
            "release_notes": dict(
                self._mapping(self._value.get("releaseNotes") or {}, "releaseNotes")
            ),
            "module_name": self._text("moduleName"),
        }

    def _split(self, value: Any, dataset: str, form: str, where: str) -> SplitInfo:
        found = self._mapping(value, where)
        name = self._text_of(found, "name", f"{where}.name")
        if not name:
            raise self._error(f"{where}: a split has a name")
        lengths = tuple(
            self._number(each, f"{where}.shardLengths")
            for each in self._list(found, "shardLengths")
        )
        if len(lengths) > _MOST_SHARDS:
            raise self._error(f"{where}: it has {len(lengths)} shards")
        template = self._text_of(found, "filepathTemplate", f"{where}.filepathTemplate")
        try:
            files = shard_names(template or TEMPLATE, dataset, name, form, len(lengths))
        except PreparedDataError as error:
            raise self._error(f"{where}: {error}") from None
        nbytes = self._number(found.get("numBytes", 0), f"{where}.numBytes")
        return SplitInfo(name, sum(lengths), lengths, nbytes, tuple(files))

    def _supervised(self) -> SupervisedKeys | None:
        value = self._value.get("supervisedKeys")
        if not value:
            return None
        found = self._mapping(value, "supervisedKeys")
        if "tuple" in found:
            nested = self._nested(found, "supervisedKeys")
            return nested if isinstance(nested, tuple) else (nested,)
        keys = [self._text_of(found, key, f"supervisedKeys.{key}") for key in ("input", "output")]
        return tuple(keys) if all(keys) else None

    def _nested(self, value: Any, where: str, depth: int = 0) -> Any:
        found = self._mapping(value, where)
        if depth > 32:
            raise self._error(f"{where}: it is nested too deeply")
        if "featureKey" in found:
            return self._text_of(found, "featureKey", where)
        if "tuple" in found:
            inside = self._list(self._mapping(found["tuple"], where), "items")
            return tuple(self._nested(each, where, depth + 1) for each in inside)
        if "dict" in found:
            named = self._mapping(self._mapping(found["dict"], where).get("dict") or {}, where)
            return {key: self._nested(each, where, depth + 1) for key, each in named.items()}
        raise self._error(f"{where}: it has neither featureKey, tuple nor dict")

    def _text(self, key: str) -> str:
        return self._text_of(self._value, key, key)

    def _text_of(self, found: Mapping[str, Any], key: str, where: str) -> str:
        value = found.get(key, "")
        if not isinstance(value, str):
            raise self._error(f"{where}: it is to be a text, got {value!r:.60}")
        return value

    def _number(self, value: Any, where: str) -> int:
        try:
            number = int(value) if isinstance(value, str | int) else -1
        except ValueError:
            number = -1
        if isinstance(value, bool) or not 0 <= number < 1 << 62:
            raise self._error(f"{where}: it is to be a number, got {value!r:.60}")
        return number

    def _list(self, found: Mapping[str, Any], key: str) -> list[Any]:
        value = found.get(key) or []
        if not isinstance(value, list):
            raise self._error(f"{key}: it is to be a list, got {value!r:.60}")
        return value

    def _mapping(self, value: Any, where: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self._error(f"{where}: it is to be an object, got {value!r:.60}")
        return value

    def _error(self, fault: str) -> PreparedDataError:
        return PreparedDataError(f"{self._where}: {fault}")


def labels_in(feature: FeatureConnector, name: str = "") -> dict[str, ClassLabel]:
    """Return the classes in features by the names of their files without the ending."""
    if isinstance(feature, FeaturesDict):
        found: dict[str, ClassLabel] = {}
        for key, each in feature.items():
            inner = key.replace("/", ".")
            found.update(labels_in(each, f"{name}-{inner}" if name else inner))
        return found
    if isinstance(feature, SequenceFeature):
        return labels_in(feature.feature, name)
    if isinstance(feature, LabeledImage):
        return {name: feature.labels}
    return {name: feature} if isinstance(feature, ClassLabel) else {}


def _read_labels(folder: Folder, features: FeaturesDict) -> None:
    there = {name for name in folder.names() if name.endswith(_SUFFIX)}
    for name, labels in labels_in(features).items():
        file = name + _SUFFIX
        if file in there and not labels.has_names:
            try:
                labels.set_names(names_of(folder.read(file)))
            except FeatureError as error:
                raise PreparedDataError(f"{folder.file(file)}: {error}") from None


def info_files(info: DatasetInfo) -> dict[str, str]:
    """Return the texts of the files that describe a dataset, by their names."""
    files = {
        INFO: json.dumps(_info_json(info), indent=2, sort_keys=True),
        FEATURES: json.dumps(feature_to_json(info.features), indent=4, sort_keys=True),
    }
    for name, labels in labels_in(info.features).items():
        if labels.has_names:
            files[name + _SUFFIX] = "\n".join(labels.names) + "\n"
    return files


def _info_json(info: DatasetInfo) -> dict[str, Any]:
    splits = [
        {
            "name": each.name,
            "numBytes": str(each.num_bytes),
            "shardLengths": [str(length) for length in each.shard_lengths],
            "filepathTemplate": TEMPLATE,
        }
        for each in info.splits.values()
    ]
    made: dict[str, Any] = {
        "name": info.name,
        "version": info.version,
        "description": info.description,
        "citation": info.citation,
        "configName": info.config_name,
        "configDescription": info.config_description,
        "moduleName": info.module_name,
        "fileFormat": info.file_format,
        "releaseNotes": dict(info.release_notes),
        "disableShuffling": info.disable_shuffling,
        "splits": splits,
    }
    if info.source:
        made["location"] = {"urls": [info.source]}
    if info.license:
        made["redistributionInfo"] = {"license": info.license}
    if info.download_size:
        made["downloadSize"] = str(info.download_size)
    if info.supervised_keys is not None:
        made["supervisedKeys"] = _keys_json(info.supervised_keys)
    return {key: value for key, value in made.items() if value or key == "splits"}


def _keys_json(keys: Any) -> dict[str, Any]:
    if isinstance(keys, tuple):
        return {"tuple": {"items": [_keys_json(key) for key in keys]}}
    if isinstance(keys, Mapping):
        return {"dict": {"dict": {name: _keys_json(key) for name, key in keys.items()}}}
    return {"featureKey": keys}
