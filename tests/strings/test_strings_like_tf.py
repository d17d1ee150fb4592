"""The same strings in TensorFlow, where it is installed (the ``bench`` extra)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline import RaggedArray, strings

tf = pytest.importorskip("tensorflow", reason="compares with TensorFlow, which the bench extra has")

words = st.text("abAB 0é\t\n", max_size=8).map(str.encode)
texts = st.lists(
    st.one_of(st.binary(max_size=80), st.text(max_size=20).map(str.encode), words), min_size=1
)
PATTERNS = [r"\w+", "[^a-z]", "(a|b)+", ".", r"\s*", "x?", "[[:punct:]]", r"\d+|\b", "(?i)A."]
ENCODINGS = ["UTF-8", "UTF-16-BE", "UTF-32-BE"]
NUMBERS = st.one_of(
    st.floats(width=32).map(str),
    st.integers(-(2**65), 2**65).map(str),
    st.text("0123456789+-.eExnaif() \t", max_size=8),
)
# TensorFlow's threads take subnormal numbers for zero.
FLOATS = st.one_of(
    st.floats(width=width, allow_subnormal=False).map(np.dtype(f"f{width // 8}").type)
    for width in (32, 64)
)


def same(mine, theirs):
    theirs = theirs.to_list() if hasattr(theirs, "to_list") else theirs.numpy()
    mine = mine.to_list() if isinstance(mine, RaggedArray) else np.asarray(mine)
    theirs, mine = (v.tolist() if isinstance(v, np.ndarray) else v for v in (theirs, mine))
    assert mine == theirs


def outcome(call):
    """What a call gives, or that it refuses."""
    try:
        value = call()
    except (ValueError, tf.errors.InvalidArgumentError):
        return "refused"
    return value.numpy() if hasattr(value, "numpy") else value


@given(texts, st.sampled_from(["", " ", "a", "ab"]), st.integers(-1, 3))
def test_split(values, separator, most):
    same(strings.split(values, separator, most), tf.strings.split(values, separator, most))


@given(texts, st.sampled_from(PATTERNS), st.sampled_from(["-", r"<\0>", ""]), st.booleans())
def test_regex(values, pattern, rewrite, everywhere):
    theirs = tf.strings.regex_replace(values, pattern, rewrite, everywhere)
    same(strings.regex_replace(values, pattern, rewrite, everywhere), theirs)
    theirs = tf.strings.regex_full_match(values, pattern)
    same(strings.regex_full_match(values, pattern), theirs)


@given(texts)
def test_hashes_and_lengths(values):
    same(strings.to_hash_bucket_fast(values, 997), tf.strings.to_hash_bucket_fast(values, 997))
    key = [3, 2**63 - 5]
    strong = tf.strings.to_hash_bucket_strong(values, 997, key)
    same(strings.to_hash_bucket_strong(values, 997, key), strong)
    for unit in ("BYTE", "UTF8_CHAR"):
        same(strings.length(values, unit), tf.strings.length(values, unit))


@given(texts)
def test_changes(values):
    same(strings.strip(values), tf.strings.strip(values))
    for name in ("lower", "upper"):
        same(getattr(strings, name)(values), getattr(tf.strings, name)(values))


@given(texts, st.integers(-9, 9), st.integers(0, 9), st.sampled_from(["BYTE", "UTF8_CHAR"]))
def test_substrings(values, start, length, unit):
    for value in values:
        mine = outcome(lambda value=value: strings.substr(value, start, length, unit))
        assert mine == outcome(lambda value=value: tf.strings.substr(value, start, length, unit))


@given(texts, st.integers(1, 3), st.sampled_from([None, "#", ("<", ">")]), st.booleans())
def test_ngrams(values, width, pads, short):
    arguments = {"pad_values": pads, "preserve_short_sequences": short}
    rows = RaggedArray(np.array(values, object), [0, len(values) // 2, len(values)])
    theirs = tf.RaggedTensor.from_row_splits(values, rows.row_splits)
    same(strings.ngrams(rows, width, **arguments), tf.strings.ngrams(theirs, width, **arguments))


@given(texts, st.sampled_from(["", "-"]))
def test_joined(values, separator):
    joined = tf.strings.reduce_join([values, values], axis=-1, separator=separator)
    same(strings.reduce_join([values, values], axis=-1, separator=separator), joined)
    joined = tf.strings.join([values, "x", values], separator)
    same(strings.join([values, "x", values], separator), joined)


@given(texts, st.sampled_from(["replace", "ignore"]))
def test_unicode(values, errors):
    decoded = tf.strings.unicode_decode(values, "UTF-8", errors)
    same(strings.unicode_decode(values, "UTF-8", errors), decoded)
    split = tf.strings.unicode_split(values, "UTF-8", errors)
    same(strings.unicode_split(values, "UTF-8", errors), split)


@given(texts, st.sampled_from(ENCODINGS), st.sampled_from(ENCODINGS), st.booleans())
def test_transcoded(values, source, target, controls):
    arguments = (source, target, "replace", 63, controls)
    same(
        strings.unicode_transcode(values, *arguments),
        tf.strings.unicode_transcode(values, *arguments),
    )


@given(NUMBERS, st.sampled_from(["float32", "float64", "int32", "int64"]))
def test_numbers(text, dtype):
    mine = outcome(lambda: strings.to_number(text, np.dtype(dtype)))
    np.testing.assert_array_equal(mine, outcome(lambda: tf.strings.to_number(text, dtype)))


@given(FLOATS, st.integers(-1, 8), st.booleans(), st.sampled_from(["", "0"]))
def test_printed(number, precision, scientific, fill):
    arguments = {"precision": precision, "scientific": scientific, "fill": fill}
    arguments |= {"width": 12} if fill else {}
    assert strings.as_string(number, **arguments) == tf.strings.as_string(number, **arguments)
    shortest = tf.strings.as_string(number, shortest=True).numpy()
    assert strings.as_string(number, shortest=True) == shortest
