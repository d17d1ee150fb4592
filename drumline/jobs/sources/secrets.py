"""Secrets of a workspace: files that their user alone can read, named in jobs and shown nowhere."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_LONGEST = 64 << 10
_SHORTEST_MASKED = 4
_MASK = "***"


class SecretError(Exception):
    """A secret that is not there, or cannot be stored; the message never holds its value."""


def write_secret(home: Path, name: str, value: str) -> None:
    """Store a secret, in the place of an older one of that name.

    Raises:
        SecretError: its name or its value is not allowed.
    """
    path = _path(home, name)
    if not value or "\0" in value or len(value.encode()) > _LONGEST:
        raise SecretError(f"the value of {name} must have 1 to {_LONGEST} bytes, without NUL.")
    path.parent.mkdir(exist_ok=True, mode=0o700)
    partial = path.with_name(f".{name}.new")
    partial.unlink(missing_ok=True)
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(file, "w") as stream:
        stream.write(value)
    partial.replace(path)


def read_secret(home: Path, name: str) -> str:
    """The value of a secret.

    Raises:
        SecretError: there is none of that name.
    """
    try:
        return _path(home, name).read_text()
    except FileNotFoundError:
        raise SecretError(
            f"there is no secret {name}; store it by `drumline secret set {name}`"
        ) from None


def remove_secret(home: Path, name: str) -> None:
    """Remove a secret.

    Raises:
        SecretError: there is none of that name.
    """
    try:
        _path(home, name).unlink()
    except FileNotFoundError:
        raise SecretError(f"there is no secret {name}.") from None


def secret_names(home: Path) -> list[str]:
    """The names of all secrets."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(p.name for p in (home / "secrets").iterdir() if _NAME.fullmatch(p.name))
    return []


class Masking:
    """Replaces the values of a workspace's secrets in what is shown.

    Args:
        home: the workspace.
    """

    def __init__(self, home: Path) -> None:
        values = {read_secret(home, name) for name in secret_names(home)}
        # A value of several lines is masked line by line, as logs are shown.
        lines = {line for value in values for line in [value, *value.splitlines()]}
        long = sorted((v for v in lines if len(v) >= _SHORTEST_MASKED), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, long))) if long else None
        self._bytes = [each.encode() for each in long]

    def __call__(self, text: str) -> str:
        """`text` with ``***`` in the place of each value."""
        return text if self._pattern is None else self._pattern.sub(_MASK, text)

    @property
    def margin(self) -> int:
        """How many bytes before and after some others decide whether those belong to a value."""
        return max(0, *(len(each) - 1 for each in self._bytes)) if self._bytes else 0

    def same_size(self, data: bytes) -> bytes:
        """Bytes of a log with as many stars in the place of each value, so that offsets hold."""
        for value in self._bytes:
            data = data.replace(value, b"*" * len(value))
        return data

    def undecided(self, data: bytes) -> int:
        """How many of the last bytes may be the beginning of a value that is still written."""
        longest = 0
        for value in self._bytes:
            end = data[max(0, len(data) - len(value) + 1) :]
            at = end.find(value[:1])
            while at >= 0 and not value.startswith(end[at:]):
                at = end.find(value[:1], at + 1)
            longest = max(longest, len(end) - at if at >= 0 else 0)
        return longest


def _path(home: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise SecretError(f"a secret's name has letters, digits and _, not {name!r}.")
    return home / "secrets" / name
