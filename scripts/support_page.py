"""Write the table of strategies and ways to train, of the tests that passed.

    python -m scripts.support_page --store

runs ``tests/support`` and stores which cells passed. `scripts/docs_site.py` calls `page` when the
documentation is built. A cell without a stored test is shown empty.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.table import COLUMNS, EMPTY, REFUSED, ROWS, cell_test, columns_of

PAGE = "reference/support.md"
STORED = Path(__file__).resolve().parents[1] / "docs" / "reference" / "support.json"

_HEAD = """# Strategies and ways to train

Each "yes" is a test that passed: it trains, evaluates, saves, restores, trains on, and compares
with the same program without a strategy. Synchronous strategies are compared number by number;
with parameter servers, whose workers go each at its own pace, where training ends is compared. All
programs are of `drumline.compat.tf`, on CPUs: `tests/support/programs.py`.
Those of `TPUStrategy` ran on CPU devices in a TPU's place, never on one:
[TPUs](../distribution/tpus.md).

"""


class Passed:
    """A plugin of pytest's that notes which tests passed."""

    def __init__(self) -> None:
        self.tests: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed:
            self.tests.add(report.nodeid)


def cells() -> list[str]:
    """The tests of all cells."""
    return [cell_test(row, column) for row in ROWS for column in columns_of(row)]


def page(stored: Path = STORED) -> dict[str, str]:
    """The text of the page, by its place below ``docs``."""
    passed = json.loads(stored.read_text(encoding="utf-8"))["passed"]
    lines = [
        f"| strategy | {' | '.join(COLUMNS.values())} | run on |",
        f"| --- |{' --- |' * (len(COLUMNS) + 1)}",
    ]
    for name, row in ROWS.items():
        here = [
            "yes" if cell_test(name, column) in passed else REFUSED.get((name, column), "")
            for column in COLUMNS
        ]
        lines.append(f"| `{row.strategy}` | {' | '.join(here)} | {row.ran_on} |")
    for strategy, reason in EMPTY.items():
        lines.append(f"| `{strategy}` |{' |' * len(COLUMNS)} {reason} |")
    tests = "".join(f"- `{test}`\n" for test in passed)
    return {PAGE: f"{_HEAD}{chr(10).join(lines)}\n\n## Tests\n\n{tests}"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tests, and store which passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", action="store_true", required=True)
    parser.add_argument("--to", type=Path, default=STORED)
    given = parser.parse_args(arguments)
    import pytest  # the documentation is built without it

    noted = Passed()
    pytest.main(["-q", "tests/support"], plugins=[noted])
    passed = [test for test in cells() if test in noted.tests]
    given.to.write_text(json.dumps({"passed": passed}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
