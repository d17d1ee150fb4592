"""Strings as numbers without TensorFlow: maps, vocabularies, what is learned and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset, TensorSpec
from drumline.keras.layers import StringLookup, UnknownTokenError

WORDS = ["a", "b", "c"]
BATCH = np.array([[b"a", b"c"], [b"zz", b"b"]], object)


def test_as_keras_counts(tmp_path: Path) -> None:
    lookup = StringLookup(vocabulary=["a", "é"])
    assert isinstance(lookup, keras.Layer)
    assert lookup(np.array([[b"a"], ["é".encode()], [b"x"]], object)).tolist() == [[1], [2], [0]]
    assert lookup(["x", "é"]).tolist() == [0, 2] and lookup("a").shape == ()
    assert lookup.get_vocabulary() == ["[UNK]", "a", "é"] and lookup.vocabulary_size() == 3
    masked = StringLookup(vocabulary=["a", "b"], mask_token="", oov_token="?")
    assert masked(["", "a", "c"]).tolist() == [0, 2, 1]
    assert masked.get_vocabulary() == ["", "?", "a", "b"]
    assert masked.get_vocabulary(include_special_tokens=False) == ["a", "b"]
    inverse = StringLookup(vocabulary=["a", "b"], invert=True)
    assert inverse([1, 2, 0, 9]).tolist() == [b"a", b"b", b"[UNK]", b"[UNK]"]
    file = tmp_path / "vocabulary.txt"
    file.write_text("b\na\n")
    assert StringLookup(vocabulary=str(file), num_oov_indices=0)(["a", "b"]).tolist() == [1, 0]


# The expected numbers are those of TensorFlow 2.21 (tests/keras/layers/test_layers_like_tf.py).
MODES = [
    ({}, [[1, 3], [0, 2]]),
    ({"num_oov_indices": 2}, [[2, 4], [0, 3]]),
    ({"num_oov_indices": 3, "salt": [1, 2], "mask_token": "b"}, None),
    ({"num_oov_indices": 0, "vocabulary": [*WORDS, "zz"]}, [[0, 2], [3, 1]]),
    ({"mask_token": "", "oov_token": "c"}, [[2, 4], [1, 3]]),
    ({"output_mode": "multi_hot"}, [[0, 1, 0, 1], [1, 0, 1, 0]]),
    ({"output_mode": "multi_hot", "num_oov_indices": 2}, [[0, 0, 1, 0, 1], [1, 0, 0, 1, 0]]),
    ({"output_mode": "count", "mask_token": "zz"}, [[0, 1, 0, 1], [0, 0, 1, 0]]),
    (
        {"output_mode": "count", "max_tokens": 5, "pad_to_max_tokens": True},
        [[0, 1, 0, 1, 0], [1, 0, 1, 0, 0]],
    ),
    (
        {"output_mode": "tf_idf", "idf_weights": [1.0, 2.0, 6.0]},
        [[0, 1, 0, 6], [3, 0, 2, 0]],
    ),
    ({"output_mode": "one_hot"}, None),
]


@pytest.mark.parametrize(("options", "expected"), MODES)
def test_every_mode_is_native_in_a_map(options: dict[str, Any], expected: Any) -> None:
    options = dict(options)
    vocabulary = options.pop(
        "vocabulary", ["a", "c"] if options.get("mask_token") == "b" else WORDS
    )
    layer = StringLookup(vocabulary=vocabulary, **options)
    made = layer(BATCH)
    if expected is not None:
        assert made.tolist() == expected
    again = StringLookup.from_config(layer.get_config())
    np.testing.assert_array_equal(again(BATCH), made)
    dataset = Dataset.from_tensor_slices(np.concatenate([BATCH] * 5)).map(layer)
    assert "runs as Python" not in dataset.explain()
    single = np.stack(list(dataset))
    assert single.dtype == made.dtype
    np.testing.assert_array_equal(single, np.concatenate([made] * 5))
    batched = Dataset.from_tensor_slices(np.concatenate([BATCH] * 5)).batch(4).map(layer)
    assert "runs as Python" not in batched.explain()
    np.testing.assert_array_equal(np.concatenate(list(batched)), np.concatenate([made] * 5))


def test_unknown_strings_share_numbers_by_their_hash() -> None:
    layer = StringLookup(vocabulary=WORDS, num_oov_indices=3, mask_token="")
    unknown = np.array([b"x", b"y", b"zz", b"", b"[UNK]"], object)
    wanted = np.where(unknown == b"", 0, 1 + dl.strings.to_hash_bucket_fast(unknown, 3))
    np.testing.assert_array_equal(layer(unknown), wanted)
    assert layer.get_vocabulary()[:4] == ["", "[UNK]", "[UNK]", "[UNK]"]


def test_rows_of_different_lengths() -> None:
    lines = Dataset.from_tensor_slices(["a b", "", "zz a a"]).map(dl.strings.split)
    numbers = lines.map(StringLookup(vocabulary=WORDS))
    assert [row.tolist() for row in numbers] == [[1, 2], [], [0, 1, 1]]
    counts = lines.map(StringLookup(vocabulary=WORDS, output_mode="count"))
    assert "runs as Python" not in counts.explain()
    assert counts.element_spec == TensorSpec((4,), np.int64)
    assert [row.tolist() for row in counts] == [[0, 1, 1, 0], [0, 0, 0, 0], [1, 2, 0, 0]]
    ragged = lines.ragged_batch(3).map(StringLookup(vocabulary=WORDS, output_mode="multi_hot"))
    assert next(iter(ragged)).tolist() == [[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 0, 0]]


def test_what_comes_before_is_part_of_the_same_operation() -> None:
    def numbers(line: Any) -> Any:
        return StringLookup(vocabulary=WORDS)(dl.strings.split(dl.strings.lower(line)))

    dataset = Dataset.from_tensor_slices(["A x", "C"]).map(numbers)
    assert "strings.lower + strings.split + StringLookup" in dataset.explain()
    assert [row.tolist() for row in dataset] == [[1, 0], [3]]


def test_numbers_become_strings_in_a_map() -> None:
    layer = StringLookup(vocabulary=WORDS, invert=True)
    dataset = Dataset.from_tensor_slices(np.array([[0, 3], [9, -1]])).map(layer)
    assert "runs as Python" not in dataset.explain()
    assert [row.tolist() for row in dataset] == [[b"[UNK]", b"c"], [b"[UNK]", b"[UNK]"]]
    assert layer(jnp.array([1, 2])).tolist() == [b"a", b"b"]


@pytest.mark.parametrize("kind", ["array", "list", "elements", "batches", "pairs", "iterable"])
def test_adapt_numbers_the_most_frequent_first(kind: str) -> None:
    words = np.array([b"x", b"y", b"y", b"z", b"z", b"[UNK]"], object)
    dataset = Dataset.from_tensor_slices(words)
    data = {
        "array": words,
        "list": [word.decode() for word in words],
        "elements": dataset,
        "batches": dataset.batch(4),
        "pairs": Dataset.from_tensor_slices((words, np.arange(6))).batch(4),
        "iterable": iter([words[:2], words[2:]]),
    }[kind]
    layer = StringLookup()
    layer.adapt(data)
    assert layer.get_vocabulary() == ["[UNK]", "z", "y", "x"]
    layer.adapt(Dataset.from_tensor_slices(words).repeat(), steps=3)
    assert layer.get_vocabulary() == ["[UNK]", "y", "x"]
    layer.reset_state()
    with pytest.raises(ValueError, match="no vocabulary"):
        layer(words)


def test_weights_are_of_documents() -> None:
    rows = np.array([["x", "y"], ["y", "y"], ["z", "x"]], object)
    wanted = StringLookup(output_mode="tf_idf", max_tokens=4)
    wanted.adapt(rows)
    assert wanted.get_vocabulary() == ["[UNK]", "y", "x", "z"]
    # log(1 + documents / (1 + documents with it)), and for unknown ones their mean.
    learned = np.log(1 + 3 / (1 + np.array([2, 2, 1])))
    np.testing.assert_allclose(wanted.idf_weights, [learned.mean(), *learned], rtol=1e-6)
    made = StringLookup(output_mode="tf_idf", max_tokens=4)
    made.adapt(Dataset.from_tensor_slices(rows).batch(2))
    np.testing.assert_array_equal(made.idf_weights, wanted.idf_weights)
    again = StringLookup.from_config(made.get_config())
    np.testing.assert_array_equal(again([["q", "x"]]), made([["q", "x"]]))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"vocabulary": ["a", "b", "a"]}, ValueError, r"repeated .*'a'"),
        ({"vocabulary": ["a", ""], "mask_token": ""}, ValueError, "repeated or reserved"),
        ({"vocabulary": ["a", "[UNK]"], "invert": True}, ValueError, "repeated or reserved"),
        ({"vocabulary": [1, 2]}, ValueError, "has int32 values.*use IntegerLookup"),
        ({"vocabulary": []}, ValueError, "empty vocabulary"),
        ({"vocabulary": WORDS, "max_tokens": 3}, ValueError, "larger than the maximum"),
        ({"vocabulary": "nowhere.txt"}, ValueError, "nowhere.txt does not exist"),
        ({"vocabulary": WORDS, "output_mode": "tf_idf"}, ValueError, "idf_weights"),
        ({"max_tokens": WORDS}, TypeError, "vocabulary=\\['a'"),
        ({"output_mode": "hot"}, ValueError, "'hot'"),
        ({"sparse": True, "output_mode": "count"}, NotImplementedError, "sparse=True"),
    ],
)
def test_what_is_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        StringLookup(**arguments)


def test_calls_that_are_refused() -> None:
    layer = StringLookup(vocabulary=["a"], num_oov_indices=0)
    with pytest.raises(UnknownTokenError, match="b'z' is not in the vocabulary.*num_oov_indices=1"):
        layer(["z"])
    with pytest.raises(ValueError, match="b'z' is not in the vocabulary"):
        list(Dataset.from_tensor_slices(["a", "z"]).map(layer))
    with pytest.raises(ValueError, match="expected strings, got int64 values; use IntegerLookup"):
        layer(np.array([1, 2]))
    with pytest.raises(ValueError, match="after setting a static vocabulary"):
        layer.adapt(["a"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Dataset.from_tensors(BATCH).repeat(), "never ends .*steps=, or a part.*take"),
        (Dataset.from_tensors(np.arange(3)), "expected strings, got int64 values; use IntegerLook"),
        (Dataset.from_tensors({"word": BATCH}), r"elements must be arrays.*x\['name'\]"),
        (Dataset.from_tensors(BATCH).take(0), "no tokens to learn"),
        (np.array([[1.5]]), "expected strings, got float64 values; use Discretization"),
    ],
)
def test_data_that_cannot_be_learned_from(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"StringLookup\.adapt: .*{message}"):
        StringLookup().adapt(data)
