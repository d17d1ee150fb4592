"""``tf.data.experimental`` without TensorFlow: the essentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumline.compat import tf
from tests.compat.data_experimental_programs import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs(name: str, tmp_path: Path) -> None:
    assert PROGRAMS[name](tf, tmp_path) is not None


def test_what_programs_yield(tmp_path: Path) -> None:
    numbers = [row[2] for row in PROGRAMS["Counter"](tf, tmp_path)]
    assert numbers == [2, 5, 8]
    first = PROGRAMS["CsvDataset"](tf, tmp_path)[2]
    assert [value for *_, value in first] == [5, 7.0, b"z"]
    shuffled = tf.data.Dataset.range(5).apply(tf.data.experimental.shuffle_and_repeat(5, 2, seed=1))
    assert sorted(int(value) for value in shuffled) == sorted([*range(5)] * 2)
    with pytest.raises(ValueError, match="empty"):
        tf.data.experimental.from_list([])


def test_what_structures_say(tmp_path: Path) -> None:
    said = PROGRAMS["structures"](tf, tmp_path)
    assert said[:6] == ["DatasetSpec", True, [2, 3], True, False, True]
    assert said[6] == {"a": ("float32", [2, 3]), "b": ("string", [])}
