"""``TextVectorization``, against what Keras 3.15 gives with TensorFlow."""

import numpy as np
import pytest

import drumline as dl
from drumline.strings import TextVectorization, regex_replace, split, upper

TEXTS = ["The cat, sat on the MAT!", "a dog; the cat", "", "é É naïve  cat\tdog\n"]
LEARNED = ["the", "cat", "dog", "é", "É", "sat", "on", "naïve", "mat", "a"]
NUMBERS = [[2, 3, 7, 8, 2, 10], [11, 4, 2, 3, 0, 0], [0] * 6, [5, 6, 9, 3, 4, 0]]
IDF = [1.007802963256836, 0.8472978472709656, 0.6931471824645996, 0.8472978472709656]


def adapted(**arguments):
    layer = TextVectorization(**arguments)
    layer.adapt(dl.data.Dataset.from_tensor_slices(TEXTS).batch(3))
    return layer


def test_numbers_are_those_of_keras():
    layer = adapted()
    assert layer.get_vocabulary() == ["", "[UNK]", *LEARNED]
    assert layer.get_vocabulary(include_special_tokens=False) == LEARNED
    assert layer.vocabulary_size() == 12
    for inputs in (TEXTS, [[text] for text in TEXTS], np.array(TEXTS, object)):
        found = layer(inputs)
        assert found.dtype == np.int64
        assert found.tolist() == NUMBERS
    assert layer(TEXTS[0]).tolist() == NUMBERS[0]
    assert layer(["zebra"]).tolist() == [[1]]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"output_sequence_length": 3}, [[2, 3, 7], [11, 4, 2], [0, 0, 0], [5, 6, 9]]),
        ({"max_tokens": 5, "output_sequence_length": 2}, [[2, 3], [1, 4], [0, 0], [1, 1]]),
        ({"ngrams": 2, "output_sequence_length": 2}, [[2, 3], [22, 5], [0, 0], [7, 9]]),
        (
            {"ngrams": (2,)},
            [[2, 10, 6, 7, 5], [12, 9, 2, 0, 0], [0] * 5, [3, 4, 8, 11, 0]],
        ),
        (
            {"split": "character", "max_tokens": 8, "output_sequence_length": 5},
            [[3, 7, 5, 2, 1], [4, 2, 1, 6, 1], [0] * 5, [1, 2, 1, 2, 1]],
        ),
        ({"split": None}, [3, 4, 0, 2]),
        (
            {"standardize": None, "output_sequence_length": 2},
            [[13, 11], [12, 9], [0, 0], [4, 5]],
        ),
        (
            {"standardize": "strip_punctuation", "output_sequence_length": 2},
            [[11, 2], [10, 4], [0, 0], [5, 6]],
        ),
        (
            {"output_mode": "multi_hot", "max_tokens": 5},
            [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [0] * 5, [1, 0, 1, 1, 1]],
        ),
        (
            {"output_mode": "count", "max_tokens": 6, "pad_to_max_tokens": True},
            [[3, 2, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], [0] * 6, [1, 0, 1, 1, 1, 1]],
        ),
    ],
)
def test_arguments_mean_what_they_do_in_keras(arguments, wanted):
    assert adapted(**arguments)(TEXTS).tolist() == wanted


def test_ragged_numbers():
    rows = [[2, 3, 7, 8, 2, 10], [11, 4, 2, 3], [], [5, 6, 9, 3, 4]]
    assert adapted(ragged=True)(TEXTS).to_list() == rows
    cut = adapted(ragged=True, output_sequence_length=3)
    assert cut(TEXTS).to_list() == [row[:3] for row in rows]


def test_counts_are_weighted():
    layer = adapted(output_mode="tf_idf")
    np.testing.assert_allclose(layer.idf_weights[:4], IDF, rtol=1e-6)
    found = layer(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0, :4], [0, 2 * IDF[1], IDF[2], 0], rtol=1e-6)
    given = TextVectorization(vocabulary=["a", "cat"], output_mode="tf_idf", idf_weights=[0.5, 2.0])
    assert given(TEXTS).tolist() == [[6.25, 0, 2], [2.5, 0.5, 2], [0, 0, 0], [5, 0, 2]]


def test_one_native_operation_in_map():
    layer = adapted(output_sequence_length=3)
    texts = dl.data.Dataset.from_tensor_slices((TEXTS, [0, 1, 2, 3]))
    dataset = texts.map(lambda text, label: (layer(text) * 2, label))
    assert "native strings.TextVectorization | compiled" in dataset.explain()
    assert dataset.element_spec[0] == dl.TensorSpec((3,), np.int64)
    wanted = [[2, 3, 7], [11, 4, 2], [0, 0, 0], [5, 6, 9]]
    assert [(row // 2).tolist() for row, _ in dataset] == wanted
    batched = texts.batch(3).map(lambda text, label: (layer(text), label))
    assert [row.tolist() for row, _ in batched] == [wanted[:3], wanted[3:]]


def test_rows_of_different_lengths_are_padded_by_batches():
    layer = adapted()
    dataset = dl.data.Dataset.from_tensor_slices(TEXTS).map(lambda text: layer(text))
    (padded,) = dataset.padded_batch(4)
    assert padded.tolist() == NUMBERS


def test_functions_of_the_users():
    layer = TextVectorization(standardize=upper, split=lambda text: split(text, ","))
    layer.adapt(TEXTS)
    assert layer.get_vocabulary()[2:] == [
        "é É NAïVE  CAT\tDOG\n",
        "THE CAT",
        "A DOG; THE CAT",
        " SAT ON THE MAT!",
    ]
    assert layer(TEXTS).tolist() == [[3, 5], [4, 0], [0, 0], [2, 0]]
    dataset = dl.data.Dataset.from_tensor_slices(TEXTS).map(lambda text: layer(text))
    assert [row.tolist() for row in dataset] == [[3, 5], [4], [0], [2]]
    kept = TextVectorization(split=lambda text: split(text, " "), vocabulary=["cat", "the"])
    assert kept("The cat!").tolist() == [3, 2]
    dashed = TextVectorization(standardize=lambda x: regex_replace(x, "t", "-"), vocabulary=["ca-"])
    assert dashed("cat").tolist() == [2]


def test_all_kinds_of_data_teach_the_same():
    single = dl.data.Dataset.from_tensor_slices(TEXTS)
    for data in (TEXTS, single, single.batch(3), iter([np.array(TEXTS, object)])):
        layer = TextVectorization(output_mode="tf_idf")
        layer.adapt(data)
        assert layer.get_vocabulary() == ["[UNK]", *LEARNED]
        np.testing.assert_allclose(layer.idf_weights[:4], IDF, rtol=1e-6)
    layer = TextVectorization()
    layer.adapt(single.batch(1).repeat(), steps=1)
    assert layer.get_vocabulary()[2:] == ["the", "sat", "on", "mat", "cat"]
    with pytest.raises(TypeError, match="takes a dataset of strings, this one has"):
        layer.adapt(dl.data.Dataset.range(3))


def test_vocabularies_are_checked(tmp_path):
    assert TextVectorization(vocabulary=["", "[UNK]", "a"]).get_vocabulary()[2:] == ["a"]
    path = tmp_path / "words.txt"
    path.write_text("b\né\n", "utf-8")
    assert TextVectorization(vocabulary=path).get_vocabulary()[2:] == ["b", "é"]
    for arguments, message in (
        ({"vocabulary": ["a", "a"]}, '"a" occurs twice'),
        ({"vocabulary": ["a", ""]}, "an empty token"),
        ({"vocabulary": []}, "the vocabulary is empty"),
        ({"vocabulary": ["a", "b"], "max_tokens": 3}, "leaves room for 1"),
        ({"vocabulary": ["a"], "output_mode": "tf_idf"}, "idf_weights go with"),
        ({"vocabulary": ["a"], "idf_weights": [1.0]}, "idf_weights go with"),
        ({"output_mode": "count", "output_sequence_length": 3}, "are of output_mode 'int'"),
        ({"output_mode": "counts"}, "output_mode must be one of"),
        ({"standardize": "upper"}, "standardize must be None, a function or one of"),
        ({"pad_to_max_tokens": True}, "needs max_tokens"),
        ({"max_tokens": 1}, "greater than 1"),
        ({"ngrams": (0,)}, "ngrams must be positive"),
    ):
        with pytest.raises(ValueError, match=message):
            TextVectorization(**arguments)
    with pytest.raises(ValueError, match="there is no vocabulary; call adapt"):
        TextVectorization()("a")
    with pytest.raises(ValueError, match="adapt would replace it"):
        TextVectorization(vocabulary=["a"]).adapt(TEXTS)
    with pytest.raises(ValueError, match="text to split has one dimension"):
        adapted()([["a", "b"]])
