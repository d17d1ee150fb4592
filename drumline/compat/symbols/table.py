"""One table of the look-alike's names: the modules, their listings and their answers come from it.

A file of this package declares the names of an area::

    AREA = area(
        "drumline.compat.ops.elementwise",
        add="add math.add",
        floormod="math.floormod math.mod math.floormod",
    )

Each keyword is an attribute of the module, its value the public names, without ``tf.``. Modules are
imported when one of their names is first used.
"""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A public name of the look-alike.

    Attributes:
        name: without ``tf.``, as ``"math.add"``.
        module: where it is implemented.
        attribute: in this module; dots lead to attributes of attributes. Empty for the module.
        since: the version of drumline that has it first.
        difference: what is not as in TensorFlow; empty if nothing is known.
    """

    name: str
    module: str
    attribute: str
    since: str = "0.1"
    difference: str = ""

    def load(self) -> Any:
        """The object, whose module is imported if it is not yet."""
        importlib.import_module("drumline.compat.ops")
        found: Any = importlib.import_module(self.module)
        for part in filter(None, self.attribute.split(".")):
            found = getattr(found, part)
        return found


def area(
    module: str,
    names: Mapping[str, str] | None = None,
    /,
    *,
    since: str = "0.1",
    differences: Mapping[str, str] | None = None,
    **attributes: str,
) -> tuple[Entry, ...]:
    """Declare names of one module.

    Args:
        module: the module that implements them.
        names: attributes that are no Python names (dotted ones), as `attributes`.
        since: see `Entry`.
        differences: for attributes, what is not as in TensorFlow.
        attributes: for each attribute its public names, separated by spaces.
    """
    found = differences or {}
    return tuple(
        Entry(name, module, attribute, since, found.get(attribute, ""))
        for attribute, text in {**(names or {}), **attributes}.items()
        for name in text.split()
    )


def same_names(module: str, prefix: str, names: str, **options: Any) -> tuple[Entry, ...]:
    """Declare attributes of a module that have the same name under ``prefix``.

    Args:
        module: the module that implements them.
        prefix: ``"math."``, or nothing.
        names: the attributes, separated by spaces.
        options: see `area`.
    """
    return area(module, {name: prefix + name for name in names.split()}, **options)


@dataclass(frozen=True)
class Absent:
    """Names of TensorFlow that are not there.

    Attributes:
        prefix: of the names.
        reason: why, one of `REASONS`.
        instead: what to use.
    """

    prefix: str
    reason: str
    instead: str


def areas() -> list[str]:
    """The files of this package that declare names: all but this one and `absent`."""
    names = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in names if name not in ("__init__", "absent", "table"))


@functools.cache
def entries() -> dict[str, Entry]:
    """All names that are there.

    Raises:
        ValueError: two areas declare one name.
    """
    found: dict[str, Entry] = {}
    for name in areas():
        for entry in importlib.import_module(f"drumline.compat.symbols.{name}").AREA:
            if entry.name in found:
                raise ValueError(f"tf.{entry.name} is declared twice, also in {name}.py")
            found[entry.name] = entry
    return found


@functools.cache
def children() -> dict[str, tuple[str, ...]]:
    """For each namespace (``""``, ``"math"``) the names directly in it."""
    found: dict[str, set[str]] = {"": set()}
    for name in entries():
        parts = name.split(".")
        for depth in range(len(parts)):
            found.setdefault(".".join(parts[:depth]), set()).add(parts[depth])
    return {prefix: tuple(sorted(names)) for prefix, names in found.items()}


@functools.cache
def names_of_tensorflow() -> frozenset[str]:
    """The public names of TensorFlow 2.21, but those of ``raw_ops`` and ``compat``."""
    path = Path(__file__).parent / "tensorflow_names.txt"
    return frozenset(path.read_text().split())


def missing(name: str) -> str:
    """One sentence about a name that is not there, and what to use instead."""
    answers = importlib.import_module("drumline.compat.symbols.absent")
    reasons = answers.REASONS

    for absent in answers.ABSENT:
        if name == absent.prefix or name.startswith(absent.prefix + "."):
            return f"tf.{name} is not in the look-alike: {reasons[absent.reason]}; {absent.instead}"
    known = name in names_of_tensorflow()
    near = _nearest(name)
    use = f"; nearest: {', '.join(f'tf.{each}' for each in near)}" if near else ""
    if known:
        return f"tf.{name} is not in the look-alike: {reasons['not yet']}{use}"
    return f"TensorFlow 2.21 has no tf.{name}, and neither has the look-alike{use}"


def _nearest(name: str) -> list[str]:
    last = name.rpartition(".")[2]
    same: Iterable[str] = [each for each in entries() if each.rpartition(".")[2] == last]
    return [*same, *difflib.get_close_matches(name, entries(), 2, 0.75)][:2]
