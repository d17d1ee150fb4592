"""Fails when a source file is longer than a reader should have to hold in mind."""

from __future__ import annotations

import sys
from pathlib import Path

LIMIT = 900
ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("benchmarks", "drumline", "drumline_command", "rust/src", "scripts", "tests")
SUFFIXES = {".py", ".pyi", ".rs"}


def too_long() -> list[str]:
    """Each file past the limit, with its length."""
    sources = (p for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.suffix in SUFFIXES)
    lengths = {path: len(path.read_text().splitlines()) for path in sorted(sources)}
    return [
        f"{path.relative_to(ROOT)} has {lines} lines; the limit is {LIMIT}. Split it by concept."
        for path, lines in lengths.items()
        if lines > LIMIT
    ]


if __name__ == "__main__":
    sys.exit("\n".join(too_long()) or 0)
