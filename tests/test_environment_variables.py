"""The table of environment variables has those that the code names, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"\bDRUMLINE_[A-Z]+(?:_[A-Z]+)*\b")
PREFIXES = {"DRUMLINE_TLS"}


def named(*folders: str) -> set[str]:
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    texts = [path.read_text() for path in files if path.suffix in {".py", ".rs", ".sh"}]
    return {name for text in texts for name in NAME.findall(text)} - PREFIXES


def test_the_table_is_complete() -> None:
    page = (ROOT / "docs/reference/environment.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `DRUMLINE_")]
    table = {name for row in rows for name in NAME.findall(row)}
    assert table == named("drumline", "drumline_command", "rust/src")
    assert set(NAME.findall(page)) <= table | named("tests", "scripts", "benchmarks")


def test_the_code_reads_no_other_variables_by_parts() -> None:
    """Names that are put together would escape the search."""
    text = "".join(path.read_text() for path in (ROOT / "drumline").rglob("*.py"))
    assert set(re.findall(r"DRUMLINE_(\w*)\{", text)) == {"TLS_", "DATA_"}
