"""Functions of strings, as ``tf.strings``, on arrays of any shape and in ``Dataset.map``."""

from drumline.strings.changing import lower, strip, upper
from drumline.strings.comparing import equal, not_equal
from drumline.strings.elementwise import length, substr
from drumline.strings.hashing import to_hash_bucket_fast, to_hash_bucket_strong
from drumline.strings.ngrams import ngrams
from drumline.strings.numbers import as_string, to_number
from drumline.strings.patterns import regex_full_match, regex_replace
from drumline.strings.split_join import join, reduce_join
from drumline.strings.splitting import split
from drumline.strings.text_vectorization import TextVectorization
from drumline.strings.unicode import (
    unicode_decode,
    unicode_decode_with_offsets,
    unicode_encode,
    unicode_split,
    unicode_transcode,
)
from drumline.strings.vocabulary_table import StaticVocabularyTable

__all__ = [
    "StaticVocabularyTable",
    "TextVectorization",
    "as_string",
    "equal",
    "join",
    "length",
    "lower",
    "ngrams",
    "not_equal",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_hash_bucket_fast",
    "to_hash_bucket_strong",
    "to_number",
    "unicode_decode",
    "unicode_decode_with_offsets",
    "unicode_encode",
    "unicode_split",
    "unicode_transcode",
    "upper",
]
