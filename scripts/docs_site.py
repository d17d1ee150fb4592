"""Hooks of mkdocs, which calls the functions here by their names; ``mkdocs.yml`` lists this file.

A link from a page to a file of the repository (``../examples/gan.py``) becomes a link to a page
that shows it. Pages with diagrams load mermaid from the site itself. A public name that the
reference lacks fails the build, and so does a page that would fetch from another host.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import posixpath
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import griffe
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\[[^\]]*\]\(|^\[[^\]]+\]: )([^)#\s]+)(#[^)\s]*)?", re.M)
LANGUAGES = {".py": "python", ".rs": "rust", ".toml": "toml", ".json": "json", ".yml": "yaml"}
IMAGES = {".png", ".svg"}
MERMAID = "assets/javascripts/mermaid.min.js"
FOREIGN = re.compile(r"\s*(https?:)?//", re.I)
FETCHED_BY_STYLES = re.compile(r"(?:@import\s+|url\()\s*[\"']?((?:https?:)?//[^\"')\s]+)", re.I)

PUBLIC = """
    audio config data data.experimental datasets distribute distribute.cluster_resolver
    distribute.coordinator errors image io jobs keras keras.callbacks keras.layers strings train
    video
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
    files.append(File.generated(config, MERMAID, abs_src_path=str(mermaid())))
    for uri, text in _pages_on_tensorflow().items():
        files.append(File.generated(config, uri, content=text))
    return files


def _pages_on_tensorflow() -> dict[str, str]:
    """The pages made of the look-alike's table of names, and of what tests and tutorials gave."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from scripts import support_page, tf_pages, tutorials_page

    return tf_pages.pages() | tutorials_page.page() | support_page.page()


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


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Have a page with diagrams load mermaid; the theme fetches it where no script has."""
    if '<pre class="mermaid">' not in output:
        return output
    source = posixpath.relpath(MERMAID, posixpath.dirname(page.url) or ".")
    return output.replace("</head>", f'<script src="{source}"></script></head>', 1)


def on_post_build(config: Any) -> None:
    """Fail if a page fetches from another host, or if the reference lacks a public name."""
    site = Path(config.site_dir)
    fetched = [
        f"{path.relative_to(site)}: {url}"
        for kind in ("html", "css", "svg")
        for path in site.rglob(f"*.{kind}")
        for url in foreign_hosts(path.read_text())
    ]
    if fetched:
        raise PluginError("The site must not fetch from other hosts:\n" + "\n".join(fetched))
    pages = (Path(config.site_dir) / "reference").glob("*.html")
    there = {
        name for page in pages for name in re.findall(r'id="(drumline[\w.]*)"', page.read_text())
    }
    missing = [name for name in public_names() if ALIASES.get(name, name) not in there]
    if missing:
        raise PluginError(f"The reference has no entry for {', '.join(missing)}.")


def mermaid() -> Path:
    """Return the file of mermaid that a package of the extra `docs` has in its theme."""
    package = importlib.util.find_spec("sphinx_immaterial")  # does not import it
    if package is None or package.origin is None:
        raise PluginError("Diagrams need mermaid: `make docs` installs the extra `docs` first.")
    return Path(package.origin).parent / "bundles/mermaid/mermaid.min.js"


class _Fetched(HTMLParser):
    """Finds what a browser fetches to show a page; links that a reader follows are not."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        names = ["src", "data", "poster", "xlink:href"]
        if tag == "link" and values.get("rel") not in {"canonical", "next", "prev", "edit"}:
            names.append("href")
        if tag in {"image", "use"}:  # of SVG
            names.append("href")
        self.urls += [values[name] for name in names if name in values]
        self.urls += values.get("srcset", "").split()


def foreign_hosts(text: str) -> list[str]:
    """Return the URLs on other hosts that a page, a style sheet or an SVG image has fetched."""
    parser = _Fetched()
    parser.feed(text)
    found = [url for url in parser.urls if FOREIGN.match(url)]
    return found + FETCHED_BY_STYLES.findall(text)


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
