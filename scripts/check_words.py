"""Check names and texts against docs/inside/glossary.md.

Reported are phrases that the glossary replaces (in docstrings, comments, strings and docs), names
that it replaces (of files, classes and functions), and classes of the same name in two places.
`words_remaining.toml` lists the files and classes that are still to be mended: an entry without
findings fails, so the list can only shrink.

    check_words.py             report what is new, or listed without need
    check_words.py FILE ...    show each finding of these files, listed or not
    check_words.py --update    drop entries without findings, follow files that were moved, and fill
                               in where the names of the glossary are defined; refuses to add to the
                               list on balance
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = Path("docs/inside/glossary.md")
REMAINING = Path("scripts/words_remaining.toml")
FOLDERS = ("benchmarks", "docs", "drumline", "drumline_command", "examples", "rust/src", "scripts")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
SUFFIXES = {".py", ".pyi", ".rs", ".md"}
CLASSES_IN = ("drumline/", "drumline_command/")
RUST_TEXT = re.compile(r"//[^\n]*|\"(?:[^\"\\]|\\.)*\"", re.S)
RUST_NAME = re.compile(r"\b(?:struct|enum|trait|type)\s+(\w+)")
HEADER = """\
# What scripts/check_words.py still finds. Entries may only be removed: mend a file, then run
# .venv/bin/python scripts/check_words.py --update
"""


class Glossary:
    """The tables of the glossary: ``phrases`` and ``names`` to avoid, each with what to write.

    Args:
        text: the page, in Markdown.

    Raises:
        ValueError: the page lacks one of the tables.
    """

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.names = dict(self._pairs("Names that were replaced"))
        self.phrases = dict(self._pairs("Phrases to avoid"))
        if not self.names or not self.phrases:
            raise ValueError(f"{GLOSSARY} has no table of replaced names or of phrases to avoid.")
        alternatives = "|".join(
            r"\s+".join(map(re.escape, phrase.split()))
            for phrase in sorted(self.phrases, key=len, reverse=True)
        )
        self._pattern = re.compile(rf"(?<![\w-])(?:{alternatives})(?![\w-])", re.I)

    def _pairs(self, title: str) -> Iterator[tuple[str, str]]:
        inside = False
        for line in self.lines:
            if line.startswith("#"):
                inside = line.lstrip("# ") == title
            elif inside and (cells := cells_of(line)):
                for name in re.findall(r"`([^`]+)`", cells[0]):
                    yield name, cells[1]

    def phrases_in(self, text: str) -> Iterator[tuple[int, str, str]]:
        """Yield each phrase to avoid: its offset in ``text``, itself, and what to write."""
        for found in self._pattern.finditer(text):
            phrase = " ".join(found[0].lower().split())
            yield found.start(), phrase, self.phrases[phrase]

    def located(self, defined: dict[str, list[str]]) -> str:
        """Return the page with the column "Defined in" filled in.

        Args:
            defined: where each name is defined, as paths.
        """
        replaced = defaultdict(list)
        for old, new in self.names.items():
            for name in re.findall(r"`([^`]+)`", new):
                if name[0].isupper() == old[0].isupper():
                    replaced[name].append(old.removesuffix("()"))
        lines = []
        for line in self.lines:
            cells = cells_of(line)
            if cells and len(cells) == 5 and (name := re.fullmatch(r"`(\w+)`", cells[1])):
                cells[2] = _place(name[1], defined, replaced)
                line = re.sub(r"  +\|", " |", "| " + " | ".join(cells) + " |")
            lines.append(line)
        return "\n".join(lines) + "\n"


def _place(name: str, defined: dict[str, list[str]], replaced: dict[str, list[str]]) -> str:
    """Return the file that defines ``name``, or else its old names."""
    if name in defined:
        return _shortest(defined[name])
    old = [each for each in replaced.get(name, []) if each in defined]
    return "; ".join(f"{_shortest(defined[each])} (now `{each}`)" for each in old) or "-"


def _shortest(paths: list[str]) -> str:
    first, *others = sorted(paths, key=lambda path: (path.count("/"), path))
    return f"`{first}`" + (" and others" if others else "")


def cells_of(line: str) -> list[str]:
    """Return the cells of a row of a Markdown table; none for other lines and for headings."""
    if not line.startswith("|") or re.fullmatch(r"[|\s:-]+", line):
        return []
    cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
    return [] if cells[0] in {"Not", "Word"} else cells


class Source:
    """A file: the ``texts`` to read, with the line where each begins, and the ``names`` it defines.

    Args:
        path: where it is; the suffix says what it is written in.
        content: its text.
    """

    def __init__(self, path: Path, content: str) -> None:
        self.texts: list[tuple[int, str]] = []
        self.names: list[tuple[int, str]] = [(1, path.stem)] if path.suffix != ".md" else []
        self.classes: list[tuple[int, str]] = []
        if path.suffix in {".py", ".pyi"}:
            self._read_python(content)
        elif path.suffix == ".rs":
            for found in RUST_TEXT.finditer(content):
                self.texts.append((_line(content, found.start()), found[0].lstrip("/!")))
            self.texts = list(joined(self.texts))
            self.names += [
                (_line(content, found.start()), found[1]) for found in RUST_NAME.finditer(content)
            ]
        else:
            self.texts.append((1, re.sub(r"```.*?```|`[^`\n]*`", _blank, content, flags=re.S)))

    def _read_python(self, content: str) -> None:
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                self.texts.append((node.lineno, node.value))
            elif isinstance(node, ast.ClassDef):
                # An older name's arguments for the same thing: `class Name(_Name)`.
                if f"_{node.name}" not in map(ast.unparse, node.bases):
                    self.classes.append((node.lineno, node.name))
                self.names.append((node.lineno, node.name))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.names.append((node.lineno, f"{node.name}()"))
        tokens = tokenize.generate_tokens(io.StringIO(content).readline)
        comments = [
            (token.start[0], token.string.lstrip("# "))
            for token in tokens
            if token.type == tokenize.COMMENT
        ]
        self.texts += joined(comments)


def joined(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Join texts on consecutive lines, so that phrases are found across line ends."""
    first, texts = 0, list[str]()
    for number, text in lines:
        if texts and number == first + len(texts):
            texts.append(text)
        else:
            if texts:
                yield first, "\n".join(texts)
            first, texts = number, [text]
    if texts:
        yield first, "\n".join(texts)


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


class Check:
    """What a tree of files has: ``findings`` for each path, ``classes`` and all ``defined`` names.

    Args:
        root: the folder of the repository.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.glossary = Glossary((root / GLOSSARY).read_text())
        self.findings: dict[str, list[str]] = {}
        self.classes: dict[str, list[str]] = defaultdict(list)
        self.defined: dict[str, list[str]] = defaultdict(list)
        for path in self._paths():
            self._read(path)

    def _paths(self) -> list[Path]:
        found = [path for folder in FOLDERS for path in (self.root / folder).rglob("*")]
        found += [self.root / page for page in PAGES]
        return sorted(
            path
            for path in found
            if path.suffix in SUFFIXES
            and path.is_file()
            and path.relative_to(self.root) != GLOSSARY
        )

    def _read(self, path: Path) -> None:
        name = path.relative_to(self.root).as_posix()
        source = Source(path, path.read_text())
        found = []
        for first, text in source.texts:
            for offset, phrase, instead in self.glossary.phrases_in(text):
                line = first + text.count("\n", 0, offset)
                found.append((line, f"{name}:{line}: “{phrase}”; write: {instead}"))
        if name.startswith((*CLASSES_IN, "rust/")):
            for line, each in source.names:
                if each in self.glossary.names:
                    instead = self.glossary.names[each]
                    found.append((line, f"{name}:{line}: the name {each}; use: {instead}"))
        if name.startswith(CLASSES_IN):
            for line, each in source.classes:
                self.classes[each].append(f"{name}:{line}")
            for _, each in source.names:
                if name not in self.defined[each.removesuffix("()")]:
                    self.defined[each.removesuffix("()")].append(name)
        if found:
            self.findings[name] = [text for _, text in sorted(found)]

    def repeated(self) -> dict[str, list[str]]:
        """Return the classes that are defined more than once, with the places."""
        return {name: places for name, places in self.classes.items() if len(places) > 1}


def read_remaining(root: Path) -> tuple[set[str], set[str]]:
    """Return the files and the classes that are still to be mended."""
    listed = tomllib.loads((root / REMAINING).read_text())
    return set(listed["files"]), set(listed["classes"])


def write_remaining(root: Path, files: Iterable[str], classes: Iterable[str]) -> None:
    """Write the list, an entry a line."""
    text = HEADER
    for title, entries in (("files", files), ("classes", classes)):
        text += f"{title} = [\n" + "".join(f'    "{each}",\n' for each in sorted(entries)) + "]\n"
    (root / REMAINING).write_text(text)


def problems(check: Check) -> list[str]:
    """Return what is not listed, or listed without need."""
    files, classes = read_remaining(check.root)
    repeated = check.repeated()
    found = []
    for name in sorted(check.findings.keys() - files):
        found += check.findings[name]
    for name in sorted(repeated.keys() - classes):
        found.append(
            f"The class {name} is defined at {', '.join(repeated[name])}. Rename all but one."
        )
    found += [
        f"{REMAINING} lists {name} without need: run scripts/check_words.py --update."
        for name in sorted((files - check.findings.keys()) | (classes - repeated.keys()))
    ]
    if check.glossary.located(check.defined) != (check.root / GLOSSARY).read_text():
        found.append(f"{GLOSSARY} names old places: run scripts/check_words.py --update.")
    return found


def update(check: Check) -> list[str]:
    """Bring list and glossary up to date, and return why that is refused, if it is."""
    (check.root / GLOSSARY).write_text(check.glossary.located(check.defined))
    refused = []
    files, classes = read_remaining(check.root)
    repeated = check.repeated()
    if len(check.findings) <= len(files):
        files = set(check.findings)
    else:
        refused += [text for name in check.findings.keys() - files for text in check.findings[name]]
        files &= check.findings.keys()
    if not repeated.keys() - classes:
        classes = set(repeated)
    else:
        refused += [f"The class {name} is defined twice." for name in repeated.keys() - classes]
        classes &= repeated.keys()
    write_remaining(check.root, files, classes)
    return sorted(refused)


def run(arguments: list[str], root: Path = ROOT) -> list[str]:
    """Run the command and return its lines; it succeeded if there are none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    check = Check(root)
    if options.files:
        return [text for name in options.files for text in check.findings.get(name, [])]
    return update(check) if options.update else problems(check)


if __name__ == "__main__":
    sys.exit("\n".join(run(sys.argv[1:])) or 0)
