"""Integers as numbers of a vocabulary without TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drumline.data import Dataset, TensorSpec
from drumline.keras.layers import IntegerLookup


def test_as_keras_counts(tmp_path: Path) -> None:
    lookup = IntegerLookup(vocabulary=[12, 1138, 42])
    assert lookup(np.array([[12, 42], [7, -1]])).tolist() == [[1, 3], [0, 0]]
    assert lookup.get_vocabulary() == [-1, 12, 1138, 42] and lookup.vocabulary_size() == 4
    masked = IntegerLookup(vocabulary=[5, 3], mask_token=0, oov_token=-2)
    assert masked([0, 5, 9, 3]).tolist() == [0, 2, 1, 3]
    assert masked.get_vocabulary(include_special_tokens=False) == [5, 3]
    inverse = IntegerLookup(vocabulary=[12, 1138], invert=True)
    assert inverse([1, 2, 0, 9, -3]).tolist() == [12, 1138, -1, -1, -1]
    file = tmp_path / "vocabulary.txt"
    file.write_text("7\n5\n")
    assert IntegerLookup(vocabulary=str(file), num_oov_indices=0)([5, 7]).tolist() == [1, 0]


@pytest.mark.parametrize("far", [2**40, 7], ids=["searched", "in a table"])
@pytest.mark.parametrize(
    "options",
    [
        {"num_oov_indices": 0},
        {},
        {"num_oov_indices": 3},
        {"num_oov_indices": 3, "oov_method": "farmhash"},
        {"num_oov_indices": 3, "oov_method": "farmhash", "salt": 5},
        {"mask_token": 0},
        {"output_mode": "count", "mask_token": 0},
        {"output_mode": "one_hot"},
    ],
)
def test_in_a_dataset(far: int, options: dict[str, Any]) -> None:
    given = np.array([[far, 5], [far + 1, 3]])
    if options.get("num_oov_indices", 1):
        given = np.concatenate([given, [[0, -7], [far + 2, 4]]])
    lookup = IntegerLookup(vocabulary=[3, far, 5, far + 1], **options)
    wanted = lookup(given)
    again = IntegerLookup.from_config(lookup.get_config())
    np.testing.assert_array_equal(again(given), wanted)
    numbers = Dataset.from_tensor_slices(given).batch(3).map(lookup)
    assert "runs as Python" not in numbers.explain()
    assert all(leaf.dtype == np.int64 for leaf in [numbers.element_spec])
    np.testing.assert_array_equal(np.concatenate(list(numbers)), wanted)
    if "output_mode" not in options:
        first = lookup.num_oov_indices + (lookup.mask_token is not None)
        assert (wanted[:2] - first).tolist() == [[1, 2], [3, 0]]


def test_of_narrow_columns() -> None:
    given = np.array([1, 2, 255], np.uint8)
    numbers = Dataset.from_tensor_slices(given).map(IntegerLookup(vocabulary=[255, 2]))
    assert numbers.element_spec == TensorSpec((), np.int64)
    assert [int(x) for x in numbers] == [0, 2, 1]


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
@pytest.mark.parametrize(
    "options",
    [
        {"num_oov_indices": 2},
        {"mask_token": 0},
        {"output_mode": "multi_hot"},
        {"output_mode": "count", "mask_token": 0},
        {"output_mode": "one_hot"},
        {"output_mode": "tf_idf", "idf_weights": [2.0, 3.0]},
        {"invert": True},
    ],
)
def test_in_a_compiled_step_as_on_the_host(options: dict[str, Any]) -> None:
    given = np.array([[12, 0, 36, 36], [1, 2, 3, -1]])
    lookup = IntegerLookup(vocabulary=[12, 36], **options)
    np.testing.assert_array_equal(jax.jit(lookup)(jnp.asarray(given)), lookup(given))


def test_integers_that_cannot_be_part_of_a_step() -> None:
    with pytest.raises(TypeError, match="unknown integers are errors"):
        jax.jit(IntegerLookup(vocabulary=[1], num_oov_indices=0))(jnp.array([1]))


@pytest.mark.parametrize("kind", ["array", "elements", "batches"])
def test_adapt(kind: str) -> None:
    given = np.array([[7, 7, 2], [9, 2, 7], [9, 9, -1]])
    dataset = Dataset.from_tensor_slices(given)
    layer = IntegerLookup(output_mode="tf_idf", max_tokens=3)
    layer.adapt({"array": given, "elements": dataset, "batches": dataset.batch(2)}[kind])
    assert layer.get_vocabulary() == [-1, 9, 7]
    learned = np.log(1 + 3 / (1 + np.array([2, 2])))
    np.testing.assert_allclose(layer.idf_weights, [learned.mean(), *learned], rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary": [1, 2, 1]}, r"repeated .*\[1\]"),
        ({"vocabulary": [1, 0], "mask_token": 0}, "repeated or reserved"),
        ({"vocabulary": ["a", "b"]}, "has strings, .*use StringLookup"),
        ({"vocabulary": [1.5]}, "has float32 values"),
        ({"vocabulary": [True, False]}, "has bool values"),
        ({"vocabulary_dtype": "string"}, "vocabulary_dtype"),
        ({"salt": 3}, "oov_method='farmhash'"),
        ({"oov_method": "sha"}, "'sha'"),
    ],
)
def test_what_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IntegerLookup(**arguments)


def test_calls_and_files_that_are_refused(tmp_path: Path) -> None:
    layer = IntegerLookup(vocabulary=[1], num_oov_indices=0)
    with pytest.raises(ValueError, match="9 is not in the vocabulary"):
        layer([1, 9])
    with pytest.raises(ValueError, match="9 is not in the vocabulary"):
        list(Dataset.from_tensor_slices([1, 9]).map(layer))
    with pytest.raises(ValueError, match="expected integers, got strings; use StringLookup"):
        layer(["a"])
    with pytest.raises(ValueError, match="expected integers, got float32 values; use Discret"):
        layer([1.5])
    file = tmp_path / "vocabulary.txt"
    file.write_text("7\nseven\n")
    with pytest.raises(ValueError, match="line 2 of .*'seven', is no integer"):
        IntegerLookup(vocabulary=file)
    with pytest.raises(ValueError, match=r"IntegerLookup\.adapt: the dataset never ends"):
        IntegerLookup().adapt(Dataset.range(3).repeat())
