"""Where prepared datasets are: ``data_dir/name/config/1.0.0``, and the names of their files."""

from __future__ import annotations

import dataclasses
import json
import os
import posixpath
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drumline._local_path import has_scheme
from drumline.data.elements.errors import did_you_mean
from drumline.data.storage.files.remote import file_system

INFO, FEATURES = "dataset_info.json", "features.json"
TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_WANTED = re.compile(r"(\d+|\*)\.(\d+|\*)\.(\d+|\*)")
_NAME = re.compile(r"(?P<name>\w+)(/(?P<config>[\w\-.]+))?(:(?P<version>(\d+|\*)(\.(\d+|\*)){2}))?")
_PLACEHOLDER = re.compile(r"\{(\w+)(?::\d*d?)?\}")
_MOST_BYTES = 64 << 20


class PreparedDataError(ValueError):
    """Files of a prepared dataset are damaged; the message names the file and the fault."""


@dataclasses.dataclass(frozen=True)
class DatasetName:
    """The parts of ``"name/config:1.0.0"``.

    Attributes:
        name: of the dataset.
        config: of the configuration, if one is given.
        version: which is wanted; ``*`` stands for any number.
    """

    name: str
    config: str | None = None
    version: str | None = None

    @classmethod
    def parse(cls, text: str) -> DatasetName:
        """Return the parts of a name.

        Raises:
            TypeError: it is no text.
            ValueError: it is no such name.
        """
        if not isinstance(text, str):
            raise TypeError(f"the name of a dataset is a text, got {text!r:.60}")
        found = _NAME.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r:.100} is no name of a dataset: write it as 'name', 'name/config' or "
                "'name/config:1.0.0'"
            )
        config, version = found["config"], found["version"]
        if config is not None and version is None and _WANTED.fullmatch(config):
            config, version = None, config
        if config is not None and version is None and "/" not in config:
            return cls(found["name"], config, None)
        return cls(found["name"], config, version)


class Folder:
    """A directory, local or of a file system of fsspec's.

    Args:
        path: of it, with a scheme if it is not local.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._remote = has_scheme(self.path)
        if not self._remote:
            self.path = os.path.expanduser(self.path)

    def join(self, *names: str) -> Folder:
        """Return a directory inside."""
        return Folder(self.file(*names))

    def file(self, *names: str) -> str:
        """Return the path of a file inside."""
        join: Any = posixpath.join if self._remote else os.path.join
        return str(join(self.path, *names))

    def names(self) -> list[str]:
        """Return the names of what is inside; none if there is no such directory."""
        if self._remote:
            system, path = file_system(self.path)
            if not system.isdir(path):
                return []
            found = system.ls(path, detail=False)
            return sorted(posixpath.basename(str(each).rstrip("/")) for each in found)
        try:
            return sorted(os.listdir(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        if self._remote:
            system, path = file_system(self.file(name))
            return bool(system.isfile(path))
        return os.path.isfile(self.file(name))

    def read(self, name: str) -> str:
        """Return the text of a file.

        Raises:
            OSError: it cannot be read.
            PreparedDataError: it is no UTF-8, or much too long.
        """
        if self._remote:
            system, path = file_system(self.file(name))
            content: bytes = system.cat_file(path)
        else:
            with open(self.file(name), "rb") as file:
                content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise PreparedDataError(f"{self.file(name)}: it has more than {_MOST_BYTES} bytes")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise PreparedDataError(f"{self.file(name)}: at byte {error.start}: {error}") from None

    def read_json(self, name: str) -> Any:
        """Return what a file of JSON holds.

        Raises:
            OSError: it cannot be read.
            PreparedDataError: it is no JSON; the message names line and column.
        """
        text = self.read(name)
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise PreparedDataError(f"{self.file(name)}: {where}: {error.msg}") from None
        except RecursionError:
            raise PreparedDataError(f"{self.file(name)}: it is nested too deeply") from None

    @property
    def is_prepared(self) -> bool:
        """Whether a prepared dataset is in it."""
        return self.has(INFO)


def versions_in(folder: Folder) -> list[str]:
    """Return the versions in a directory, the newest first."""
    found = [name for name in folder.names() if _VERSION.fullmatch(name)]
    return sorted(found, key=lambda name: [int(n) for n in name.split(".")], reverse=True)


def find_prepared(
    wanted: DatasetName, data_dirs: Sequence[str | os.PathLike[str]]
) -> Folder | None:
    """Return the directory of a prepared dataset; ``None`` if there is none of the name.

    Args:
        wanted: its name.
        data_dirs: where to look, in order: directories that hold one of the name, that are it, or
            that are that of a version.

    Raises:
        ValueError: there is one, but not of that configuration or version, or several
            configurations of which none is named.
    """
    for data_dir in data_dirs:
        root = Folder(data_dir)
        if root.is_prepared:
            return root
        for place in (root.join(wanted.name), root):
            if place is root and os.path.basename(root.path.rstrip("/")) != wanted.name:
                if not versions_in(root):
                    continue
            found = _in_root(wanted, place)
            if found is not None:
                return found
    return None


def _in_root(wanted: DatasetName, root: Folder) -> Folder | None:
    if wanted.config is None:
        found = versions_in(root)
        if found:
            return _of_version(wanted, root, found)
    configs = {
        name: versions
        for name in root.names()
        if not name.startswith(".") and (versions := _prepared_in(root.join(name)))
    }
    if not configs:
        if wanted.config is not None and versions_in(root):
            raise ValueError(
                f"{wanted.name} in {root.path} has no configurations: leave {wanted.config!r} out"
            )
        return None
    config = wanted.config or _default_config(root, list(configs))
    if config is None:
        raise ValueError(
            f"{wanted.name} in {root.path} has the configurations {', '.join(configs)}: name one, "
            f"as '{wanted.name}/{next(iter(configs))}'"
        )
    if config not in configs:
        raise ValueError(
            f"{wanted.name} in {root.path} has no configuration {config!r}. "
            f"{did_you_mean(config, configs)}There are: {', '.join(configs)}."
        )
    return _of_version(wanted, root.join(config), configs[config])


def _prepared_in(folder: Folder) -> list[str]:
    return [name for name in versions_in(folder) if folder.join(name).is_prepared]


def _default_config(root: Folder, configs: Sequence[str]) -> str | None:
    if len(configs) == 1:
        return configs[0]
    metadata = root.join(".config")
    if metadata.has("metadata.json"):
        found = metadata.read_json("metadata.json")
        name = found.get("default_config_name") if isinstance(found, dict) else None
        return name if name in configs else None
    return None


def _of_version(wanted: DatasetName, folder: Folder, versions: Sequence[str]) -> Folder | None:
    usable = [name for name in versions if folder.join(name).is_prepared]
    if not usable:
        return None
    if wanted.version is None:
        return folder.join(usable[0])
    for name in usable:
        parts = zip(wanted.version.split("."), name.split("."), strict=True)
        if all(mine in ("*", its) for mine, its in parts):
            return folder.join(name)
    raise ValueError(
        f"{folder.path} has no version {wanted.version} of {wanted.name}; there are "
        f"{', '.join(usable)}"
    )


def shard_names(template: str, dataset: str, split: str, form: str, count: int) -> list[str]:
    """Return the names of a split's files.

    Args:
        template: of the names; parts in braces are replaced.
        dataset: the dataset's name.
        split: the split's name.
        form: the name of the format, as in the files' names.
        count: how many files there are.

    Raises:
        PreparedDataError: the template has an unknown part, or names a path.
    """
    text = template or TEMPLATE
    values = {"DATASET": dataset, "SPLIT": split, "FILEFORMAT": form}
    unknown = {
        part
        for part in _PLACEHOLDER.findall(text)
        if part not in (*values, "SHARD_INDEX", "NUM_SHARDS", "SHARD_X_OF_Y")
    }
    leads_out = text.startswith("/") or "\\" in text or ".." in text.split("/")
    if unknown or leads_out or "\0" in text:
        raise PreparedDataError(f"the template {text!r:.100} of names of files is invalid")
    if "{SHARD_" not in text:
        text += "-{SHARD_X_OF_Y}"
    digits = max(5, len(str(count)))

    def name(index: int) -> str:
        number, total = f"{index:0{digits}d}", f"{count:0{digits}d}"
        given = {
            **values,
            "SHARD_INDEX": number,
            "NUM_SHARDS": total,
            "SHARD_X_OF_Y": f"{number}-of-{total}",
        }
        return _PLACEHOLDER.sub(lambda match: given[match[1]], text)

    return [name(index) for index in range(count)]


def default_data_dir() -> Path:
    """``$DRUMLINE_DATA_DIR``, else ``drumline/datasets`` in the user's cache directory.

    The cache directory is ``$XDG_CACHE_HOME``, else ``~/.cache`` (XDG Base Directory
    Specification).
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "drumline" / "datasets"


VARIABLE = "DRUMLINE_DATA_DIR"


def places_to_look(data_dir: str | os.PathLike[str] | None) -> list[str]:
    """Return the directories in which prepared datasets are looked for.

    Args:
        data_dir: the only one, if it is given; otherwise drumline's, and those of TensorFlow
            Datasets: ``$TFDS_DATA_DIR`` and ``~/tensorflow_datasets``.
    """
    if data_dir is not None:
        return [os.fspath(data_dir)]
    others = [os.environ.get("TFDS_DATA_DIR"), os.path.join("~", "tensorflow_datasets")]
    return [str(default_data_dir()), *(each for each in others if each)]
