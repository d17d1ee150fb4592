"""What of TensorFlow a script uses, and what the look-alike has of it.

    python -m drumline.compat.check train.py notebook.ipynb

It reads the files and runs nothing of them. For each name of TensorFlow that is absent, or differs,
it prints the lines that use it, with what to use, or how it differs; ``--all`` lists what is there,
too. The exit status is 0 if nothing is absent, 1 if something is, 2 if a file cannot be read.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from drumline.compat.symbols import table

ROOTS = ("tensorflow", "drumline.compat.tf")
"""The packages whose names are looked up."""
RELATED = {
    "tensorflow_addons": "most of it is in keras.layers, keras.losses and keras.optimizers",
    "tensorflow_datasets": "import drumline.compat.tfds in its place, which has the datasets of "
    "drumline.datasets and folders of images; others by tf.data.Dataset.from_generator",
    "tensorflow_hub": "it loads TensorFlow's graphs; keras.applications and keras_hub have models",
    "tensorflow_io": "drumline.data reads Parquet, Arrow, CSV and TFRecord files",
    "tensorflow_probability": "its tfp.substrates.jax runs on JAX",
    "tensorflow_text": "its operations are kernels of TensorFlow; tf.strings has the usual ones",
}
"""Packages built on TensorFlow, which the look-alike does not stand in for."""


class Presence(Enum):
    """Whether a name is there; `UNREAD` for a cell of a notebook that is not Python."""

    THERE = "there"
    DIFFERS = "differs"
    ABSENT = "absent"
    UNREAD = "unread"


@dataclass(frozen=True)
class Finding:
    """A name of TensorFlow that a script uses.

    Attributes:
        name: without ``tf.``, or the name of another package.
        presence: whether it is there.
        text: how it differs, or what to use in its place.
        lines: where it is used; in a notebook ``cell:line``.
    """

    name: str
    presence: Presence
    text: str
    lines: tuple[str, ...]


def presence(name: str) -> tuple[Presence, str]:
    """Whether a name, without ``tf.``, is there, and how it differs or what to use.

    Example:
        >>> presence("math.add")
        (<Presence.THERE: 'there'>, '')
    """
    entry = table.find(name)
    if entry is not None:
        return (Presence.DIFFERS if entry.difference else Presence.THERE), entry.difference
    if table.is_namespace(name) or name == "__version__":
        return Presence.THERE, ""
    home, _, last = table.canonical(name).rpartition(".")
    if home.partition(".")[0] == "keras":
        if hasattr(importlib.import_module(f"drumline.compat.tf.{home}"), last):
            return Presence.THERE, ""
    elif home in table.tensorflow().methods:
        of_class = table.find(home)
        if of_class is not None and hasattr(of_class.load(), last):
            return Presence.THERE, ""
    return Presence.ABSENT, table.missing(name)


def check(text: str) -> list[Finding]:
    """The names of TensorFlow in a script, absent ones first.

    Args:
        text: the source of a module, or the JSON of a notebook.

    Raises:
        SyntaxError: the source is not Python.
    """
    uses: dict[str, list[str]] = {}
    modules, found = [], []
    for place, source in _sources(text):
        try:
            modules.append((place, ast.parse(source)))
        except SyntaxError as error:
            if not place:
                raise
            cell = f"cell {place.removesuffix(':')}"
            found.append(Finding(cell, Presence.UNREAD, f"it is not Python: {error.msg}", ()))
    for name, line in _names(modules):
        uses.setdefault(name, []).append(line)
    found += [_finding(name, tuple(dict.fromkeys(lines))) for name, lines in uses.items()]
    order = [Presence.UNREAD, Presence.ABSENT, Presence.DIFFERS, Presence.THERE]
    return sorted(found, key=lambda each: (order.index(each.presence), each.name))


def _finding(name: str, lines: tuple[str, ...]) -> Finding:
    if name in RELATED:
        return Finding(name, Presence.ABSENT, f"{name} needs TensorFlow: {RELATED[name]}", lines)
    if name.startswith("python.") or name.startswith("core."):
        text = f"tensorflow.{name} is private to TensorFlow; use the public name"
        return Finding(name, Presence.ABSENT, text, lines)
    return Finding(name, *presence(name), lines)


def _sources(text: str) -> Iterator[tuple[str, str]]:
    """The sources of a file, with what goes before numbers of lines.

    A notebook's lines for IPython and the shell are left out, so are cells in other languages.
    """
    if not text.lstrip().startswith("{"):
        yield "", text
        return
    for number, cell in enumerate(json.loads(text)["cells"], 1):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            continue
        if source.startswith("%%") and not re.match(r"%%(time|timeit|capture)\b", source):
            continue
        yield f"{number}:", _SHELL.sub(_passed_over, source)


_SHELL = re.compile(r"^([ \t]*)[%!](?:.*\\\n)*.*$", re.M)


def _passed_over(found: re.Match[str]) -> str:
    """Lines for IPython and the shell as one that does nothing, and as many empty ones."""
    return f"{found[1]}pass" + "\n" * found[0].count("\n")


@dataclass
class _Imports(ast.NodeVisitor):
    """Which names of a module stand for which of TensorFlow's.

    Attributes:
        paths: for each, its path without ``tf.``.
        assigned: how often each name is bound otherwise.
        imported: the names of TensorFlow in import statements, with their lines.
        place: what goes before numbers of lines.
    """

    paths: dict[str, str] = field(default_factory=dict)
    assigned: Counter[str] = field(default_factory=Counter)
    imported: list[tuple[str, str]] = field(default_factory=list)
    place: str = ""

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            path = _within(alias.name)
            if path is None:
                self._note(_related(alias.name), node.lineno)
            elif alias.asname is not None:
                self.paths[alias.asname] = path
                self._note(path, node.lineno)
            elif alias.name.startswith("tensorflow"):
                self.paths["tensorflow"] = ""
                self._note(path, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or node.module is None:
            return
        for alias in node.names:
            path = _within(f"{node.module}.{alias.name}")
            if path is None:
                self._note(_related(node.module), node.lineno)
            elif alias.name != "*":
                self.paths[alias.asname or alias.name] = path
                self._note(path, node.lineno)

    def _note(self, name: str, line: int) -> None:
        if name:
            self.imported.append((name, f"{self.place}{line}"))

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.assigned[node.id] += 1

    def visit_arg(self, node: ast.arg) -> None:
        self.assigned[node.arg] += 1


def _related(module: str) -> str:
    """The package of a module, if it is one of `RELATED`; else nothing."""
    root = module.partition(".")[0]
    return root if root in RELATED else ""


def _within(module: str) -> str | None:
    """The path of a module or name within TensorFlow; None if it is of another package."""
    for root in ROOTS:
        if module == root or module.startswith(root + "."):
            return module.removeprefix(root).lstrip(".")
    return None


def _names(modules: list[tuple[str, ast.Module]]) -> Iterator[tuple[str, str]]:
    """The names of TensorFlow in a module, or in a notebook's cells, with their lines."""
    imports = _Imports()
    for place, module in modules:
        imports.place = place
        imports.visit(module)
    yield from imports.imported
    nodes = [(place, node) for place, module in modules for node in ast.walk(module)]
    paths = {name: path for name, path in imports.paths.items() if not imports.assigned[name]}
    for _, node in nodes:  # ``layers = tf.keras.layers``
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, path = node.targets[0], _path(node.value, paths)
            if isinstance(target, ast.Name) and imports.assigned[target.id] == 1:
                if path is not None and (table.is_namespace(path) or table.is_public(path)):
                    paths[target.id] = path
    inner = set()
    for place, node in nodes:
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in inner:
            below: ast.expr = node
            while isinstance(below, ast.Attribute):
                below = below.value
                inner.add(id(below))
            path = _path(node, paths)
            if path and not (isinstance(node, ast.Name) and table.is_namespace(path)):
                yield _known(path), f"{place}{node.lineno}"


def _path(node: ast.expr, paths: dict[str, str]) -> str | None:
    """The path of an expression like ``tf.math.add``; None if it is none of TensorFlow's."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in paths:
        return None
    return ".".join(filter(None, (paths[node.id], *reversed(parts))))


def _known(path: str) -> str:
    """The part of a path that names something of TensorFlow's: what follows is of that object."""
    parts = path.split(".")
    for size in range(1, len(parts) + 1):
        name = ".".join(parts[:size])
        if table.is_namespace(name):
            continue
        if table.canonical(name) in table.tensorflow().methods and size < len(parts):
            return ".".join(parts[: size + 1])
        return name
    return path


def report(path: str, findings: list[Finding], everything: bool = False) -> str:
    """What `main` prints for a file."""
    count = Counter(each.presence for each in findings)
    there, differ, absent = (
        count[kind] for kind in (Presence.THERE, Presence.DIFFERS, Presence.ABSENT)
    )
    lines = [
        f"{path}: {there + differ + absent} names of TensorFlow, {there} there, "
        f"{differ} there with differences, {absent} absent"
    ]
    for each in findings:
        if each.presence is Presence.THERE and not everything:
            continue
        places = ", ".join(each.lines[:8]) + (", ..." if len(each.lines) > 8 else "")
        of_tf = "" if each.name in RELATED or not places else "tf."
        where = f" (line {places})" if places else ""
        lines.append(f"  {each.presence.value:<8} {of_tf}{each.name}{where}")
        lines += [f"           {each.text}"] if each.text else []
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Check files, print what was found, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m drumline.compat.check",
        description="List the names of TensorFlow in scripts, and which drumline.compat.tf has.",
    )
    parser.add_argument("files", nargs="+", help="scripts, or notebooks (.ipynb)")
    parser.add_argument("--all", action="store_true", help="list the names that are there, too")
    given = parser.parse_args(arguments)
    status = 0
    for path in given.files:
        try:
            findings = check(Path(path).read_text())
        except (OSError, SyntaxError, ValueError, KeyError) as error:
            print(f"{path} cannot be read: {type(error).__name__}: {error}", file=sys.stderr)
            status = 2
            continue
        print(report(path, findings, given.all))
        if status == 0 and any(each.presence is Presence.ABSENT for each in findings):
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
