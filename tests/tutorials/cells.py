"""The code cells of a notebook, as programs: imports changed, magics run."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import textwrap
from pathlib import Path

LICENSE = "Licensed under the Apache"
_ASSIGNED = re.compile(r"^(\s*)([A-Za-z_]\w*)\s*=\s*!(.*)$")
_COMMAND = re.compile(r"^(\s*)!(.*)$")
_LINE_MAGIC = re.compile(r"^(\s*)%(?!%)\s*(\w+)(.*)$")
_NETWORK = re.compile(r"\b(pip3?|apt(-get)?|curl|wget|git|gsutil|gcloud|nvidia-smi|tensorboard)\b")


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell of code, as the notebook has it.

    Attributes:
        number: its position among all cells of code, from 0.
        text: what is written in it.
    """

    number: int
    text: str


def cells_of(notebook: Path) -> list[Cell]:
    """The cells of code that run: not the license."""
    found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]
    return [Cell(number, text) for number, text in enumerate(code) if LICENSE not in text]


def magic(text: str) -> tuple[str, str, str]:
    """A cell's magic with its arguments and the rest of the cell; the first is empty for Python."""
    head, _, body = text.lstrip().partition("\n")
    if not head.startswith("%%"):
        return "", "", text
    name, _, arguments = head[2:].strip().partition(" ")
    return name, arguments.strip(), body


def without_magics(text: str) -> str:
    """A cell's lines with calls of ``run_command`` for commands, and without other line magics.

    Commands that fetch something are left out, as there may be no network. Numbers of lines stay.
    """
    # Notebooks take a cell that is indented as a whole.
    return "\n".join(map(_line, textwrap.dedent(text).split("\n")))


def _line(line: str) -> str:
    if found := _ASSIGNED.match(line):
        indent, name, command = found.groups()
        return f"{indent}{name} = run_command({command.strip()!r})"
    if found := _COMMAND.match(line):
        indent, command = found.groups()
        return (
            f"{indent}pass"
            if _NETWORK.search(command)
            else (f"{indent}_ = run_command({command.strip()!r})")
        )
    if found := _LINE_MAGIC.match(line):
        indent, name, rest = found.groups()
        if name in ("time", "timeit"):
            return f"{indent}{rest.strip()}"
        return f"{indent}kill_background()" if name == "killbgscripts" else f"{indent}pass"
    return line


class _Imports(ast.NodeTransformer):
    """Takes TensorFlow from another module."""

    def __init__(self, module: str):
        self._module = module

    def _new(self, name: str) -> str | None:
        package, _, rest = name.partition(".")
        if package != "tensorflow":
            return None
        return f"{self._module}.{rest}" if rest else self._module

    def visit_Import(self, node: ast.Import) -> ast.AST | list[ast.AST]:
        made: list[ast.AST] = []
        for alias in node.names:
            new = self._new(alias.name)
            if new is None:
                made.append(ast.Import([alias]))
            elif alias.asname is not None:
                made.append(ast.Import([ast.alias(new, alias.asname)]))
            else:
                made.append(ast.Import([ast.alias(self._module, "tensorflow")]))
                if "." in alias.name:
                    made.append(ast.Import([ast.alias(new, "_")]))
        return [ast.copy_location(each, node) for each in made]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        new = None if node.level or node.module is None else self._new(node.module)
        return node if new is None else ast.copy_location(ast.ImportFrom(new, node.names, 0), node)


def with_imports(text: str, filename: str, module: str) -> ast.Module:
    """A program in which TensorFlow is imported from `module`.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = ast.parse(text, filename)
    return ast.fix_missing_locations(_Imports(module).visit(tree))


def file_with_imports(text: str, filename: str, module: str) -> str:
    """What ``%%writefile`` writes: Python with its imports changed, other files as they are."""
    if not filename.endswith(".py"):
        return text
    return ast.unparse(with_imports(text, filename, module)) + "\n"
