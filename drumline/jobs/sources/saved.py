"""Code and data that a workspace knows by names, so that job files need not repeat them.

Each is a file with the keys that a job file would have; no value of a secret is among them.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Literal

from drumline.jobs.file.mount_paths import SAVED_NAME, mount_path, read_source
from drumline.jobs.file.reading import read_code
from drumline.jobs.file.values import JobFileError, Mistake, value_of

SavedKind = Literal["code", "data"]
_LARGEST = 64 << 10


class SavedError(Exception):
    """Something saved that is not there, or cannot be saved; the message says why."""


def save(home: Path, kind: SavedKind, name: str, fields: dict[str, Any], base: Path) -> None:
    """Save code or data by a name, in the place of an older one.

    Args:
        home: the workspace.
        kind: what it is.
        name: lower case letters, digits and hyphens.
        fields: the keys that a job file would have. Those of data may lack ``at``.
        base: the folder from which relative ones are seen.

    Raises:
        SavedError: the name is not allowed.
        JobFileError: a job file could not have these keys.
    """
    path = _path(home, kind, name)
    given = {key: each for key, each in fields.items() if each is not None}
    value = value_of(given, f"drumline {kind} add")
    try:
        if kind == "code":
            code = read_code(value, base)
            # Relative to the folder it is added from, not to that of each job.
            given |= {"folder": code.folder} if code.folder else {"git": code.git}
        else:
            parts = value.mapping(("from", "at", "write"))
            given["from"] = read_source(parts["from"], base)
            if "at" in parts:
                given["at"] = mount_path(parts["at"])
    except Mistake as mistake:
        raise JobFileError([str(mistake)]) from None
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_suffix(".new")
    partial.write_text(json.dumps(given))
    partial.replace(path)


def saved(home: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """All that is saved, by its kind and its name.

    Raises:
        SavedError: a file is damaged.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {"code": {}, "data": {}}
    for kind, named in found.items():
        for path in sorted((home / "saved" / kind).glob("*.json")):
            try:
                fields = json.loads(path.read_text()[:_LARGEST])
            except ValueError as error:
                raise SavedError(f"{path} is damaged ({error}); remove it") from None
            if not isinstance(fields, dict):
                raise SavedError(f"{path} is damaged; remove it")
            named[path.stem] = fields
    return found


def remove_saved(home: Path, kind: SavedKind, name: str) -> None:
    """Forget code or data; jobs that were submitted with them keep what they have.

    Raises:
        SavedError: none of that name is saved.
    """
    try:
        os.unlink(_path(home, kind, name))
    except FileNotFoundError:
        raise SavedError(f"no {kind} is saved as {name!r}") from None


def described(fields: dict[str, Any]) -> str:
    """Fields in one line, as a job file would have them."""
    with contextlib.suppress(KeyError):
        fields = {"from": fields["from"], **fields}
    return ", ".join(f"{key}: {str(each).lower() if each is True else each}"
                     for key, each in fields.items())  # fmt: skip


def _path(home: Path, kind: SavedKind, name: str) -> Path:
    if not SAVED_NAME.fullmatch(name):
        raise SavedError(f"a name has 1 to 40 lower case letters, digits and hyphens, not {name!r}")
    return home / "saved" / kind / f"{name}.json"
