"""Keras's ``fit`` under each strategy: a column of the support table."""

from __future__ import annotations

import pytest

from tests.support.table import rows_of


@pytest.mark.parametrize("row", rows_of("fit"))
def test_fit(row: str, check) -> None:
    """Training, evaluating, saving, restoring and going on is as on one device."""
    check(row, "fit")
