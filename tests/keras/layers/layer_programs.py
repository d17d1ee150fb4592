"""What preprocessing layers give, by Keras on TensorFlow or by drumline, as numpy's arrays.

Run as a script it computes with TensorFlow and pickles the results to a file.
"""

from __future__ import annotations

import itertools
import pickle
import sys
from typing import Any

import numpy as np

WORDS = np.array([["a", "c", ""], ["zz", "b", "a"], ["ü", "c", "c"]], object)
CODES = np.array([[12, 36, -1], [7, 0, 12], [2**40, 36, 36]])
TEXTS = ["Foo bar!", "bar,  baz", "", "foo foo-bar", "The Bär, THE bar"]
GIVEN = np.array([["foo qux"], ["Bar baz bar"], ["the (bar) bär"]], object)


def string_lookups(layers: Any, batches: Any) -> list[Any]:
    found = []
    modes = ("int", "one_hot", "multi_hot", "count", "tf_idf")
    for mode, oov, mask in itertools.product(modes, (1, 3), (None, "a")):
        vocabulary = ["b", "c"] if mask else ["a", "b", "c"]
        weights = {"idf_weights": [0.5, 2.0, 3.0][: len(vocabulary)]} if mode == "tf_idf" else {}
        salts = (None, [3, 5]) if oov > 1 else (None,)
        for salt in salts:
            layer = layers.StringLookup(
                vocabulary=vocabulary,
                num_oov_indices=oov,
                mask_token=mask,
                output_mode=mode,
                salt=salt,
                **weights,
            )
            found += [layer(WORDS), layer(WORDS[:, :1]), layer(WORDS[0])]
    padded = layers.StringLookup(
        vocabulary=["a"], max_tokens=6, pad_to_max_tokens=True, output_mode="count"
    )
    found.append(padded(WORDS))
    # The unknown token may be in the vocabulary.
    found.append(layers.StringLookup(vocabulary=["a", "[UNK]", "c"])(WORDS))
    for mode, most in (("int", None), ("tf_idf", 5), ("count", None)):
        for data in (WORDS, batches(WORDS), WORDS.reshape(-1), batches(WORDS.reshape(-1))):
            layer = layers.StringLookup(output_mode=mode, max_tokens=most, mask_token="")
            layer.adapt(data)
            found += [np.array(layer.get_vocabulary(), object), layer(WORDS)]
    return found


def integer_lookups(layers: Any, batches: Any) -> list[Any]:
    found = []
    for mode, mask in itertools.product(("int", "one_hot", "multi_hot", "count"), (None, 0)):
        for options in (
            {},
            {"num_oov_indices": 3},
            {"num_oov_indices": 3, "oov_method": "farmhash"},
            {"num_oov_indices": 3, "oov_method": "farmhash", "salt": 9},
        ):
            layer = layers.IntegerLookup(
                vocabulary=[36, 12], mask_token=mask, output_mode=mode, **options
            )
            found.append(layer(CODES))
    found.append(layers.IntegerLookup(vocabulary=[36, 12], invert=True)(CODES % 4))
    for mode in ("int", "tf_idf"):
        for data in (CODES, batches(CODES)):
            layer = layers.IntegerLookup(output_mode=mode, max_tokens=4)
            layer.adapt(data)
            found += [np.array(layer.get_vocabulary()), layer(CODES)]
    return found


def texts(layers: Any, batches: Any) -> list[Any]:
    found = []
    for options in (
        {},
        {"output_sequence_length": 2},
        {"standardize": "lower", "split": "character"},
        {"standardize": "strip_punctuation", "ngrams": 2},
        {"ngrams": (1, 3), "output_mode": "count"},
        {"output_mode": "multi_hot", "max_tokens": 4, "pad_to_max_tokens": True},
        {"output_mode": "tf_idf", "max_tokens": 12, "pad_to_max_tokens": True},
        {"standardize": None},
    ):
        for data in (TEXTS, batches(np.array(TEXTS, object))):
            layer = layers.TextVectorization(**options)
            layer.adapt(data)
            found += [np.array(layer.get_vocabulary(), object), layer(GIVEN)]
    return found


def hashes(layers: Any, batches: Any) -> list[Any]:
    found = []
    for salt, mode in itertools.product((None, 7, [133, 137]), ("int", "one_hot", "multi_hot")):
        found.append(layers.Hashing(6, salt=salt, mask_value="c", output_mode=mode)(WORDS))
        found.append(layers.Hashing(6, salt=salt, mask_value=36, output_mode=mode)(CODES))
    for mode in ("int", "one_hot"):
        layer = layers.HashedCrossing(1000, output_mode=mode)
        found.append(layer((WORDS[0], CODES[0])))
        found.append(layer((WORDS[:, :1], CODES[:, 1:2], WORDS[:, 2:])))
    return found


def numbers(layers: Any, batches: Any) -> list[Any]:
    rows = np.random.default_rng(0).normal(3, 2, (40, 3)).astype(np.float32)
    found = []
    for data in (rows, batches(rows)):
        normal, bins = layers.Normalization(), layers.Discretization(num_bins=5)
        normal.adapt(data)
        bins.adapt(data)
        found += [normal(rows), bins(rows), np.array(bins.bin_boundaries)]
    for mode in ("multi_hot", "one_hot", "count"):
        found.append(layers.CategoryEncoding(9, output_mode=mode)(np.abs(CODES[:2]) % 9))
    return found


PROGRAMS = (string_lookups, integer_lookups, texts, hashes, numbers)


def results(layers: Any, batches: Any) -> dict[str, list[np.ndarray]]:
    """The results of all programs.

    Args:
        layers: a module with the layers.
        batches: makes a dataset of batches of an array's rows.
    """
    return {
        program.__name__: [np.asarray(each) for each in program(layers, batches)]
        for program in PROGRAMS
    }


if __name__ == "__main__":
    import keras
    import tensorflow as tf

    def dataset(rows: np.ndarray) -> Any:
        return tf.data.Dataset.from_tensor_slices(rows).batch(2)

    with open(sys.argv[1], "wb") as file:
        pickle.dump(results(keras.layers, dataset), file)
