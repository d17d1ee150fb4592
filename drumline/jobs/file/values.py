"""Values with the place where they were written, so that an error names the line.

A job comes from a YAML file, from a command line or from Python. All become a tree of
`WrittenValue`, which is then checked by one set of rules (`reading.py`).
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_BYTES |= {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class JobFileError(ValueError):
    """A job that is not right; the message has a line for each mistake.

    Attributes:
        problems: each with its place, as ``"job.yaml:7: ..."``.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Mistake(Exception):
    """One value that is not right.

    Args:
        where: its place, as ``"job.yaml:7"``.
        text: what is wrong with it, and what would be right.
    """

    def __init__(self, where: str, text: str) -> None:
        super().__init__(f"{where}: {text}")


@dataclasses.dataclass(frozen=True)
class WrittenValue:
    """Something that was written somewhere.

    Attributes:
        where: as ``"job.yaml:7"`` or ``"--worker-size"``.
        path: as ``"workers.cpus"``; empty for the whole.
        content: a str, an int, a float, a bool, None, a list of values or a dict of values.
        keys: the places of a dict's keys.
    """

    where: str
    path: str
    content: Any
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def mistake(self, text: str) -> Mistake:
        """A mistake at this place."""
        return Mistake(self.where, f"{self.path}: {text}" if self.path else text)

    def text(self) -> str:
        """A string that is not empty."""
        if not isinstance(self.content, str):
            raise self.mistake(f"must be text; in quotes it is: {_quoted(self.content)}")
        if not self.content or "\0" in self.content:
            raise self.mistake("must not be empty" if not self.content else "holds a NUL character")
        return self.content

    def boolean(self) -> bool:
        """True or false."""
        if not isinstance(self.content, bool):
            raise self.mistake(f"must be true or false, not {self.shown}")
        return self.content

    def integer(self, least: int, most: int) -> int:
        """A whole number between `least` and `most`."""
        if type(self.content) is not int or not least <= self.content <= most:
            raise self.mistake(f"must be a whole number from {least} to {most}, not {self.shown}")
        return self.content

    def number(self, most: float) -> float:
        """A number above 0."""
        if type(self.content) not in (int, float) or not 0 < self.content <= most:
            raise self.mistake(f"must be a number above 0 and at most {most:g}, not {self.shown}")
        return float(self.content)

    def memory(self) -> int:
        """A number of bytes, written with its unit: ``"16GiB"``."""
        return int(self._measured(_BYTES, "16GiB"))

    def duration(self) -> float:
        """A number of seconds, written with its unit: ``"12h"``."""
        return self._measured(_SECONDS, "12h")

    def _measured(self, units: Mapping[str, int], example: str) -> float:
        found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?) ?([A-Za-z]+)", str(self.content))
        if found is None or found[2] not in units or not float(found[1]):
            raise self.mistake(
                f"must be a number above 0 with one of the units {', '.join(units)}, as "
                f"{example}, not {self.shown}"
            )
        return float(found[1]) * units[found[2]]

    def items(self) -> list[WrittenValue]:
        """The values of a list."""
        if not isinstance(self.content, list):
            raise self.mistake(f"must be a list, not {self.shown}")
        return self.content

    def mapping(self, known: Iterable[str] | None = None) -> dict[str, WrittenValue]:
        """The values of keys, all of which are in `known`."""
        if not isinstance(self.content, dict):
            raise self.mistake(f"must be keys with values, not {self.shown}")
        for mistake in self.unknown_keys(self.content if known is None else known):
            raise mistake
        return self.content

    def unknown_keys(self, known: Iterable[str]) -> Iterator[Mistake]:
        """What is wrong with each key of a mapping that is not in `known`."""
        allowed = tuple(known)
        for key in self.content:
            if key not in allowed:
                near = nearest(key, allowed)
                known_keys = f"known are {', '.join(allowed)}"
                remedy = f"did you mean {near!r}?" if near else known_keys
                inside = f" in {self.path!r}" if self.path else ""
                yield Mistake(self.keys[key], f"there is no key {key!r}{inside}; {remedy}")

    @property
    def shown(self) -> str:
        """The content as an error may show it."""
        if isinstance(self.content, list | dict):
            return "a list" if isinstance(self.content, list) else "keys with values"
        return "nothing" if self.content is None else repr(self.content)[:80]


def nearest(key: str, known: Iterable[str]) -> str | None:
    """The known key that was probably meant."""
    return next(iter(difflib.get_close_matches(key, tuple(known), 1)), None)


def _quoted(content: Any) -> str:
    if content is None:
        return '""'
    if isinstance(content, list | dict):
        return "..."
    return f'"{str(content).lower() if isinstance(content, bool) else content}"'


def value_of(content: Any, where: str, path: str = "") -> WrittenValue:
    """The tree of a Python object made of dicts, lists, strings and numbers."""
    if isinstance(content, Mapping):
        inside = {str(key): value_of(each, where, _join(path, str(key)))
                  for key, each in content.items()}  # fmt: skip
        return WrittenValue(where, path, inside, dict.fromkeys(inside, where))
    if isinstance(content, list | tuple):
        each = [value_of(item, where, f"{path}[{i}]") for i, item in enumerate(content)]
        return WrittenValue(where, path, each)
    return WrittenValue(where, path, content)


def parse_yaml(text: str, file: str) -> WrittenValue:
    """The tree of a YAML document; `file` names it in errors.

    Raises:
        JobFileError: it is not YAML, or a key is duplicate.
    """
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            raise Mistake(file, "the file is empty; a job needs at least its command")
        return _value_of_node(node, file, "", 0)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise JobFileError([f"{file}:{line}: this is not YAML: {error.problem}"]) from None
    except yaml.YAMLError as error:
        raise JobFileError([f"{file}: this is not YAML: {error}"]) from None
    except Mistake as mistake:
        raise JobFileError([str(mistake)]) from None


_DEEPEST = 8


def _value_of_node(node: Any, file: str, path: str, depth: int) -> WrittenValue:
    where = f"{file}:{node.start_mark.line + 1}"
    if depth > _DEEPEST:
        raise Mistake(where, "is nested too deeply for a job")
    if node.id == "sequence":
        items = [
            _value_of_node(each, file, f"{path}[{i}]", depth + 1)
            for i, each in enumerate(node.value)
        ]
        return WrittenValue(where, path, items)
    if node.id == "mapping":
        inside: dict[str, WrittenValue] = {}
        keys: dict[str, str] = {}
        for key, each in node.value:
            place = f"{file}:{key.start_mark.line + 1}"
            if key.id != "scalar":
                raise Mistake(place, "a key must be a word")
            if key.value in inside:
                raise Mistake(place, f"the key {key.value!r} is duplicate; first {keys[key.value]}")
            inside[key.value] = _value_of_node(each, file, _join(path, key.value), depth + 1)
            keys[key.value] = place
        return WrittenValue(where, path, inside, keys)
    return WrittenValue(where, path, _scalar(node))


def _scalar(node: Any) -> Any:
    """YAML's own types, without those of YAML 1.1 that surprise: 1:30, 0o17, dates are text."""
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool" and node.value.lower() in ("true", "false"):
        return node.value.lower() == "true"
    if kind == "int" and re.fullmatch(r"-?(0|[1-9]\d{0,17})", node.value):
        return int(node.value)
    if kind == "float" and re.fullmatch(r"-?\d+\.\d+", node.value):
        return float(node.value)
    return node.value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
