"""Checks the shape of the tree: whole files, neither too long nor in splinters, in small folders.

Three rules, each with the files or folders that still break it in ``file_lengths.toml``:

* no source file has more than 900 lines; those of the classes that users hold, where every method
  has its documentation and an example, are counted without their docstrings;
* a module of fewer than 100 lines that a single module of its own folder imports belongs into
  that module (a package's ``__init__.py`` is no such importer: it lists, and holds no code);
* a folder has at most 14 entries: modules, and folders of modules. Its ``__init__.py`` or
  ``mod.rs`` is the folder itself and not counted.

The lists may only shrink: an entry that no longer applies fails, too, as does a folder that has
fewer entries than its row says. ``--update`` removes those and adds nothing.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MOST_LINES = 900
FEWEST_LINES = 100
MOST_ENTRIES = 14
ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {".py", ".pyi", ".rs"}
ALLOWED = "scripts/file_lengths.toml"

DOCUMENTED = {
    "drumline/data/dataset.py",
    "drumline/distribute/strategies.py",
    "drumline/distribute/strategy.py",
}

# Where each rule holds. Tests have as many files a folder as the code has sides to test.
MEASURED = ("benchmarks", "drumline", "drumline_command", "rust/src", "scripts", "tests")
MERGED = ("drumline", "drumline_command")
COUNTED = ("benchmarks", "drumline", "drumline_command", "rust/src", "scripts")

# The folder whose entries are the package's public names, and those that hold one declaration a
# file: they are not read in sequence, so neither rule on folders or small modules applies.
UNCOUNTED = {
    "benchmarks/workloads",
    "drumline",
    "drumline/compat/symbols",
    "drumline/datasets/builders",
}
FOLDER_ITSELF = {"__init__.py", "__main__.py", "mod.rs"}


@dataclass
class Allowed:
    """What breaks a rule still: modules to merge, and folders with their numbers of entries."""

    small_modules: list[str] = field(default_factory=list)
    large_folders: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Allowed:
        """Return the lists in the TOML file ``path``; two empty ones if there is none."""
        rows = tomllib.loads(path.read_text()) if path.exists() else {}
        unknown = rows.keys() - {"small_modules", "large_folders"}
        if unknown:
            raise SystemExit(f"{path}: unknown keys {sorted(unknown)}")
        return cls(rows.get("small_modules", []), rows.get("large_folders", {}))

    def write(self, path: Path) -> None:
        """Write the lists to ``path``, sorted, one entry a line."""
        lines = [
            "# What scripts/check_file_lengths.py still allows. The lists may only shrink;",
            "# `python scripts/check_file_lengths.py --update` removes what no longer applies.",
            "",
            "small_modules = [",
            *(f'    "{module}",' for module in sorted(self.small_modules)),
            "]",
            "",
            "[large_folders]",
            *(f'"{folder}" = {count}' for folder, count in sorted(self.large_folders.items())),
        ]
        path.write_text("\n".join(lines) + "\n")


def sources(root: Path, folders: tuple[str, ...]) -> dict[str, Path]:
    """Return the source files in ``folders`` by their paths from ``root``."""
    found = (p for folder in folders for p in (root / folder).rglob("*") if p.suffix in SUFFIXES)
    return {path.relative_to(root).as_posix(): path for path in sorted(found)}


def length(path: Path) -> int:
    """Return how many lines ``path`` has."""
    return len(path.read_text().splitlines())


def docstring_lines(path: Path) -> int:
    """Return how many lines the docstrings of the Python module ``path`` take."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, documented))
    texts = [node.body[0] for node in nodes if ast.get_docstring(node) is not None]
    return sum((text.end_lineno or text.lineno) - text.lineno + 1 for text in texts)


def long_files(root: Path) -> list[str]:
    """Return a sentence for each file with more than `MOST_LINES` lines."""
    lengths = {
        name: length(path) - (docstring_lines(path) if name in DOCUMENTED else 0)
        for name, path in sources(root, MEASURED).items()
    }
    return [
        f"{name} has {lines} lines; the limit is {MOST_LINES}. Split it by concept."
        for name, lines in lengths.items()
        if lines > MOST_LINES
    ]


def small_modules(root: Path) -> dict[str, str]:
    """Return each module that belongs into its only importer, with that importer."""
    modules = {_module(name): name for name in sources(root, MERGED) if name.endswith(".py")}
    importers: dict[str, set[str]] = defaultdict(set)
    for module, name in modules.items():
        tree = ast.parse((root / name).read_text(), name)
        for imported in _imports(tree, module, name.endswith("__init__.py"), modules):
            importers[imported].add(module)
    found = {}
    for module, name in modules.items():
        others = importers[module] - {module}
        if Path(name).name in FOLDER_ITSELF or len(others) != 1:
            continue
        importer = modules[next(iter(others))]
        together = Path(importer).parent == Path(name).parent
        lists = Path(importer).name == "__init__.py"
        counted = Path(name).parent.as_posix() not in UNCOUNTED
        if together and counted and not lists and length(root / name) < FEWEST_LINES:
            found[name] = importer
    return found


def _module(name: str) -> str:
    """Return the dotted name of the module in the file ``name``."""
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imports(
    tree: ast.Module, module: str, is_package: bool, modules: dict[str, str]
) -> Iterator[str]:
    """Yield the modules of the tree that ``module`` imports anywhere, packages among them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                parts = module.split(".")
                kept = len(parts) - node.level + is_package
                origin = ".".join(parts[:kept] + ([origin] if origin else []))
            for alias in node.names:
                submodule = f"{origin}.{alias.name}"
                if submodule in modules:
                    yield submodule
                elif origin in modules:
                    yield origin


def large_folders(root: Path) -> dict[str, int]:
    """Return each folder with more than `MOST_ENTRIES` entries, with their number."""
    entries: dict[str, set[str]] = defaultdict(set)
    for name in sources(root, COUNTED):
        parts = name.split("/")
        for depth in range(1, len(parts)):
            if parts[depth] not in FOLDER_ITSELF:
                entry = parts[depth].split(".")[0]
                entries["/".join(parts[:depth])].add(entry)
    return {
        folder: len(names)
        for folder, names in sorted(entries.items())
        if len(names) > MOST_ENTRIES and folder not in UNCOUNTED
    }


def complaints(root: Path, allowed: Allowed) -> list[str]:
    """Return a sentence for each broken rule in ``root``, and for each entry to remove."""
    small, large = small_modules(root), large_folders(root)
    found = long_files(root)
    found += [
        f"{name} has {length(root / name)} lines and a single importer, {importer}: put it there."
        for name, importer in small.items()
        if name not in allowed.small_modules
    ]
    found += [
        f"{ALLOWED} allows {name}, which is no longer small with a single importer: remove it."
        for name in allowed.small_modules
        if name not in small
    ]
    for folder, count in large.items():
        most = max(allowed.large_folders.get(folder, 0), MOST_ENTRIES)
        if count > most:
            found.append(f"{folder} has {count} entries; {most} are allowed. Merge or group some.")
    found += [
        f"{ALLOWED} allows {folder} {most} entries, and it has {_entries(large, folder)}: "
        "run `python scripts/check_file_lengths.py --update`."
        for folder, most in allowed.large_folders.items()
        if large.get(folder, 0) < most
    ]
    return found


def _entries(large: dict[str, int], folder: str) -> str:
    """Return the number of entries of ``folder``, if it is counted."""
    return str(large.get(folder, f"no more than {MOST_ENTRIES}"))


def shrunk(root: Path, allowed: Allowed) -> Allowed:
    """Return ``allowed`` without what no longer applies in ``root``."""
    small, large = small_modules(root), large_folders(root)
    return Allowed(
        [name for name in allowed.small_modules if name in small],
        {
            folder: min(most, large[folder])
            for folder, most in allowed.large_folders.items()
            if folder in large
        },
    )


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Check ``root``, print what is wrong and return the exit status."""
    parser = argparse.ArgumentParser(description="Check the shape of the source tree.")
    parser.add_argument(
        "--update", action="store_true", help=f"remove what no longer applies from {ALLOWED}"
    )
    options = parser.parse_args(arguments)
    allowed = Allowed.read(root / ALLOWED)
    if options.update:
        allowed = shrunk(root, allowed)
        allowed.write(root / ALLOWED)
    found = complaints(root, allowed)
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
