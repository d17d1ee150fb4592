"""The lists of tests in the Makefile name what is there: a wrong ``--ignore`` says nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Makefile").read_text().replace("\\\n", " ")
LISTS = dict(re.findall(r"^(\w+) := (\$\(addprefix .*)$", TEXT, re.M))


@pytest.mark.parametrize("name", ["WITH_OLDEST", "NEWEST_ESSENTIAL", "NEWEST"])
def test_listed_tests_exist(name: str) -> None:
    parts = re.findall(r"\$\(addprefix ([^,]+),([^)]*)\)", LISTS[name])
    paths = [prefix + word for prefix, words in parts for word in words.split()]
    assert len(paths) >= 5
    missing = [path for path in paths if not (ROOT / path.removeprefix("--ignore=")).exists()]
    assert missing == []
