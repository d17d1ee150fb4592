"""The tests that pages name for what they say about faults are there, by file and function."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAD = "| what is said | the test |"
PAGES = {
    "docs/training/checkpoints.md": 3,
    "docs/jobs/launch.md": 1,
    "docs/distribution/multi_worker.md": 1,
}
"""Pages, and how many tables of this kind each has at least."""


def tables(page: str) -> list[list[str]]:
    """The rows of each table of what is said and its test."""
    found = []
    lines = iter((ROOT / page).read_text().splitlines())
    for line in lines:
        if line == HEAD:
            assert next(lines) == "| --- | --- |", f"{page}: no table follows {HEAD!r}"
            rows = []
            while (row := next(lines, "")).startswith("|"):
                rows.append(row)
            found.append(rows)
    return found


def named(row: str) -> list[str]:
    """The tests in a row; ``::test_b`` is in the file named before."""
    tests, file = [], ""
    for name in re.findall(r"`([^`]+)`", row.rpartition(" | ")[2]):
        file, separator, function = (file + name if name.startswith("::") else name).partition("::")
        tests.append(file + separator + function)
    return tests


def lacks(test: str) -> str:
    """Why there is no such test; empty if there is."""
    file, _, function = test.partition("::")
    path = ROOT / file
    if not file.startswith("tests/") or not path.is_file():
        return f"there is no file {file}"
    functions = {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    if not functions:
        return f"{file} has no tests"
    return f"{file} has no {function}" if function and function not in functions else ""


@pytest.mark.parametrize("page", PAGES)
def test_the_tests_that_a_page_names_are_there(page: str) -> None:
    found = tables(page)
    assert len(found) >= PAGES[page]
    for row in [row for rows in found for row in rows]:
        tests = named(row)
        assert tests, f"{page}: no test in {row}"
        assert not [why for test in tests if (why := lacks(test))], row


def test_what_is_not_there_is_found() -> None:
    here = "tests/guides/test_named_tests.py"
    assert named(f"| `a` | `{here}::test_x`, `::test_y`, `tests/z.py` |") == [
        *(f"{here}::test_x", f"{here}::test_y", "tests/z.py")
    ]
    assert lacks(f"{here}::test_what_is_not_there_is_found") == lacks(here) == ""
    assert lacks(f"{here}::test_x") and lacks("tests/z.py") and lacks("tests/conftest.py")
