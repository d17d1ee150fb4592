"""Layers of strings and vocabularies: numbers that TensorFlow 2.21 gives, maps, and adaptation."""

import numpy as np
import pytest

from drumline.compat import tf

layers = tf.keras.layers
WORDS = ["a", "b", "c"]


def values(result):
    assert type(result) is tf.Tensor
    return np.asarray(result).tolist()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[1, 3], [0, 2]]),
        ({"num_oov_indices": 2}, [[2, 4], [0, 3]]),
        ({"mask_token": ""}, [[2, 4], [1, 3]]),
        ({"output_mode": "multi_hot"}, [[0, 1, 0, 1], [1, 0, 1, 0]]),
        ({"output_mode": "multi_hot", "num_oov_indices": 2}, [[0, 0, 1, 0, 1], [1, 0, 0, 1, 0]]),
        (
            {"output_mode": "count", "max_tokens": 5, "pad_to_max_tokens": True},
            [[0, 1, 0, 1, 0], [1, 0, 1, 0, 0]],
        ),
    ],
)
def test_strings_become_numbers_of_their_vocabulary(options, expected):
    layer = layers.StringLookup(vocabulary=WORDS, **options)
    given = tf.constant([["a", "c"], ["zz", "b"]])
    assert values(layer(given)) == expected
    again = layers.StringLookup.from_config(layer.get_config())
    assert values(again(given)) == expected


def test_one_hot_replaces_a_last_dimension_of_one():
    layer = layers.StringLookup(vocabulary=WORDS, output_mode="one_hot")
    assert values(layer(tf.constant([["a"], ["zz"]]))) == [[0, 1, 0, 0], [1, 0, 0, 0]]
    assert layer(tf.constant([["a", "b"]])).shape == (1, 2, 4)
    assert layer(tf.constant("a")).shape == (1, 4)


def test_numbers_become_strings_again():
    layer = layers.StringLookup(vocabulary=WORDS, invert=True)
    assert values(layer(tf.constant([0, 3, 9]))) == [b"[UNK]", b"c", b"[UNK]"]


def test_unknown_strings_are_an_error_without_a_number_for_them():
    layer = layers.StringLookup(vocabulary=WORDS, num_oov_indices=0)
    assert values(layer(tf.constant(["c", "a"]))) == [2, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="zz"):
        layer(tf.constant(["a", "zz"]))


def test_vocabularies_are_checked():
    with pytest.raises(ValueError, match="repeated"):
        layers.StringLookup(vocabulary=["a", "a"])
    with pytest.raises(ValueError, match="larger"):
        layers.StringLookup(vocabulary=WORDS, max_tokens=3)
    with pytest.raises(ValueError, match="no vocabulary"):
        layers.StringLookup()(tf.constant(["a"]))


def test_adapt_numbers_the_most_frequent_first():
    data = tf.data.Dataset.from_tensor_slices(["x", "y", "y", "z", "z"]).batch(2)
    layer = layers.StringLookup()
    layer.adapt(data)
    assert layer.get_vocabulary() == ["[UNK]", "z", "y", "x"]
    layer = layers.StringLookup(output_mode="tf_idf")
    layer.adapt(tf.constant([["x", "y"], ["y", "y"], ["z", "x"]]))
    np.testing.assert_allclose(
        values(layer(tf.constant([["q", "x"]]))), [[0.7675283551, 0, 0.6931471825, 0]], rtol=1e-6
    )


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_integers_have_numbers_too():
    given = tf.constant([[12, 1138], [42, 36]])
    layer = layers.IntegerLookup(vocabulary=[12, 36, 1138])
    assert values(layer(given)) == [[1, 3], [0, 2]]
    assert values(tf.function(layer)(given)) == [[1, 3], [0, 2]]
    layer = layers.IntegerLookup(vocabulary=[12, 36], num_oov_indices=2)
    assert values(layer(tf.constant([12, 1, 2, 3, -1]))) == [2, 1, 0, 1, 1]
    layer = layers.IntegerLookup(vocabulary=[12, 36], mask_token=0)
    assert values(layer(tf.constant([0, 12, 5]))) == [0, 2, 1]


def test_hashes_are_those_of_tensorflow():
    text = tf.constant([["A"], ["B"], ["C"], ["D"], ["E"]])
    assert values(layers.Hashing(3)(text)) == [[1], [0], [1], [1], [2]]
    assert values(layers.Hashing(3, salt=[133, 137])(text)) == [[1], [2], [1], [0], [2]]
    masked = layers.Hashing(3, mask_value="")(tf.constant(["A", "B", "", "C", "D"]))
    assert values(masked) == [1, 1, 0, 2, 2]
    assert values(layers.Hashing(5)(tf.constant([1, 2, 3, -4]))) == [4, 4, 1, 0]
    pairs = (tf.constant(["A", "B", "A"]), tf.constant([101, 101, 102]))
    assert values(layers.HashedCrossing(5)(pairs)) == [1, 4, 3]


@pytest.mark.parametrize("mode", ["int", "one_hot"])
def test_lookups_in_maps_give_what_they_give_alone(mode):
    layer = layers.StringLookup(vocabulary=WORDS, output_mode=mode)
    words = tf.constant(["a", "zz", "c"])
    mapped = tf.data.Dataset.from_tensor_slices(words).batch(2).map(lambda x: layer(x))
    found = np.concatenate([batch.numpy() for batch in mapped])
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, layer(words).numpy())


def test_text_vectorization_learns_and_takes_a_users_functions():
    def standardize(text):
        return tf.strings.regex_replace(tf.strings.lower(text), "!", "")

    layer = layers.TextVectorization(standardize=standardize, output_sequence_length=3)
    layer.adapt(tf.data.Dataset.from_tensor_slices(["Foo bar!", "bar"]).batch(2))
    assert layer.get_vocabulary() == ["", "[UNK]", "bar", "foo"]
    assert values(layer(tf.constant(["BAR! foo", "qux"]))) == [[2, 3, 0], [1, 0, 0]]
    mapped = tf.data.Dataset.from_tensor_slices(["BAR! foo"]).map(layer)
    assert [each.numpy().tolist() for each in mapped] == [[2, 3, 0]]


def test_discretization_adapts_to_arrays():
    layer = layers.Discretization(num_bins=4)
    layer.adapt(np.arange(16.0))
    assert values(layer(tf.constant([1.0, 5.0, 15.0]))) == [0, 1, 3]


@pytest.mark.parametrize(("former", "mode"), [("binary", "multi_hot"), ("tf-idf", "tf_idf")])
def test_former_names_of_output_modes(former, mode):
    weights = {"idf_weights": [0.5, 2.0]} if mode == "tf_idf" else {}
    words = tf.constant([["a", "b"], ["b", "c"]])
    texts = tf.constant(["a b", "b c"])
    for layer, given in ((layers.StringLookup, words), (layers.TextVectorization, texts)):
        old = layer(vocabulary=["a", "b"], output_mode=former, **weights)
        new = layer(vocabulary=["a", "b"], output_mode=mode, **weights)
        np.testing.assert_array_equal(old(given), new(given))
        assert old.get_config()["output_mode"] == mode
