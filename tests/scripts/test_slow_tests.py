"""`tests/slow_tests.txt` names tests that there are."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES = [
    line
    for line in (ROOT / "tests" / "slow_tests.txt").read_text().splitlines()
    if not line.startswith("#")
]


def _tests_of(path: Path) -> set[str]:
    """The tests of a file, as in ``test_adds`` and ``TestSums::test_adds``."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        names |= {prefix + m.name for m in members if isinstance(m, ast.FunctionDef)}
    return names


def test_each_line_names_a_test() -> None:
    assert NAMES
    found: dict[str, set[str]] = {}
    for line in NAMES:
        file, _, name = line.partition("[")[0].partition("::")
        if file not in found:
            found[file] = _tests_of(ROOT / file)
        assert name in found[file], f"tests/slow_tests.txt names {line}, and there is no such test"


def test_no_test_is_named_twice() -> None:
    assert sorted(set(NAMES)) == NAMES
    whole = {line for line in NAMES if "[" not in line}
    assert not [line for line in NAMES if "[" in line and line.partition("[")[0] in whole]
