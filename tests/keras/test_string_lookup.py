"""Strings as numbers without TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drumline.data import Dataset, TensorSpec
from drumline.keras.layers import StringLookup


def test_as_keras_counts(tmp_path: Path) -> None:
    lookup = StringLookup(["a", "é"])
    assert lookup(np.array([[b"a"], ["é".encode()], [b"x"]], object)).tolist() == [[1], [2], [0]]
    assert lookup(["x", "é"]).tolist() == [0, 2] and lookup("a").shape == ()
    assert lookup.get_vocabulary() == ["[UNK]", "a", "é"] and lookup.vocabulary_size() == 3
    masked = StringLookup(["a", "b"], mask_token="", oov_token="?")
    assert masked(["", "a", "c"]).tolist() == [0, 2, 1]
    assert masked.get_vocabulary() == ["", "?", "a", "b"]
    assert masked.get_vocabulary(include_special_tokens=False) == ["a", "b"]
    inverse = StringLookup(["a", "b"], invert=True)
    assert inverse([1, 2, 0, 9]).tolist() == [b"a", b"b", b"[UNK]", b"[UNK]"]
    file = tmp_path / "vocabulary.txt"
    file.write_text("b\na\n")
    assert StringLookup(str(file), num_oov_indices=0)(["a", "b"]).tolist() == [1, 0]


def test_in_a_dataset() -> None:
    words = Dataset.from_tensor_slices(["a", "c", "b"]).batch(2).map(StringLookup(["a", "b"]))
    assert words.element_spec == TensorSpec((None,), np.int64)
    assert [batch.tolist() for batch in words] == [[1, 0], [2]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"vocabulary": ["a", "b", "a"]}, ValueError, "'a' occurs twice"),
        ({"vocabulary": ["[UNK]"]}, ValueError, r"'\[UNK\]' occurs twice"),
        ({"vocabulary": ["a"], "num_oov_indices": 2}, NotImplementedError, "num_oov_indices=2"),
        ({"vocabulary": ["a"], "output_mode": "one_hot"}, NotImplementedError, "one_hot"),
    ],
)
def test_what_is_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        StringLookup(**arguments)
    with pytest.raises(ValueError, match="'z' is not in the vocabulary"):
        StringLookup(["a"], num_oov_indices=0)(["z"])
