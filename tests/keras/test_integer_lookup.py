"""Integers as numbers of a vocabulary without TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drumline.data import Dataset, TensorSpec
from drumline.keras.layers import IntegerLookup


def test_as_keras_counts(tmp_path: Path) -> None:
    lookup = IntegerLookup([12, 1138, 42])
    assert lookup(np.array([[12, 42], [7, -1]])).tolist() == [[1, 3], [0, 0]]
    assert lookup.get_vocabulary() == [-1, 12, 1138, 42] and lookup.vocabulary_size() == 4
    masked = IntegerLookup([5, 3], mask_token=0, oov_token=-2)
    assert masked([0, 5, 9, 3]).tolist() == [0, 2, 1, 3]
    assert masked.get_vocabulary(include_special_tokens=False) == [5, 3]
    inverse = IntegerLookup([12, 1138], invert=True)
    assert inverse([1, 2, 0, 9, -3]).tolist() == [12, 1138, -1, -1, -1]
    file = tmp_path / "vocabulary.txt"
    file.write_text("7\n5\n")
    assert IntegerLookup(str(file), num_oov_indices=0)([5, 7]).tolist() == [1, 0]


@pytest.mark.parametrize("oov", [0, 1])
def test_in_a_dataset(oov: int) -> None:
    given = np.array([2**40, 5, 2**40 + 1, 3])
    lookup = IntegerLookup([3, 2**40, 5, 2**40 + 1], num_oov_indices=oov)
    numbers = Dataset.from_tensor_slices(given).batch(3).map(lookup)
    assert numbers.element_spec == TensorSpec((None,), np.int64)
    assert [(batch - oov).tolist() for batch in numbers] == [[1, 2, 3], [0]]
    assert ("compiled" in numbers.explain()) == (oov == 1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"vocabulary": [1, 2, 1]}, ValueError, "1 occurs twice"),
        ({"vocabulary": [-1]}, ValueError, "-1 occurs twice"),
        ({"vocabulary": [1], "num_oov_indices": 2}, NotImplementedError, "num_oov_indices=2"),
        ({"vocabulary": [1], "output_mode": "one_hot"}, NotImplementedError, "one_hot"),
    ],
)
def test_what_is_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        IntegerLookup(**arguments)
    with pytest.raises(ValueError, match="9 is not in the vocabulary"):
        IntegerLookup([1], num_oov_indices=0)([1, 9])
