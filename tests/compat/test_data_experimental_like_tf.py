"""``tf.data.experimental`` yields what TensorFlow's does, where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumline.compat import tf as ours
from tests.compat.data_experimental_programs import PROGRAMS

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, tmp_path: Path) -> None:
    assert PROGRAMS[name](ours, tmp_path) == PROGRAMS[name](theirs, tmp_path)
