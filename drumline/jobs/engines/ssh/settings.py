"""The settings of SSH hosts, as `drumline engine add` and ``engine: {ssh: [a, b]}`` give them."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from drumline.jobs.engines.engine import SettingError
from drumline.jobs.file.model import INLINE_SSH, ssh_hosts
from drumline.jobs.file.values import Mistake, value_of

FOLDER = "~/.drumline-jobs"
"""On each host, where the code and the starts of jobs are."""

# What drumline decides itself, or what would have a command run or a terminal asked.
_REFUSED = {"-t", "-tt", "-f", "-n", "-N", "-T", "-W", "-M", "-S", "-O", "-G", "-V", "-s"}
_WITH_VALUES = set("BbcDEeFIiJLlmopQRw")


@dataclasses.dataclass(frozen=True)
class SshSettings:
    """Hosts, as they were added.

    Attributes:
        hosts: as ``ssh`` takes them: names, ``user@name``, or names of ``~/.ssh/config``.
        folder: on each host, for the code, the starts and the logs of jobs.
        python: the Python on the hosts that has drumline; if it is empty, this one's path, that of
            ``drumline`` on the host's PATH and ``python3`` are tried.
        options: further ones of ``ssh``, each a word, as ``-p``, ``2222``.
        cpus: what jobs may hold of each host; 0 for all that it has.
        memory: the same, in bytes.
        gpus: the same; -1 for all.
    """

    hosts: tuple[str, ...]
    folder: str = FOLDER
    python: str = ""
    options: tuple[str, ...] = ()
    cpus: float = 0.0
    memory: int = 0
    gpus: int = -1

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> SshSettings:
        """The settings that `dataclasses.asdict` has written."""
        try:
            hosts, options = fields["hosts"], fields.get("options", ())
            texts = isinstance(hosts, str) or isinstance(options, str)
            if texts or not set(fields) <= known_settings():
                raise TypeError
            lists = {"hosts": ssh_hosts(",".join(hosts)), "options": tuple(map(str, options))}
            return cls(**{**fields, **lists})
        except (KeyError, TypeError) as error:
            raise SettingError(
                f"settings of SSH hosts are {', '.join(sorted(known_settings()))}, with a list of "
                f"hosts; not {json.dumps(fields, default=str)}"
            ) from error
        except ValueError as error:
            raise SettingError(f"hosts: {error}") from None

    @classmethod
    def inline(cls, name: str) -> SshSettings:
        """Those of an engine that a job file describes itself, by its name, as ``ssh:a,b``."""
        return cls(ssh_hosts(name.removeprefix(INLINE_SSH)))


def known_settings() -> set[str]:
    """The names of all settings."""
    return {field.name for field in dataclasses.fields(SshSettings)}


def read_ssh_settings(hosts: str, given: Sequence[str]) -> SshSettings:
    """The settings in words as ``python=/opt/venv/bin/python``.

    Args:
        hosts: their names with commas between them.
        given: the words.

    Raises:
        SettingError: naming what cannot be.
    """
    if not hosts:
        raise SettingError("the hosts are missing: --hosts a,b")
    try:
        names = ssh_hosts(hosts)
    except ValueError as error:
        raise SettingError(f"--hosts: {error}") from None
    fields: dict[str, Any] = {}
    known = ("folder", "python", "options", "cpus", "memory", "gpus")
    for word in given:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            raise SettingError(
                f"{word!r} is not understood; known are {', '.join(known)} (as --set cpus=8)"
            )
        if key in fields:
            raise SettingError(f"{key} is given twice")
        fields[key] = _options(value) if key == "options" else _value(key, value)
    return SshSettings(names, **fields)


def _value(key: str, text: str) -> Any:
    try:
        if key == "cpus":
            return value_of(float(text), "--set", key).number(4096)
        if key == "gpus":
            return value_of(int(text), "--set", key).integer(0, 64)
        given = value_of(text, "--set", key)
        return given.memory() if key == "memory" else given.text()
    except ValueError:
        raise SettingError(f"{key}: {text!r} is no number") from None
    except Mistake as mistake:
        raise SettingError(str(mistake)) from None


def _options(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise SettingError(f"options: {text!r} cannot be split into words: {error}") from None
    takes = False
    for word in words:
        if takes:
            takes = False
            continue
        if not word.startswith("-") or word in _REFUSED:
            why = "is set by drumline" if word in _REFUSED else "is no option of ssh"
            raise SettingError(f"options: {word} {why}; give what ssh needs, as '-p 2222 -i FILE'")
        takes = len(word) == 2 and word[1] in _WITH_VALUES
    if takes:
        raise SettingError(f"options: {words[-1]} lacks its value")
    return words
