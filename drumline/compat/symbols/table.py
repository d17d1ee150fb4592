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
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_OF_TENSORS = ("drumline.compat.ops.", "drumline.compat.io.text", "drumline.compat.io.files")
"""Modules of functions that are dispatched to ragged, sparse and users' own tensors."""


@dataclass(frozen=True)
class Entry:
    """A public name of the look-alike.

    Attributes:
        name: without ``tf.``, as ``"math.add"``.
        module: where it is implemented.
        attribute: in this module; dots lead to attributes of attributes. Empty for the module.
        since: the version of drumline that has it first.
        difference: what is not as in TensorFlow; empty if nothing is known.
        needs: another name, which it calls; it is there if that one is.
    """

    name: str
    module: str
    attribute: str
    since: str = "0.1"
    difference: str = ""
    needs: str = ""

    def load(self) -> Any:
        """The object, whose module is imported if it is not yet."""
        importlib.import_module("drumline.compat.ops")
        found: Any = importlib.import_module(self.module)
        for part in filter(None, self.attribute.split(".")):
            found = getattr(found, part)
        _answer_for_methods()
        if self.module.startswith(_OF_TENSORS):
            from drumline.compat.composite.dispatch import dispatching

            return dispatching(found)
        return found


class _AbsentMethod:
    """Stands in a class for a method that TensorFlow's has: says what to use."""

    def __init__(self, name: str):
        self._name = name

    def __get__(self, instance: Any, owner: Any) -> Any:
        raise AttributeError(missing(self._name))


_answering: set[str] = set()
"""The classes that answer for methods that they have not."""


def _answer_for_methods() -> None:
    """Have the classes that are imported answer for the methods that TensorFlow's have.

    It costs other attributes nothing, as ``__getattr__`` would. Classes of drumline's own, which
    are there without the look-alike, are left alone.
    """
    for path, names in tensorflow().methods.items():
        entry = entries().get(path)
        if path in _answering or entry is None or entry.module not in sys.modules:
            continue
        cls = getattr(sys.modules[entry.module], entry.attribute, None)
        if not entry.module.startswith("drumline.compat.") or not isinstance(cls, type):
            continue
        _answering.add(path)
        for name in names:
            if not hasattr(cls, name):
                setattr(cls, name, _AbsentMethod(f"{path}.{name}"))


def area(
    module: str,
    names: Mapping[str, str] | None = None,
    /,
    *,
    since: str = "0.1",
    differences: Mapping[str, str] | None = None,
    needs: Mapping[str, str] | None = None,
    **attributes: str,
) -> tuple[Entry, ...]:
    """Declare names of one module.

    Args:
        module: the module that implements them.
        names: attributes that are no Python names (dotted ones), as `attributes`.
        since: see `Entry`.
        differences: for attributes, what is not as in TensorFlow.
        needs: for attributes, the name that they call, where another area has it.
        attributes: for each attribute its public names, separated by spaces.
    """
    found, needed = differences or {}, needs or {}
    return tuple(
        Entry(name, module, attribute, since, found.get(attribute, ""), needed.get(attribute, ""))
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


_LIST = Path(__file__).parent / "tensorflow_names.txt"
_NOT_AREAS = ("__init__", "absent", "table")
_SHARED = {
    "compat.v2": "",
    "compat.v1.compat.v1": "compat.v1",
    "compat.v1.compat.v2": "",
    "compat.v1.compat": "compat",
    "compat.v1.keras": "keras",
    "compat.v1.raw_ops": "raw_ops",
    "initializers": "keras.initializers",
    "losses": "keras.losses",
    "metrics": "keras.metrics",
    "optimizers": "keras.optimizers",
}
"""Namespaces that have the names of others."""


@dataclass(frozen=True)
class PublicNames:
    """The public names of TensorFlow 2.21, which `scripts/tf_names.py` writes.

    Attributes:
        names: all of them, without ``tf.``; but those of `_SHARED` namespaces.
        namespaces: the modules, as ``"keras.layers"``.
        same: for names of an object that has another one, this other name.
        methods: for some classes, the names of their public methods and properties.
    """

    names: frozenset[str]
    namespaces: frozenset[str]
    same: Mapping[str, str]
    methods: Mapping[str, tuple[str, ...]]

    @functools.cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """For each object with several names all of them, by the name that `same` has."""
        found: dict[str, list[str]] = {}
        for name, first in self.same.items():
            found.setdefault(first, [first]).append(name)
        return {first: tuple(names) for first, names in found.items()}


@functools.cache
def tensorflow() -> PublicNames:
    """What TensorFlow has."""
    names: list[str] = []
    namespaces: list[str] = []
    same: dict[str, str] = {}
    methods: dict[str, list[str]] = {}
    prefix, cls = "", ""
    for line in _LIST.read_text().splitlines()[1:]:
        if line.startswith("["):
            title = line[1:-1]
            cls = title.removeprefix("class ") if title.startswith("class ") else ""
            prefix = f"{title}." if title else ""
            namespaces += [] if cls else [title]
        elif cls:
            methods.setdefault(cls, []).extend(line.split())
        else:
            for each in line.split():
                name, _, first = each.partition("=")
                names.append(prefix + name)
                if first:
                    same[prefix + name] = first
    return PublicNames(
        names=frozenset(names),
        namespaces=frozenset(filter(None, namespaces)),
        same=same,
        methods={cls: tuple(found) for cls, found in methods.items()},
    )


def canonical(path: str) -> str:
    """The path of a name or namespace that other namespaces share: ``v2.math`` is ``math``."""
    for shared, home in _SHARED.items():
        if path == shared or path.startswith(shared + "."):
            return canonical((home + path.removeprefix(shared)).lstrip("."))
    return path


def areas() -> list[str]:
    """The files of this package that declare names."""
    names = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in names if name not in _NOT_AREAS)


@functools.cache
def entries() -> dict[str, Entry]:
    """The names that areas declare; `find` knows the other names of their objects, too.

    Raises:
        ValueError: two areas declare one name.
    """
    found: dict[str, Entry] = {}
    for name in areas():
        for entry in importlib.import_module(f"drumline.compat.symbols.{name}").AREA:
            if entry.name in found:
                raise ValueError(f"tf.{entry.name} is declared twice, also in {name}.py")
            found[entry.name] = entry
    return {name: entry for name, entry in found.items() if not entry.needs or entry.needs in found}


def find(name: str) -> Entry | None:
    """The entry of a name, or of another name that TensorFlow has for the same object."""
    found = entries()
    name = canonical(name)
    if name in found:
        return found[name]
    public = tensorflow()
    first = public.same.get(name, name)
    for other in public.groups.get(first, ()):
        if other in found:
            return replace(found[other], name=name)
    return None


@functools.cache
def present() -> dict[str, Entry]:
    """All names that are there, sorted, but those of Keras and of shared namespaces."""
    public = tensorflow()
    first = {public.same.get(name, name): entry for name, entry in entries().items()}
    found = dict(entries())
    for origin, entry in first.items():
        for name in public.groups.get(origin, ()):
            found.setdefault(name, replace(entry, name=name))
    return dict(sorted(found.items()))


@functools.cache
def _children() -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {"": set(), "compat": {"v2"}}
    for name in present():
        parts = name.split(".")
        for depth in range(len(parts)):
            found.setdefault(".".join(parts[:depth]), set()).add(parts[depth])
    return {prefix: tuple(sorted(names)) for prefix, names in found.items()}


def children(path: str) -> tuple[str, ...]:
    """The names directly in a namespace (``""``, ``"math"``), sorted; none if there is none."""
    return _children().get(canonical(path), ())


def is_public(name: str) -> bool:
    """Whether TensorFlow has a name, or a class whose methods are listed a method of this name."""
    name, public = canonical(name), tensorflow()
    cls, _, method = name.rpartition(".")
    return name in public.names or method in public.methods.get(cls, ())


def is_namespace(path: str) -> bool:
    """Whether TensorFlow has a module of this name, or names under it are declared."""
    path = canonical(path)
    return path in ("", "compat") or path in tensorflow().namespaces or path in _children()


def missing(name: str) -> str:
    """One sentence about a name that is not there, and what to use instead."""
    if is_public(name):
        from drumline.compat.symbols.absent import answer

        return f"tf.{name} is not in the look-alike{answer(canonical(name))}"
    if is_public(f"compat.v1.{name}"):
        former = f"TensorFlow 2 has no tf.{name}, only tf.compat.v1.{name}"
        absent = find(f"compat.v1.{name}") is None and not is_namespace(f"compat.v1.{name}")
        return f"{former}; {missing(f'compat.v1.{name}')}" if absent else former
    from drumline.compat.symbols.absent import removed

    instead = removed(name)
    if instead is not None:
        return f"tf.{name}, which TensorFlow had up to 2.15, is not in the look-alike: {instead}"
    near = _nearest(name)
    use = f"; nearest: {', '.join(f'tf.{each}' for each in near)}" if near else ""
    return f"TensorFlow 2.21 has no tf.{name}, and neither has the look-alike{use}"


def _nearest(name: str) -> list[str]:
    last = name.rpartition(".")[2]
    known = present()
    same: Iterable[str] = [each for each in known if each.rpartition(".")[2] == last]
    near = dict.fromkeys([*same, *difflib.get_close_matches(name, known, 2, 0.75)])
    return list(near)[:2]
