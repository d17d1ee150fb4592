"""Bins of strings and integers by their hash: TensorFlow's numbers, alone and in maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drumline.data import Dataset
from drumline.keras.layers import HashedCrossing, Hashing

LETTERS = np.array(["A", "B", "C", "D", "E"], object)


def in_map(layer: Any, *columns: Any) -> np.ndarray:
    """What a layer gives in a map over batches, which has to be native."""
    given = columns if len(columns) > 1 else columns[0]
    dataset = Dataset.from_tensor_slices(given).batch(2)
    mapped = dataset.map((lambda *x: layer(x)) if len(columns) > 1 else layer)
    assert "runs as Python" not in mapped.explain()
    return np.concatenate(list(mapped))


@pytest.mark.parametrize(
    ("options", "given", "expected"),
    [
        ({}, LETTERS, [1, 0, 1, 1, 2]),  # of Keras's documentation
        ({"mask_value": ""}, np.array(["A", "B", "", "C", "D"], object), [1, 1, 0, 2, 2]),
        ({"salt": [133, 137]}, LETTERS, [1, 2, 1, 0, 2]),
        ({"num_bins": 5}, np.array([1, 2, 3, -4]), [4, 4, 1, 0]),
        ({"num_bins": 5, "mask_value": 3}, np.array([1, 3, 2], np.int32), None),
        ({"output_mode": "one_hot"}, LETTERS[:, None], None),
        ({"output_mode": "multi_hot", "dtype": "bfloat16"}, LETTERS[:4].reshape(2, 2), None),
        ({"output_mode": "count"}, np.array([[1, 1], [2, -5]]), None),
        ({"dtype": "int32"}, LETTERS, [1, 0, 1, 1, 2]),
        ({"num_bins": 1, "mask_value": "A"}, LETTERS, [0] * 5),
    ],
)
def test_bins(options: dict[str, Any], given: Any, expected: Any) -> None:
    layer = Hashing(**{"num_bins": 3, **options})
    made = np.asarray(layer(given))
    assert made.dtype == options.get("dtype", "float32" if "output_mode" in options else "int64")
    if expected is not None:
        assert made.tolist() == expected
    np.testing.assert_array_equal(Hashing.from_config(layer.get_config())(given), made)
    np.testing.assert_array_equal(in_map(layer, given), made)


def test_modes_are_of_the_bins() -> None:
    bins = Hashing(4)(LETTERS[:4].reshape(2, 2))
    counts = Hashing(4, output_mode="count")(LETTERS[:4].reshape(2, 2))
    for row, found in zip(counts, bins, strict=True):
        assert row.tolist() == np.bincount(found, minlength=4).tolist()


def test_crosses() -> None:
    pair = np.array(["A", "B", "A"], object), np.array([101, 101, 102])
    layer = HashedCrossing(5)
    assert layer(pair).tolist() == [1, 4, 3]  # of TensorFlow 2.21
    assert in_map(layer, *pair).tolist() == [1, 4, 3]
    assert layer([["A", "B", "A"], [101, 101, 102]]).tolist() == [1, 4, 3]
    encoded = HashedCrossing(5, output_mode="one_hot")
    assert encoded(pair).argmax(-1).tolist() == [1, 4, 3]
    np.testing.assert_array_equal(in_map(encoded, *(x[:, None] for x in pair)), encoded(pair))
    assert HashedCrossing.from_config(encoded.get_config())(pair).shape == (3, 5)


@pytest.mark.parametrize(
    ("make", "given", "error", "message"),
    [
        (lambda: Hashing(0), None, ValueError, "num_bins"),
        (lambda: Hashing(2, salt=[1, 2, 3]), None, ValueError, "one integer or two"),
        (lambda: Hashing(2, output_mode="tf_idf"), None, ValueError, "tf_idf"),
        (lambda: Hashing(2, dtype="float32"), None, ValueError, "'int32' or 'int64'"),
        (lambda: Hashing(2, sparse=True), None, NotImplementedError, "sparse=True"),
        (lambda: Hashing(2), np.ones(2), TypeError, "float64 values; use keras.layers.Discret"),
        (lambda: Hashing(2, mask_value=""), np.arange(2), ValueError, "none of the inputs'"),
        (lambda: HashedCrossing(2, "count"), None, ValueError, "'count'"),
        (lambda: HashedCrossing(2), LETTERS, ValueError, "at least two inputs"),
        (lambda: HashedCrossing(2), (LETTERS, LETTERS[:2]), ValueError, "equal shape"),
    ],
)
def test_what_is_refused(make: Any, given: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make()(given)
