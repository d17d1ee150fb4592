"""The data of a job file: what it is read from, and the paths it is seen at."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from drumline.jobs.file.model import JobData
from drumline.jobs.file.values import Mistake, WrittenValue, value_of

Saved = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Saved configurations: the fields of each by its kind (``"code"``, ``"data"``) and its name."""

SAVED_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
LONGEST_PATH = 1000

_CREDENTIALS = re.compile(r"^[a-z0-9+]+://[^/@]*:[^/@]*@")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.S)
_READ_ONLY = ("dataset", "http", "https")
_MOST_ENTRIES = 100

# Of the kernel, with all that is in them; and of every system, which would not work without them.
_KERNELS = ("/proc", "/sys", "/dev")
_SYSTEMS = ["/bin", "/boot", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/root", "/run"]
_SYSTEMS += ["/sbin", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/var", "/var/lib"]


def mount_path(value: WrittenValue) -> str:
    """An absolute path at which a folder can be seen."""
    path = value.text()
    parts = PurePosixPath(path).parts
    if not path.startswith("/") or path.startswith("//") or ".." in parts:
        raise value.mistake(f"must be an absolute path without '..', not {value.shown}")
    if len(path) > LONGEST_PATH or not path.isprintable():
        raise value.mistake(f"must be printable and have at most {LONGEST_PATH} characters")
    plain = str(PurePosixPath(path))
    if plain == "/" or plain in _SYSTEMS:
        raise value.mistake(f"must not be {plain}, which the programs need; take a folder in it")
    if any(is_inside(plain, each) for each in _KERNELS):
        raise value.mistake(f"must not be in {'/'.join(parts[:2])[1:]}, which is the kernel's")
    return plain


def is_inside(path: str, other: str) -> bool:
    """Whether a path is another one, or in it."""
    return path == other or path.startswith(f"{other.rstrip('/')}/")


def overlaps(paths: Sequence[tuple[WrittenValue, str]]) -> list[Mistake]:
    """A mistake for each path that is in another, or equal to it, or has its variable's name."""
    found = []
    for i, (value, path) in enumerate(paths):
        for other, earlier in paths[:i]:
            if is_inside(path, earlier) or is_inside(earlier, path):
                found.append(value.mistake(f"{path} and {earlier} ({other.where}) overlap"))
            elif variable(path) == variable(earlier):
                found.append(value.mistake(f"{path} and {earlier} differ in punctuation alone"))
    return found


def variable(path: str) -> str:
    """The variable that says where the folder of a mount path is: ``DRUMLINE_DATA_MNT_DIGITS``."""
    return f"DRUMLINE_DATA_{re.sub(r'[^A-Z0-9]+', '_', path.upper()).strip('_')}"


def read_data(
    value: WrittenValue, base: Path, saved: Saved, places: dict[str, WrittenValue]
) -> tuple[JobData, ...]:
    """The entries of ``data``.

    Args:
        value: a list of them.
        base: the folder that relative ones are seen from.
        saved: see `Saved`.
        places: is given where each source and each path was written, as ``"data[0].from"``.
    """
    items = value.items()
    if len(items) > _MOST_ENTRIES:
        raise value.mistake(f"has {len(items)} entries, and may have {_MOST_ENTRIES}")
    found = []
    for i, item in enumerate(items):
        here: dict[str, WrittenValue] = {}
        found.append(_entry(item, base, saved, here))
        places.update({f"data[{i}].{key}": each for key, each in here.items()})
    return tuple(found)


def _entry(
    value: WrittenValue, base: Path, saved: Saved, places: dict[str, WrittenValue]
) -> JobData:
    if isinstance(value.content, str):  # the name of a saved one alone
        given = {"from": value}
    else:
        given = value.mapping(("from", "at", "write"))
    if "from" not in given:
        raise value.mistake("needs from: a folder, or an address as nfs://, s3://, dataset://")
    source = given["from"]
    if fields := find_saved(source, base, saved, "data"):
        given = {**value_of(fields, source.where, value.path).content, **given}
        source = given["from"] = value_of(fields["from"], source.where, source.path)
    places["from"] = source
    address = read_source(source, base)
    write = given["write"].boolean() if "write" in given else False
    scheme = address.partition("://")[0] if "://" in address else ""
    if write and scheme in _READ_ONLY:
        raise given["write"].mistake(f"{scheme}:// can be read only")
    if "at" not in given:
        if scheme == "dataset":  # found by its name
            return JobData(address, "", write)
        raise value.mistake("needs at, the absolute path at which the job sees it")
    places["at"] = given["at"]
    at = mount_path(given["at"])
    if variable(at) == "DRUMLINE_DATA_DIR":
        raise given["at"].mistake("must not be /dir, whose variable has another meaning")
    return JobData(address, at, write)


def find_saved(
    value: WrittenValue, base: Path, saved: Saved, kind: str
) -> Mapping[str, Any] | None:
    """The fields of a saved configuration, if text is the name of one and of no folder."""
    name = value.content
    if not isinstance(name, str) or not SAVED_NAME.fullmatch(name):
        return None
    fields = saved.get(kind, {}).get(name)
    if fields is not None and (base / name).is_dir():
        raise value.mistake(
            f"{name!r} is a folder and saved {kind}; write ./{name} for the folder, or save the "
            "other by another name"
        )
    return fields


def read_source(value: WrittenValue, base: Path) -> str:
    """The address of data: with a scheme, or the absolute path of a folder of this machine."""
    text = value.text()
    found = _SCHEME.fullmatch(text)
    if found is None:
        folder = (base / Path(text).expanduser()).resolve()
        if not folder.is_dir():
            saved = SAVED_NAME.fullmatch(text)
            also = f", and no data are saved as {text!r} (`drumline data list`)" if saved else ""
            raise value.mistake(f"there is no folder {folder}{also}")
        return str(folder)
    scheme, rest = found.groups()
    if _CREDENTIALS.match(text):
        raise value.mistake(
            "must hold no password: store it by `drumline secret set NAME`, and list it in secrets"
        )
    if not rest.strip("/") or not text.isprintable():
        raise value.mistake(f"is no whole address: {value.shown}")
    if scheme == "file":
        return read_source(value_of(f"/{rest.lstrip('/')}", value.where, value.path), base)
    if scheme == "nfs" and "/" not in rest:
        raise value.mistake(f"must be nfs://HOST/PATH, not {value.shown}")
    return text
