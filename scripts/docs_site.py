"""Hooks of mkdocs, which calls the functions here by their names; ``mkdocs.yml`` lists this file.

A link from a page to a file of the repository (``../examples/gan.py``) becomes a link to a page
that shows it. A public name that the reference lacks fails the build.
"""

from __future__ import annotations

import ast
import os
import posixpath
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\[[^\]]*\]\(|^\[[^\]]+\]: )([^)#\s]+)(#[^)\s]*)?", re.M)
LANGUAGES = {".py": "python", ".rs": "rust", ".toml": "toml", ".json": "json", ".yml": "yaml"}
IMAGES = {".png", ".svg"}

PUBLIC = """
    audio config data data.experimental data.random datasets distribute distribute.cluster_resolver
    distribute.coordinator errors image io keras keras.callbacks keras.layers strings train video
"""
"""The modules below ``drumline`` whose names the reference must have."""
UNLISTED = {
    "AUTOTUNE",
    "GLOBAL",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "install",
    "service",
}
"""Constants, what is called at import, and a module of another folder."""
ALIASES = {"drumline.distribute.function": "drumline.function.function"}
"""Names that the reference has by another module."""


class Examples(griffe.Extension):
    """Have griffe read "Example:" in docstrings as the section that it knows as "Examples:"."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring is not None:
            value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.M)
            obj.docstring.value = value


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each file outside of ``docs`` to which pages link, those added included."""
    docs = Path(config.docs_dir)
    waiting = [docs / file.src_uri for file in files.documentation_pages()]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        for target in linked(page):
            if target in seen or target.is_relative_to(docs):
                continue
            seen.add(target)
            files.append(_generated(config, target))
            if target.suffix == ".md":
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Have links to files outside of ``docs`` lead to the pages that show them."""
    place = source_of(page.file.src_uri)
    here = posixpath.dirname(page.file.src_uri)

    def moved(found: re.Match[str]) -> str:
        start, link, anchor = found.groups()
        target = resolved(place, link)
        if target is None:
            return found[0]
        return start + posixpath.relpath(page_of(target), here or ".") + (anchor or "")

    return outside_of_code(markdown, lambda text: LINK.sub(moved, text))


def on_post_build(config: Any) -> None:
    """Fail if the reference lacks a public name: its docstring is missing, or its page."""
    pages = (Path(config.site_dir) / "reference").glob("*.html")
    there = {
        name for page in pages for name in re.findall(r'id="(drumline[\w.]*)"', page.read_text())
    }
    missing = [name for name in public_names() if ALIASES.get(name, name) not in there]
    if missing:
        raise PluginError(f"The reference has no entry for {', '.join(missing)}.")


def public_names() -> list[str]:
    """Return what the public modules list in ``__all__``, but modules and constants."""
    found = []
    for module in PUBLIC.split():
        path = ROOT / "drumline" / module.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if not path.exists():
            continue  # a module that another one offers under this name
        for name in _listed(path):
            is_module = any((path.parent / f"{name}{end}").exists() for end in ("", ".py"))
            if name not in UNLISTED and not is_module:
                found.append(f"drumline.{module}.{name}")
    return found


def _listed(path: Path) -> list[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def linked(page: Path) -> list[Path]:
    """Return the files and folders of the repository to which a Markdown page links."""
    found: list[Path | None] = []

    def note(text: str) -> str:
        found.extend(resolved(page, match[2]) for match in LINK.finditer(text))
        return text

    outside_of_code(page.read_text(), note)
    return [target for target in found if target is not None]


def resolved(page: Path, link: str) -> Path | None:
    """Return the file to which ``link`` leads from ``page``; none for URLs and broken links."""
    if re.match(r"[a-z]+:|#|/", link):
        return None
    target = Path(os.path.normpath(page.parent / link))
    return target if target.is_relative_to(ROOT) and target.exists() else None


def page_of(target: Path) -> str:
    """Return where in the site a file is: its place in ``docs``, or else in ``repository``."""
    if target.is_relative_to(ROOT / "docs"):
        return target.relative_to(ROOT / "docs").as_posix()
    name = (Path("repository") / target.relative_to(ROOT)).as_posix()
    return name if target.suffix in {".md", *IMAGES} else name + ".md"


def source_of(uri: str) -> Path:
    """Return the file of the repository that is shown at ``uri``; the inverse of `page_of`."""
    if not uri.startswith("repository/"):
        return ROOT / "docs" / uri
    target = ROOT / uri.removeprefix("repository/")
    return target if target.exists() else target.with_suffix("")


def outside_of_code(markdown: str, change: Any) -> str:
    """Apply ``change`` to all text of a page but blocks of code."""
    parts = re.split(r"(^```.*?^```|^    [^\n]*$)", markdown, flags=re.S | re.M)
    return "".join(part if i % 2 else change(part) for i, part in enumerate(parts))


def _generated(config: Any, target: Path) -> File:
    uri = page_of(target)
    if target.suffix in {".md", *IMAGES}:
        return File.generated(config, uri, abs_src_path=str(target))
    name = target.relative_to(ROOT).as_posix()
    if target.is_dir():
        rows = sorted(path.name for path in target.iterdir() if path.suffix in {".md", ".py"})
        text = f"# {name}\n\n" + "".join(f"- `{row}`\n" for row in rows)
        return File.generated(config, uri, content=text)
    language = LANGUAGES.get(target.suffix, "text")
    text = f"# {name}\n\n````{language}\n{target.read_text()}````\n"
    return File.generated(config, uri, content=text)
