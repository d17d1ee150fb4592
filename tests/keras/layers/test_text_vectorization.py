"""The layer of text: options, maps, what is learned, configurations, what is refused."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset, TensorSpec
from drumline.keras.layers import TextVectorization

TEXTS = ["Foo bar!", "bar baz", "foo, bar"]
GIVEN = np.array(["foo qux", "Bar baz bar", ""], object)


@keras.saving.register_keras_serializable("tests")
def without_vowels(text: Any) -> Any:
    return dl.strings.regex_replace(text, "[aeiou]", "")


@keras.saving.register_keras_serializable("tests")
def at_commas(text: Any) -> Any:
    return dl.strings.split(text, ",")


OPTIONS = [
    {},
    {"output_sequence_length": 2},
    {"output_mode": "multi_hot"},
    {"output_mode": "count", "ngrams": 2},
    {"output_mode": "tf_idf", "max_tokens": 7, "pad_to_max_tokens": True},
    {"standardize": "lower", "split": "character", "output_sequence_length": 9},
    {"standardize": without_vowels, "output_sequence_length": 4},
    {"split": at_commas, "standardize": None, "output_sequence_length": 2},
    {"ngrams": (2, 3), "output_mode": "int", "output_sequence_length": 3},
    {"standardize": None, "split": None},
]


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_it_gives_what_the_function_gives_alone_in_maps_and_again(options: dict[str, Any]) -> None:
    layer, core = TextVectorization(**options), dl.strings.TextVectorization(**options)
    layer.adapt(TEXTS)
    core.adapt(TEXTS)
    assert isinstance(layer, keras.Layer) and layer.get_vocabulary() == core.get_vocabulary()
    wanted = np.asarray(core(GIVEN))
    np.testing.assert_array_equal(layer(GIVEN), wanted)
    again = TextVectorization.from_config(layer.get_config())
    np.testing.assert_array_equal(again(list(GIVEN)), wanted)
    mapped = Dataset.from_tensor_slices(GIVEN).batch(2).map(layer)
    assert "runs as Python" not in mapped.explain()
    spec = mapped.element_spec
    assert spec == Dataset.from_tensor_slices(GIVEN).batch(2).map(core).element_spec
    if None not in spec.shape[1:]:
        np.testing.assert_array_equal(np.concatenate(list(mapped)), wanted)


def test_ragged_numbers() -> None:
    layer = TextVectorization(ragged=True, vocabulary=["bar", "foo"])
    made = layer(GIVEN)
    assert isinstance(made, dl.RaggedArray)
    assert [row.tolist() for row in made] == [[3, 1], [2, 1, 2], []]


@pytest.mark.parametrize("kind", ["elements", "batches", "pairs", "iterable", "steps"])
def test_adapt(kind: str) -> None:
    dataset = Dataset.from_tensor_slices(TEXTS)
    data = {
        "elements": dataset,
        "batches": dataset.batch(2),
        "pairs": Dataset.from_tensor_slices((TEXTS, [1, 0, 1])).batch(2),
        "iterable": iter([TEXTS[:1], TEXTS[1:]]),
        "steps": dataset.repeat(),
    }[kind]
    layer = TextVectorization()
    layer.adapt(data, steps=3 if kind == "steps" else None)
    assert layer.get_vocabulary() == ["", "[UNK]", "bar", "foo", "baz"]
    assert layer.vocabulary_size() == 5


def test_numbers_of_one_length_in_a_map() -> None:
    layer = TextVectorization(output_sequence_length=2, vocabulary=["bar", "foo"])
    mapped = Dataset.from_tensor_slices(GIVEN).map(layer)
    assert mapped.element_spec == TensorSpec((2,), np.int64)
    assert [row.tolist() for row in mapped] == [[3, 1], [2, 1], [0, 0]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"vocabulary": [1, 2]}, ValueError, "int values, such as 1.*make strings"),
        ({"vocabulary": ["a", "a"]}, ValueError, "(?i)twice"),
        ({"vocabulary": ["a"], "output_mode": "tf_idf"}, ValueError, "idf_weights"),
        ({"idf_weights": [1.0]}, ValueError, "`idf_weights` go with a `vocabulary`"),
        ({"vocabulary": "nowhere.txt"}, ValueError, "nowhere.txt does not exist"),
        ({"output_mode": "count", "output_sequence_length": 2}, ValueError, "of output_mode 'int'"),
        ({"standardize": "upper"}, ValueError, "'upper'"),
        ({"sparse": True, "output_mode": "count"}, NotImplementedError, "sparse=True"),
    ],
)
def test_what_is_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        TextVectorization(**arguments)


def test_data_that_cannot_be_learned_from() -> None:
    with pytest.raises(ValueError, match=r"TextVectorization\.adapt: the dataset never ends"):
        TextVectorization().adapt(Dataset.from_tensors("a").repeat())
    with pytest.raises(ValueError, match="never come to the end.*take"):
        dl.strings.TextVectorization().adapt(Dataset.from_tensors("a").repeat())
    with pytest.raises(TypeError, match="takes a dataset of strings"):
        TextVectorization().adapt(Dataset.range(3))
    with pytest.raises(ValueError, match="after setting a static vocabulary"):
        TextVectorization(vocabulary=["a"]).adapt(["a"])
    with pytest.raises(ValueError, match="no vocabulary"):
        TextVectorization()(["a"])
