"""The hooks by which pages are made of files outside of docs."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

if importlib.util.find_spec("mkdocs") is None:
    pytest.skip("mkdocs is not installed; `make docs` installs it", allow_module_level=True)

from scripts import docs_site


def shown(markdown: str, uri: str) -> str:
    page = SimpleNamespace(file=SimpleNamespace(src_uri=uri))
    return docs_site.on_page_markdown(markdown, page)


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("../../examples/gan.py", "../repository/examples/gan.py.md"),
        ("../../CONTRIBUTING.md#tests", "../repository/CONTRIBUTING.md#tests"),
        ("../data/index.md#the-tables", "../data/index.md#the-tables"),
        ("https://example.org/a.md", "https://example.org/a.md"),
        ("../../../outside.md", "../../../outside.md"),
        ("../no_such_file.md", "../no_such_file.md"),
        ("#here", "#here"),
    ],
)
def test_links_out_of_docs_lead_to_pages(link: str, expected: str) -> None:
    assert shown(f"See [this]({link}).", "training/checkpoints.md") == f"See [this]({expected})."
    assert shown(f"[this]: {link}\n", "training/checkpoints.md") == f"[this]: {expected}\n"


def test_links_of_files_that_are_shown_lead_back() -> None:
    text = shown("[data](docs/data/index.md), [license](LICENSE)", "repository/README.md")
    assert text == "[data](../data/index.md), [license](LICENSE.md)"


@pytest.mark.parametrize(
    "uri", ["data/index.md", "repository/examples/gan.py.md", "repository/README.md"]
)
def test_a_page_knows_its_source(uri: str) -> None:
    assert docs_site.page_of(docs_site.source_of(uri)) == uri


def test_code_is_left_alone() -> None:
    code = "```text\n[this](../examples/gan.py)\n```\n"
    assert shown(code, "data/index.md") == code


def test_public_names_are_those_that_users_import() -> None:
    names = docs_site.public_names()
    assert "drumline.data.Dataset" in names and "drumline.io.parse_example" in names
    assert "drumline.data.experimental" not in names and "drumline.data.AUTOTUNE" not in names
    assert len(names) > 150


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://example.org/a.js"></script>',
        "<script src='//example.org/a.js'></script>",
        '<link rel="stylesheet" href="https://example.org/a.css">',
        '<link rel="preconnect" href="https://example.org">',
        '<img alt="" src="http://example.org/a.png">',
        '<img srcset="a.png 1x, https://example.org/b.png 2x">',
        '<iframe src="https://example.org"></iframe>',
        '<svg><image href="https://example.org/a.png"/></svg>',
        "@import 'https://example.org/a.css';",
        "@font-face { src: url(https://example.org/a.woff2); }",
    ],
)
def test_what_pages_fetch_from_other_hosts_is_found(text: str) -> None:
    (found,) = docs_site.foreign_hosts(text)
    assert "example.org" in found


@pytest.mark.parametrize(
    "text",
    [
        '<a href="https://example.org">read</a>',
        '<script src="../assets/a.js"></script><link rel="stylesheet" href="a.css">',
        '<link rel="canonical" href="https://example.org/a.html">',
        '<svg xmlns="http://www.w3.org/2000/svg"><use href="#glyph"/></svg>',
        "a { background: url(data:image/png;base64,AA==); }",
    ],
)
def test_links_and_files_of_the_site_are_not_foreign(text: str) -> None:
    assert docs_site.foreign_hosts(text) == []


@pytest.mark.parametrize(
    ("url", "source"),
    [("index.html", "assets/"), ("concepts/pipeline.html", "../assets/")],
)
def test_pages_with_diagrams_load_mermaid_from_the_site(url: str, source: str) -> None:
    page = SimpleNamespace(url=url)
    text = '<html><head></head><pre class="mermaid"><code>flowchart</code></pre></html>'
    shown = docs_site.on_post_page(text, page)
    assert f'<script src="{source}javascripts/mermaid.min.js"></script></head>' in shown
    assert docs_site.on_post_page(text.replace("mermaid", "text"), page) == text.replace(
        "mermaid", "text"
    )


def test_mermaid_is_in_the_extra() -> None:
    assert docs_site.mermaid().stat().st_size > 1_000_000
