"""The page on strategies and ways to train, and what is stored for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import support_page
from tests.support.table import COLUMNS, ROWS


def test_every_stored_test_is_there_and_every_test_is_stored() -> None:
    """A cell is a column's file and its parameters, which are `rows_of`."""
    root = support_page.STORED.parents[2]
    passed = json.loads(support_page.STORED.read_text())["passed"]
    assert passed == support_page.cells(), "run python -m scripts.support_page --store"
    for test in passed:
        path, _, name = test.partition("::")
        text = (root / path).read_text()
        column = name.partition("[")[0]
        assert f"def {column}(" in text
        assert f'("row", rows_of("{column.removeprefix("test_")}"))' in text


def test_a_cell_whose_test_did_not_pass_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(support_page.EMPTY, "AbsentStrategy", "not yet")
    (row, *_), (column, *_) = ROWS, COLUMNS
    missing = support_page.cell_test(row, column)
    stored = tmp_path / "support.json"
    rest = [test for test in support_page.cells() if test != missing]
    stored.write_text(json.dumps({"passed": rest}))
    text = support_page.page(stored)[support_page.PAGE]
    assert "| `OneDeviceStrategy` |  | yes | yes | one device" in text
    assert "| `AbsentStrategy` | | | | not yet |" in text
    assert "two CPU devices in a TPU's place: never run on a TPU |" in text
    assert missing not in text and rest[0] in text
